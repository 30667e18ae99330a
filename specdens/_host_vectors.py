"""Vector operations on the memory of the CPU, NumPy's or torch's."""

from __future__ import annotations

from typing import Any

import array_api_compat as aac
import numpy as np
from numpy.typing import NDArray

from specdens import _fast, _passes
from specdens._vectors import Array, Terms, Vectors, dtype_name, quietly


class HostVectors(Vectors):
    """The same operations on the memory of the CPU: compiled kernels, or NumPy in threads, for large ones."""

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

    @quietly
    def three_term(
        self, w: Array, v: Array, v_prev: Array, terms: Terms, *, dots: bool = True, squares: bool = True
    ) -> tuple[Array, Array, Array]:
        kernels = _fast.kernels_for(w, v, v_prev)
        if kernels is not None:
            return w, *map(self._scalars, kernels.three_term(w, v, v_prev, terms))
        views = [_fast.host_view(x) for x in (w, v, v if v_prev is None else v_prev)]
        if views[0] is None or views[1] is None or views[2] is None or views[0].size < _fast.IN_THREADS:
            return super().three_term(w, v, v_prev, terms, dots=dots, squares=squares)
        sums = _passes.three_term(views[0], views[1], views[2], terms, dots=dots, squares=squares)
        return w, *map(self._scalars, sums)

    def _scalars(self, values: NDArray[Any] | None) -> Array:
        """Return inner products as the library has them."""
        return None if values is None else self.from_host(values, self.wide)
