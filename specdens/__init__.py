"""specdens: the density of the eigenvalues of anything that can multiply a vector."""

from specdens import analysis
from specdens._as_operator import as_operator
from specdens._atoms import Atoms
from specdens._bounds import Interval, Normalized, normalize, spectral_bounds
from specdens._chebyshev_moments import ChebyshevMoments
from specdens._check import OperatorReport, check_operator
from specdens._combine import Combination, Counted, Projected
from specdens._deflation import Deflated, deflate
from specdens._density import Density
from specdens._eigenpairs import EigenPairs
from specdens._errors import SpecdensWarning
from specdens._fast_lanczos import extend, fast_lanczos
from specdens._files import load, save
from specdens._kpm import kpm
from specdens._measure import Convergence, SpectralMeasure
from specdens._monitor import Monitor, Progress
from specdens._operators import LinearOperator, Operator
from specdens._plot_loglog import plot_loglog
from specdens._plot_many import plot_densities, plot_grid
from specdens._readings import Estimate
from specdens._slow_lanczos import slow_lanczos
from specdens._spectral_density import spectral_density
from specdens._subspace_iteration import subspace_iteration
from specdens._top_eigenpairs import top_eigenpairs

__all__ = [
    "Atoms",
    "ChebyshevMoments",
    "Combination",
    "Convergence",
    "Counted",
    "Deflated",
    "Density",
    "EigenPairs",
    "Estimate",
    "Interval",
    "LinearOperator",
    "Monitor",
    "Normalized",
    "Operator",
    "OperatorReport",
    "Progress",
    "Projected",
    "SpecdensWarning",
    "SpectralMeasure",
    "analysis",
    "as_operator",
    "check_operator",
    "deflate",
    "extend",
    "fast_lanczos",
    "kpm",
    "load",
    "normalize",
    "plot_densities",
    "plot_grid",
    "plot_loglog",
    "save",
    "slow_lanczos",
    "spectral_bounds",
    "spectral_density",
    "subspace_iteration",
    "top_eigenpairs",
]
