"""The types that stand in public signatures, for annotations in code that calls them.

Classes of results, operators and reports are names of `specdens` itself. The names here are aliases and the states of
recurrences: nothing to construct, but what a function of your own may take or return.

Examples
--------
>>> import specdens as sd
>>> from specdens.typing import Drawable, ExecutorLike
>>> def draw(A: sd.OperatorLike, executor: ExecutorLike | None = None) -> Drawable:
...     return sd.spectral_density(A, executor=executor)
"""

from typing import TypeAlias

from specdens._analysis.distance import Spectrum
from specdens._analysis.log_bins import Part
from specdens._analysis.power_law import Per
from specdens._analysis.random_matrix_fit import LawType
from specdens._analysis.white_noise import NoiseTest
from specdens._cross.rule import Numbers
from specdens._density.density import Density
from specdens._kpm.recurrence import ChebyshevRecurrence
from specdens._lanczos.recurrence import Recurrence
from specdens._measure.base import Measure
from specdens._running.executor import ExecutorLike
from specdens._running.monitor import Snapshot, Stage
from specdens._storage.save_load import Result
from specdens._typing import Array, Floats, LinearOperator, OperatorLike

Drawable: TypeAlias = Density | Measure
"""What `plot_densities` and `plot_grid` draw."""

__all__ = [
    "Array",
    "ChebyshevRecurrence",
    "Drawable",
    "ExecutorLike",
    "Floats",
    "LawType",
    "LinearOperator",
    "NoiseTest",
    "Numbers",
    "OperatorLike",
    "Part",
    "Per",
    "Recurrence",
    "Result",
    "Snapshot",
    "Spectrum",
    "Stage",
]
