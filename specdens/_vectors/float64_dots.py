"""Inner products accumulated in float64.

A sum of float32 products in float32 loses digits: ‖x‖² is off by up to a third at n = 10⁹. Everything that adds up
products of entries goes through here, in chunks, so that no float64 copy of a vector is made: `column_dots` for every
array library, `threaded_column_dots` for NumPy's passes in threads. Compiled kernels widen their registers instead
(`numba_kernels._columns`), and JAX is allowed to use float64 around these calls (`jax.JaxVectors`).
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._typing import Array
from specdens._vectors import tuning

Vector = NDArray[Any]


def column_dots(xp: Any, x: Array, y: Array, wide: Any) -> Array:
    """Return the inner products ⟨x, y⟩ of matching columns of a chunk, in the dtype `wide`."""
    return xp.vecdot(xp.astype(x, wide, copy=False), xp.astype(y, wide, copy=False), axis=-x.ndim)


class _ThreadBuffers(threading.local):
    """Scratch memory of a thread, reused by every pass: fresh pages would cost more than the work on them."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Vector:
        """Return the buffer of this name as an array of any content."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size, np.uint8)
        return np.asarray(self._buffers[name][:size].view(dtype).reshape(shape))


thread_buffers = _ThreadBuffers()


def threaded_column_dots(x: Vector, y: Vector) -> Vector:
    """Return the inner products ⟨x, y⟩ of matching columns of a part, in buffers of the thread."""
    wide = np.result_type(x.dtype, np.float64)
    if x.ndim == 1:
        x, y = (_widened(name, each, wide) for name, each in (("x", x), ("y", y)))
        whole = x.size - x.size % tuning.DOT_ROW
        rows = np.vecdot(x[:whole].reshape(-1, tuning.DOT_ROW), y[:whole].reshape(-1, tuning.DOT_ROW))
        return np.asarray(rows.sum() + np.vecdot(x[whole:], y[whole:]))
    # sums over a few columns are slow: many rows of them at a time
    products = np.multiply(x.conj(), y, dtype=wide, out=thread_buffers.array("x", x.shape, wide))
    k = x.shape[1]
    at_a_time = max(1, tuning.DOT_ROW // k)
    whole = len(x) - len(x) % at_a_time
    sums = products[:whole].reshape(-1, at_a_time * k).sum(axis=0).reshape(at_a_time, k).sum(axis=0)
    return np.asarray(sums + products[whole:].sum(axis=0))


def _widened(name: str, x: Vector, wide: Any) -> Vector:
    if x.dtype == wide:
        return x
    there = thread_buffers.array(name, x.shape, wide)
    there[...] = x
    return there
