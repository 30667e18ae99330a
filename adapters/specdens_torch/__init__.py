"""specdens_torch: curvature of torch models as operators for specdens."""

from specdens_torch._classes import ClassSpectrum, ClassTraces
from specdens_torch._dual import Dual
from specdens_torch._operators import CurvatureOperator
from specdens_torch.curvature import Curvature

__all__ = ["ClassSpectrum", "ClassTraces", "Curvature", "CurvatureOperator", "Dual"]
