"""Questions to a measured spectrum: outliers, power laws, random-matrix laws, distances. None costs a product."""

from specdens._outliers import Outliers, outliers

__all__ = ["Outliers", "outliers"]
