"""specdens: the density of the eigenvalues of anything that can multiply a vector."""

from specdens import adapters, analysis, typing
from specdens._cross.density import CrossDensity
from specdens._cross.measure import CrossMeasure
from specdens._cross.rule import CrossEstimate
from specdens._cross.run import cross_measure, weighted_measure
from specdens._density.density import Density
from specdens._distributions.atoms import Atoms
from specdens._distributions.cdf import Cdf
from specdens._distributions.interval import Interval
from specdens._eigenpairs.result import EigenPairs
from specdens._eigenpairs.subspace_iteration import subspace_iteration
from specdens._eigenpairs.top import top_eigenpairs
from specdens._exceptions import SpecdensWarning
from specdens._extend import extend
from specdens._kpm.kpm import kpm
from specdens._lanczos.bounds import normalize, spectral_bounds
from specdens._lanczos.fast import fast_lanczos
from specdens._lanczos.slow import slow_lanczos
from specdens._lanczos.xtrace import XTrace, xtrace
from specdens._measure.base import Measure
from specdens._measure.chebyshev_moments import ChebyshevMoments
from specdens._measure.convergence import Convergence
from specdens._measure.ensemble import EnsembleMeasure, average
from specdens._measure.estimate import Count, Estimate, Estimates
from specdens._measure.lanczos import SpectralMeasure
from specdens._measure.resolvent import Resolvent
from specdens._operators.base import CheaperForm, Operator
from specdens._operators.check import OperatorReport, check_operator, inspect_operator
from specdens._operators.combination import Combination
from specdens._operators.convert import as_operator
from specdens._operators.deflation import Deflated, deflate
from specdens._operators.finite_difference import FiniteDifference
from specdens._operators.gram import Gram, gram
from specdens._operators.graph import graph_laplacian
from specdens._operators.normalize import Normalized
from specdens._operators.projection import Projected
from specdens._operators.row_distributed import RowDistributed
from specdens._operators.wrappers import Counted, Wrapper
from specdens._plotting.intensity_map import plot_map
from specdens._plotting.loglog import plot_loglog
from specdens._plotting.many import plot_densities, plot_grid
from specdens._running.monitor import Monitor
from specdens._running.progress import Progress
from specdens._spectral_density import spectral_density
from specdens._storage.save_load import load, save
from specdens._storage.save_load import own_version as _own_version
from specdens._typing import LinearOperator, OperatorLike

__all__ = [
    "Atoms",
    "Cdf",
    "CheaperForm",
    "ChebyshevMoments",
    "Combination",
    "Convergence",
    "Count",
    "Counted",
    "CrossDensity",
    "CrossEstimate",
    "CrossMeasure",
    "Deflated",
    "Density",
    "EigenPairs",
    "EnsembleMeasure",
    "Estimate",
    "Estimates",
    "FiniteDifference",
    "Gram",
    "Interval",
    "LinearOperator",
    "Measure",
    "Monitor",
    "Normalized",
    "Operator",
    "OperatorLike",
    "OperatorReport",
    "Progress",
    "Projected",
    "Resolvent",
    "RowDistributed",
    "SpecdensWarning",
    "SpectralMeasure",
    "Wrapper",
    "XTrace",
    "__version__",
    "adapters",
    "analysis",
    "as_operator",
    "average",
    "check_operator",
    "cross_measure",
    "deflate",
    "extend",
    "fast_lanczos",
    "gram",
    "graph_laplacian",
    "inspect_operator",
    "kpm",
    "load",
    "normalize",
    "plot_densities",
    "plot_grid",
    "plot_loglog",
    "plot_map",
    "save",
    "slow_lanczos",
    "spectral_bounds",
    "spectral_density",
    "subspace_iteration",
    "top_eigenpairs",
    "typing",
    "weighted_measure",
    "xtrace",
]

__version__ = _own_version()


def __dir__() -> list[str]:
    return list(__all__)
