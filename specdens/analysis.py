"""Questions to a measured spectrum, none of which costs another product.

`outliers` beyond the bulk, `significant_components` of data, power laws (`fit_power_law`), random-matrix laws
(`fit_semicircle`, `fit_marchenko_pastur`) and the `distance` between two spectra.
"""

from specdens._analysis.components import Components, significant_components
from specdens._analysis.distance import Distance, distance
from specdens._analysis.outliers import outliers
from specdens._analysis.power_law import PowerLaw, fit_power_law
from specdens._analysis.random_matrix_fit import LawFit, fit_marchenko_pastur, fit_semicircle
from specdens._analysis.random_matrix_laws import MarchenkoPastur, Semicircle
from specdens._measure.find_outliers import Outliers
from specdens._measure.isolated_tail import IsolatedTail

__all__ = [
    "Components",
    "Distance",
    "IsolatedTail",
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
    "significant_components",
]
