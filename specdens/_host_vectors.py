"""Vector operations on the memory of the CPU, NumPy's or torch's."""

from __future__ import annotations

from typing import Any

import array_api_compat as aac
import numpy as np
from numpy.typing import NDArray

from specdens import _fast, _passes
from specdens._vectors import Array, Terms, Vectors


class HostVectors(Vectors):
    """The same operations on the memory of the CPU: compiled kernels, or NumPy in threads, for large ones."""

    def __init__(self, like: Array) -> None:
        super().__init__(like)
        self._is_numpy = aac.is_numpy_array(like)

    def from_host(self, values: NDArray[Any], dtype: Any = None) -> Array:
        if self._is_numpy:
            return np.array(values, dtype=self.dtype if dtype is None else dtype)
        return super().from_host(values, dtype)

    def to_host(self, x: Array) -> NDArray[Any]:
        return np.asarray(x) if self._is_numpy else super().to_host(x)

    def three_term(
        self, w: Array, v: Array, v_prev: Array, terms: Terms, *, dots: bool = True, squares: bool = True
    ) -> tuple[Array, Array, Array]:
        kernels = _fast.kernels_for(w, v, v_prev)
        if kernels is not None:
            vw, ww = kernels.three_term(w, v, v_prev, terms)
            return w, self.from_host(vw, self.wide), self.from_host(ww, self.wide)
        if self._in_passes(w, v, v_prev):
            return w, *_passes.three_term(w, v, v_prev, terms, dots=dots, squares=squares)
        return super().three_term(w, v, v_prev, terms, dots=dots, squares=squares)

    def _in_passes(self, *arrays: Array) -> bool:
        """Return whether threads pay: arrays of NumPy that are large, and that can be seen as flat memory."""
        large = self._is_numpy and arrays[0].size >= _fast.SMALLEST
        return large and all(x is None or x.flags.c_contiguous for x in arrays)
