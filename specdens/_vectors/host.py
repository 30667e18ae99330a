"""Vector operations on the memory of the CPU, NumPy's or torch's."""

from __future__ import annotations

from typing import Any

import array_api_compat as aac
import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdens._typing import Array
from specdens._vectors import dispatch, numpy_passes
from specdens._vectors.base import ThreeTerm, Vectors, dtype_name, ignore_nonfinite


class HostVectors(Vectors):
    """Vectors in the memory of the CPU: `dispatch.three_term` decides which implementation serves large ones."""

    def __init__(self, like: Array) -> None:
        super().__init__(like)
        self._is_numpy = aac.is_numpy_array(like)
        self._returns_sums = self._is_numpy and not self.is_complex  # ⟨w, w⟩ of complex vectors may be real
        self._wide_name = dtype_name(self.wide)

    def from_host(self, values: ArrayLike, dtype: Any = None) -> Array:
        name = self.name if dtype is None else self._wide_name if dtype is self.wide else dtype_name(dtype)
        array = np.array(values, dtype=name, order="C")
        return array if self._is_numpy else self.xp.from_numpy(array)

    def to_host(self, x: Array) -> NDArray[Any]:
        return np.asarray(x) if self._is_numpy else super().to_host(x)

    def holds(self, x: Any) -> bool:
        return self._is_numpy and type(x) is np.ndarray and x.dtype == self.dtype

    @ignore_nonfinite
    def dot(self, x: Array, y: Array) -> Array:
        if type(x) is type(y) is np.ndarray and x.ndim == 1:
            return np.asarray(sum(numpy_passes.dots_of_parts(x, y), start=np.zeros((), self.wide)))
        return super().dot(x, y)

    @ignore_nonfinite
    def times(self, coefficients: Array, factors: ArrayLike) -> Array:
        return coefficients * self.from_host(factors, self.wide)

    def numbers(self, *coefficients: Array) -> list[list[Any]]:
        if not self._is_numpy:
            return super().numbers(*coefficients)
        return [each.reshape(-1).tolist() for each in coefficients]

    def _three_term(self, task: ThreeTerm) -> tuple[Array, Array, Array]:
        sums = dispatch.three_term(task)
        if sums is None:
            return super()._three_term(task)
        vw, ww = sums if self._returns_sums else map(self._scalars, sums)
        return task.w, vw, ww

    def _scalars(self, values: NDArray[Any] | None) -> Array:
        """Return inner products as the library has them."""
        return None if values is None else self.from_host(values, self.wide)
