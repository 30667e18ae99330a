"""Passes over vectors on the CPU part by part, in threads: what there is without compiled kernels.

A part is large enough for threads to pay. Nothing here is so large that BLAS would start threads of its own: these keep
spinning for a while, beside ours.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._fast import in_threads, num_threads
from specdens._vectors import Terms

PART = 2**17
"""Elements that are worked on at a time."""
_ROW = 2**13  # elements of one inner product within BLAS, or added at a time

Vector = NDArray[Any]
RowsOfMatrix = tuple[slice, Any]
"""Some rows of a sparse matrix, and where they stand."""


class _Kept(threading.local):
    """Memory of a thread that every pass uses again: fresh pages would cost more than the work on them."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Vector:
        """Return the memory of this name as an array, whatever is in it."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size, np.uint8)
        return np.asarray(self._buffers[name][:size].view(dtype).reshape(shape))


_kept = _Kept()


def three_term(
    w: Vector, v: Vector, z: Vector | None, terms: Terms, *,
    dots: bool = True, squares: bool = True, matrix: Sequence[RowsOfMatrix] = (),
) -> tuple[Any, Any]:  # fmt: skip
    """Turn w into a (w + b v) + c z in place; return ⟨v, w⟩ and ⟨w, w⟩, or None for what is not asked for.

    With the rows of a sparse matrix A the product A v takes the place of w, whose memory may then be that of z.
    """
    parts = matrix or [(rows, None) for rows in row_parts(w)]
    most = max(rows.stop - rows.start for rows, _ in parts)
    a, b, c = (_per_entry(x, w, most, name) for name, x in zip("abc", terms, strict=True))
    sums = np.zeros((2, len(parts), *w.shape[1:]), np.result_type(w.dtype, np.float64))
    numbered = iter(enumerate(parts))  # a thread takes the next one

    def work() -> None:
        scratch = _kept.array("scratch", (most, *w.shape[1:]), w.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for i, (rows, A) in numbered:
                y = w[rows]
                size, product = len(y), y if A is None else A @ v
                if b is not None:
                    product += np.multiply(v[rows], b[:size], out=scratch[:size])
                if a is not None:
                    product *= a[:size]
                if c is not None and z is not None:
                    term = np.multiply(z[rows], c[:size], out=scratch[:size] if A is None else y)
                    np.add(product, term, out=y)
                elif A is not None:
                    y[...] = product
                sums[0, i] = _column_dots(v[rows], y) if dots else 0.0
                sums[1, i] = _column_dots(y, y) if squares else 0.0

    in_threads(work, min(num_threads(), len(parts)))
    vw, ww = sums.sum(axis=1)
    return vw if dots else None, ww if squares else None


def row_parts(x: Vector) -> list[slice]:
    """Return the rows in parts of `PART` elements."""
    n, step = x.shape[0], max(1, PART * x.shape[0] // x.size)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _per_entry(a: Any, w: Vector, num_rows: int, name: str) -> Vector | None:
    """Return coefficients of columns as those of the entries of so many rows."""
    if a is None:
        return None
    each = np.broadcast_to(np.asarray(a).astype(w.dtype), (num_rows, *w.shape[1:]))
    if w.ndim == 1:
        return each
    laid_out = _kept.array(name, each.shape, w.dtype)  # as the memory of w: loops over a few columns would be slow
    laid_out[...] = each
    return laid_out


def _column_dots(x: Vector, y: Vector) -> Vector:
    """Return ⟨x, y⟩ of the columns, in float64."""
    wide = np.result_type(x.dtype, np.float64)
    if x.ndim == 1:
        x, y = (_widened(name, each, wide) for name, each in (("x", x), ("y", y)))
        whole = x.size - x.size % _ROW
        rows = np.vecdot(x[:whole].reshape(-1, _ROW), y[:whole].reshape(-1, _ROW))
        return np.asarray(rows.sum() + np.vecdot(x[whole:], y[whole:]))
    # sums over a few columns are slow: many rows of them at a time
    products = np.multiply(x.conj(), y, dtype=wide, out=_kept.array("x", x.shape, wide))
    k = x.shape[1]
    at_a_time = max(1, _ROW // k)
    whole = len(x) - len(x) % at_a_time
    sums = products[:whole].reshape(-1, at_a_time * k).sum(axis=0).reshape(at_a_time, k).sum(axis=0)
    return np.asarray(sums + products[whole:].sum(axis=0))


def _widened(name: str, x: Vector, wide: Any) -> Vector:
    if x.dtype == wide:
        return x
    there = _kept.array(name, x.shape, wide)
    there[...] = x
    return there
