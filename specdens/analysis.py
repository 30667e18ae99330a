"""Questions to a measured spectrum, none of which costs another product.

`outliers` beyond the bulk, power laws (`fit_power_law`), random-matrix laws (`fit_semicircle`, `fit_marchenko_pastur`)
and the `distance` between two spectra.
"""

from specdens._distance import distance
from specdens._laws import MarchenkoPastur, Semicircle
from specdens._outliers import Outliers, outliers
from specdens._power_law import PowerLaw, fit_power_law
from specdens._random_matrix import LawFit, fit_marchenko_pastur, fit_semicircle

__all__ = [
    "LawFit",
    "MarchenkoPastur",
    "Outliers",
    "PowerLaw",
    "Semicircle",
    "distance",
    "fit_marchenko_pastur",
    "fit_power_law",
    "fit_semicircle",
    "outliers",
]
