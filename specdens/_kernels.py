"""Compiled kernels: a product with a sparse matrix, the vector update that follows it and inner products, in one pass.

Imports numba. Blocks are flat: entry i of column t of k is element i·k + t. Columns are taken eight at a time, side by
side in registers (`_lanes`), so that an entry of a matrix is read once for all of them; then four, two and one. Work is
cut into chunks of rows whose sums are kept apart and added at the end, so that results do not depend on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from specdens._fast import host_view, in_threads, num_threads
from specdens._lanes import add, add_product, broadcast, conjugate, load, product, store, take, widened, zeros
from specdens._vectors import Terms

LANES = "b111843342800c54"
"""The hash of `_lanes.py`: to see whether compiled code on the disk is old, numba looks at this file alone."""

CHUNK = 2**14
"""Elements that are worked on at a time: they stay in the cache, and their sum is accurate."""
_FEWEST_ROWS = 2**8  # so that the sums of wide blocks stay small beside them
SHARE = 2**18  # of a thread, in elements of vectors and of products: less is done before it has woken up
_MOST_AT_A_TIME = 2**7  # chunks: neighbours, which read the same memory if a matrix is banded
_TURNS = 8  # of a thread, at least, if there are enough chunks: one that is held up leaves its work to the others

_to_and_fro = cycle([False, True])  # a pass begins where the last one ended: that is still in the cache

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
            if start == num_rows:  # a row that is not whole
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


def three_term(w: Any, v: Any, z: Any, terms: Terms, *, matrix: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn w into a (w + b v) + c z in place; return ⟨v, w⟩ and ⟨w, w⟩.

    With a SciPy CSR matrix A its product takes the place of w, whose memory may then be that of z.
    """
    arrays = [_view(x) for x in (w, v, v if z is None else z)]
    columns = w.shape[1:]
    k = columns[0] if columns else 1
    # neighbours in a single column stand side by side, too: 19 entries are two rows of eight, and three entries
    as_eight = matrix is None and k == 1
    sums = _pass(arrays, 8, terms).sum(axis=1) if as_eight else _pass(arrays, k, terms, matrix)
    vw, ww = sums.reshape(2, *columns)
    return vw, ww.real


def _pass(arrays: Sequence[NDArray[Any]], k: int, terms: Terms, matrix: Any = None) -> NDArray[Any]:
    """Go through w, v and z as blocks of k columns; return the two inner products of every column."""
    size, dtype = arrays[0].size, arrays[0].dtype
    rows = max(_FEWEST_ROWS, CHUNK // k)
    num_chunks = -(-(size // k) // rows) + (size % k > 0)  # a row that is not whole is a chunk of its own
    csr = (None, None, None) if matrix is None else (matrix.indptr, matrix.indices, matrix.data)
    flat = [x.reshape(-1) for x in arrays]
    factors = np.empty((3, k), dtype)
    for factor, value in zip(factors, terms.with_defaults(), strict=True):
        factor[...] = value
    sums = np.zeros((2, num_chunks, k), np.result_type(dtype, np.float64))
    work = size if matrix is None else size + k * matrix.nnz
    taken, threads = np.zeros(1, np.int64), max(1, min(num_threads(), work // SHARE))
    at_a_time = min(_MOST_AT_A_TIME, -(-num_chunks // (_TURNS * threads)))
    backwards = next(_to_and_fro)
    in_threads(lambda: _chunks(*csr, *flat, *factors, rows, taken, at_a_time, backwards, *sums), threads)
    return np.asarray(sums.transpose(0, 2, 1).copy().sum(axis=2))  # along memory NumPy adds pairwise


def _view(x: Any) -> NDArray[Any]:
    view = host_view(x)
    if view is None:
        raise AssertionError("kernels are called with arrays on the host")
    return view
