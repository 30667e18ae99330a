"""Compiled kernels: a product with a sparse matrix, the vector update that follows it and inner products, in one pass.

Imports numba. Blocks are flat: entry i of column t of k is element i·k + t. Columns are taken eight at a time, side by
side in registers (`numba_lanes`), so that an entry of a matrix is read once for all of them; then four, two and one.
Work is cut into chunks of rows whose sums are kept apart and added at the end, so that results do not depend on the
number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from specdens._vectors import tuning
from specdens._vectors.base import Terms, ThreeTerm
from specdens._vectors.numba_lanes import (
    add,
    add_product,
    broadcast,
    conjugate,
    load,
    product,
    store,
    take,
    widened,
    zeros,
)
from specdens._vectors.threads import num_threads, run_in_threads

LANES = "33e1633286e0bb6d"
"""The hash of `numba_lanes.py`. Numba compares only this file with the compiled code on disk, so it must change too."""

_directions = cycle([False, True])  # a pass begins where the last one ended: that is still in the cache

U = np.uintp  # unsigned indices spare the test for negative ones


def _compiled(function: Any) -> Any:
    """Return a function that runs without the interpreter's lock; the compiled code is kept on disk if possible."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep the compiled code
        return numba.njit(**options)(function)


@_compiled
def _columns(indptr, indices, data, w, v, z, a, b, c, t, zero, first, last, vw, ww):  # type: ignore[no-untyped-def]
    """Do w ← a (A v + b v) + c z for some rows, and for as many columns from t on as `zero` has lanes.

    Without a matrix the product is in w already.
    """
    k, t, one = U(a.size), U(t), U(1)
    a, b, c = load(a, t, zero), load(b, t, zero), load(c, t, zero)
    dot = length = widened(zero)
    for i in range(U(first), U(last)):
        r = i * k + t
        if indptr is None:
            s = load(w, r, zero)
        else:
            even = odd = zero  # two sums: neither waits for the other
            p, end = U(indptr[i]), U(indptr[i + one])
            while p + one < end:
                q = p + one
                even = add_product(even, broadcast(data[p], zero), load(v, U(indices[p]) * k + t, zero))
                odd = add_product(odd, broadcast(data[q], zero), load(v, U(indices[q]) * k + t, zero))
                p += U(2)
            if p < end:
                even = add_product(even, broadcast(data[p], zero), load(v, U(indices[p]) * k + t, zero))
            s = add(even, odd)
        x = load(v, r, zero)
        y = add_product(product(a, add_product(s, b, x)), c, load(z, r, zero))
        store(w, r, y)
        x, y = widened(x), widened(y)
        dot = add_product(dot, conjugate(x), y)
        length = add_product(length, conjugate(y), y)
    store(vw, t, dot)
    store(ww, t, length)


@_compiled
def _chunks(indptr, indices, data, w, v, z, a, b, c, rows, taken, at_a_time, backwards, vw, ww):  # type: ignore[no-untyped-def]
    """Do w ← a (A v + b v) + c z for the chunks that other threads have not taken; keep ⟨v, w⟩ and ⟨w, w⟩ of each."""
    k, num_chunks = a.size, vw.shape[0]
    num_rows = w.size // k
    first = take(taken, at_a_time)
    while first < num_chunks:
        for number in range(first, min(first + at_a_time, num_chunks)):
            q = num_chunks - 1 - number if backwards else number
            start, stop = min(q * rows, num_rows), min((q + 1) * rows, num_rows)
            if start == num_rows:  # the last row is incomplete: fewer than k entries
                for t in range(w.size % k):
                    _columns(indptr, indices, data, w, v, z, a, b, c, t, zeros(w, 1), start, start + 1, vw[q], ww[q])
                continue
            for t in range(0, k - 7, 8):
                _columns(indptr, indices, data, w, v, z, a, b, c, t, zeros(w, 8), start, stop, vw[q], ww[q])
            if k & 4:
                _columns(indptr, indices, data, w, v, z, a, b, c, k & ~7, zeros(w, 4), start, stop, vw[q], ww[q])
            if k & 2:
                _columns(indptr, indices, data, w, v, z, a, b, c, k & ~3, zeros(w, 2), start, stop, vw[q], ww[q])
            if k & 1:
                _columns(indptr, indices, data, w, v, z, a, b, c, k & ~1, zeros(w, 1), start, stop, vw[q], ww[q])
        first = take(taken, at_a_time)


