"""specdens_torch: curvature of torch models as operators for specdens."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise ImportError("specdens_torch needs torch. Install the extra: pip install 'specdens[torch]'") from _error

from specdens_torch._class_picture import ClassStructure, plot_class_structures
from specdens_torch._class_structure import ClassSpectrum, ClassTraces
from specdens_torch._curvature import Curvature
from specdens_torch._data.shards import shard
from specdens_torch._heterogeneity import Heterogeneity, heterogeneity
from specdens_torch._minibatches import MinibatchEigenvalues
from specdens_torch._operators.curvature_operator import CurvatureOperator
from specdens_torch._operators.dual import Dual
from specdens_torch._operators.named_densities import Densities
from specdens_torch._operators.off_diagonal import OffDiagonal
from specdens_torch._sharding.shard_parameters import shard_parameters
from specdens_torch._weights.densities import WeightDensities, weight_densities
from specdens_torch._weights.spectrum import WeightSpectrum

__all__ = [
    "ClassSpectrum",
    "ClassStructure",
    "ClassTraces",
    "Curvature",
    "CurvatureOperator",
    "Densities",
    "Dual",
    "Heterogeneity",
    "MinibatchEigenvalues",
    "OffDiagonal",
    "WeightDensities",
    "WeightSpectrum",
    "heterogeneity",
    "plot_class_structures",
    "shard",
    "shard_parameters",
    "weight_densities",
]
