"""Vector operations on the memory of the CPU, NumPy's or torch's."""

from __future__ import annotations

from typing import Any

import array_api_compat as aac
import numpy as np
from numpy.typing import NDArray

from specdens._typing import Array
from specdens._vectors import dispatch
from specdens._vectors.base import ThreeTerm, Vectors, dtype_name, ignore_nonfinite


class HostVectors(Vectors):
    """Vectors in the memory of the CPU: `dispatch.three_term` decides which implementation serves large ones."""

    def __init__(self, like: Array) -> None:
        super().__init__(like)
        self._is_numpy = aac.is_numpy_array(like)
        self._wide_name = dtype_name(self.wide)

    def from_host(self, values: NDArray[Any], dtype: Any = None) -> Array:
        name = self.name if dtype is None else self._wide_name if dtype is self.wide else dtype_name(dtype)
        array = np.array(values, dtype=name, order="C")
        return array if self._is_numpy else self.xp.from_numpy(array)

    def to_host(self, x: Array) -> NDArray[Any]:
        return np.asarray(x) if self._is_numpy else super().to_host(x)

    @ignore_nonfinite
    def _three_term(self, task: ThreeTerm) -> tuple[Array, Array, Array]:
        sums = dispatch.three_term(task)
        return super()._three_term(task) if sums is None else (task.w, *map(self._scalars, sums))

    def _scalars(self, values: NDArray[Any] | None) -> Array:
        """Return inner products as the library has them."""
        return None if values is None else self.from_host(values, self.wide)
