"""Passes over vectors on the CPU in parts and threads, by NumPy: used where compiled kernels are not.

A part is large enough for threads to pay, and small enough that BLAS starts no threads of its own, which would keep
spinning beside ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._vectors import tuning
from specdens._vectors.base import ThreeTerm
from specdens._vectors.float64_dots import thread_buffers, threaded_column_dots
from specdens._vectors.threads import num_threads, run_in_threads

Vector = NDArray[Any]


def three_term(task: ThreeTerm) -> tuple[Any, Any]:
    """Overwrite w with a (w + b v) + c v_prev; return ⟨v, w⟩ and ⟨w, w⟩, or None for one that is not asked for."""
    w, v, z, (dots, squares) = task.w, task.v, task.v_prev, (task.dots, task.squares)
    slices = row_parts(w)
    parts = [(rows, None) for rows in slices] if task.matrix is None else task.matrix.parts(slices)
    most = max(rows.stop - rows.start for rows in slices)
    a, b, c = (_per_entry(x, w, most, name) for name, x in zip("abc", task.terms, strict=True))
    sums = np.zeros((2, len(parts), *w.shape[1:]), np.result_type(w.dtype, np.float64))
    numbered = iter(enumerate(parts))  # a thread takes the next one

    def work() -> None:
        scratch = thread_buffers.array("scratch", (most, *w.shape[1:]), w.dtype)
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
                sums[0, i] = threaded_column_dots(v[rows], y) if dots else 0.0
                sums[1, i] = threaded_column_dots(y, y) if squares else 0.0

    run_in_threads(work, min(num_threads(), len(parts)))
    vw, ww = sums.sum(axis=1)
    return vw if dots else None, ww if squares else None


def short_three_term(task: ThreeTerm) -> tuple[Any, Any]:
    """Do the same with one short column, in the parts and in the order of the reference: the same bit for bit."""
    w, v, z, (a, b, c), dots, squares, _ = task
    narrow = w.dtype.type
    for start in range(0, w.size, tuning.SHORT_PART):
        part = slice(start, start + tuning.SHORT_PART)
        y = w[part]
        if b is not None:
            y += narrow(b) * v[part]
        if a is not None:
            y *= narrow(a)
        if c is not None and z is not None:
            y += narrow(c) * z[part]
    return _total(dots_of_parts(v, w)) if dots else None, _total(dots_of_parts(w, w)) if squares else None


def dots_of_parts(x: Vector, y: Vector) -> list[Any]:
    """Return the inner products ⟨x, y⟩ of the parts of a column, in float64."""
    length = tuning.NUMPY_CHUNK
    starts = range(0, x.size, length)
    if x.dtype.char not in "fF":
        return [np.vdot(x[i : i + length], y[i : i + length]) for i in starts]
    wide = np.result_type(x.dtype, np.float64)
    return [np.vdot(x[i : i + length].astype(wide), y[i : i + length].astype(wide)) for i in starts]


def _total(sums: list[Any]) -> Any:
    """Return what np.sum does, which adds fewer than eight numbers one after the other."""
    return sum(sums) if len(sums) < 8 else np.sum(sums)


def row_parts(x: Vector) -> list[slice]:
    """Return the rows in parts of `tuning.THREADED_PART` elements."""
    n, step = x.shape[0], max(1, tuning.THREADED_PART * x.shape[0] // x.size)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _per_entry(a: Any, w: Vector, num_rows: int, name: str) -> Vector | None:
    """Return one coefficient per entry of `num_rows` rows, from one per column."""
    if a is None:
        return None
    each = np.broadcast_to(np.asarray(a).astype(w.dtype), (num_rows, *w.shape[1:]))
    if w.ndim == 1:
        return each
    # as the memory of w: loops over a few columns would be slow
    laid_out = thread_buffers.array(name, each.shape, w.dtype)
    laid_out[...] = each
    return laid_out