# -- calls -----------------------------------------------------------------------------------------------------------


def three_term(task: ThreeTerm) -> tuple[NDArray[Any], NDArray[Any]]:
    """Overwrite w with a (w + b v) + c v_prev, all of them NumPy arrays; return ⟨v, w⟩ and ⟨w, w⟩."""
    arrays: list[NDArray[Any]] = [task.w, task.v, task.v if task.v_prev is None else task.v_prev]
    csr = None if task.matrix is None else task.matrix.csr
    columns = task.w.shape[1:]
    k = columns[0] if columns else 1
    # a single column is processed as rows of eight adjacent entries: 19 entries are two such rows, and three entries
    as_eight = csr is None and k == 1
    sums = _pass(arrays, 8, task.terms).sum(axis=1) if as_eight else _pass(arrays, k, task.terms, csr)
    vw, ww = sums.reshape(2, *columns)
    return vw, ww.real


class CompilationError(RuntimeError):
    """Kernels could not be compiled, or not be loaded from numba's cache."""


_prepared: set[tuple[Any, ...]] = set()


def _prepare(arguments: list[Any]) -> None:
    """Compile for these argument types by a call that processes no chunk: a failure leaves the vectors unchanged."""
    key = tuple((x.dtype, x.flags.writeable) if isinstance(x, np.ndarray) else type(x) for x in arguments)
    if key in _prepared:
        return
    for attempt in range(2):
        try:
            _chunks(*arguments)
            break
        except Exception as error:  # a full disk, a truncated file in the cache, …
            if attempt == 1:  # the first failure may be that of storing code, which is then in memory
                raise CompilationError(
                    f"compiled kernels cannot be used ({type(error).__name__}: {error}). Empty the folder "
                    f"{_chunks.stats.cache_path}, or free disk space"
                ) from error
    _prepared.add(key)


def _pass(arrays: Sequence[NDArray[Any]], k: int, terms: Terms, matrix: Any = None) -> NDArray[Any]:
    """Go through w, v and z as blocks of k columns; return the two inner products of every column."""
    size, dtype = arrays[0].size, arrays[0].dtype
    rows = max(tuning.COMPILED_ROWS, tuning.COMPILED_CHUNK // k)
    num_chunks = -(-(size // k) // rows) + (size % k > 0)  # an incomplete last row is a chunk of its own
    csr = (None, None, None) if matrix is None else (matrix.indptr, matrix.indices, matrix.data)
    flat = [x.reshape(-1) for x in arrays]
    factors = np.empty((3, k), dtype)
    for factor, value in zip(factors, terms.with_defaults(), strict=True):
        factor[...] = value
    sums = np.zeros((2, num_chunks, k), np.result_type(dtype, np.float64))
    work = size if matrix is None else size + k * matrix.nnz
    taken, threads = np.zeros(1, np.int64), max(1, min(num_threads(), work // tuning.COMPILED_SHARE))
    at_a_time = min(tuning.COMPILED_TAKE, -(-num_chunks // (tuning.COMPILED_TURNS * threads)))
    backwards = next(_directions)
    _prepare([*csr, *flat, *factors, rows, np.array([num_chunks]), at_a_time, backwards, *sums])
    run_in_threads(lambda: _chunks(*csr, *flat, *factors, rows, taken, at_a_time, backwards, *sums), threads)
    # along contiguous memory NumPy adds pairwise, which is more accurate
    return np.asarray(sums.transpose(0, 2, 1).copy().sum(axis=2))
