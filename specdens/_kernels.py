"""Compiled kernels: a product with a sparse matrix, the vector update that follows it and inner products, in one pass.

Imports numba. Blocks are flat: entry i of column t of k is element i·k + t. Columns are taken eight at a time, side by
side in registers (`_lanes`), so that an entry of a matrix is read once for all of them; then four, two and one. Work is
cut into chunks of rows whose sums are kept apart and added at the end, so that results do not depend on the number of
threads. Compiled code is kept on disk; after a change in `_lanes`, touch this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from specdens._fast import host_view, in_threads, num_threads
from specdens._lanes import add, add_product, broadcast, conjugate, load, product, store, widened, zeros
from specdens._vectors import Terms

CHUNK = 2**12
"""Elements that are worked on at a time: they stay in the cache, and their sum is accurate."""
_FEWEST_ROWS = 2**6  # so that the sums of wide blocks stay small beside them
_ROW_COST = 2  # of a row without entries, in entries
_WIDTH = 8

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
def _chunks(indptr, indices, data, w, v, z, a, b, c, num_rows, rows, first, last, vw, ww):  # type: ignore[no-untyped-def]
    """Do w ← a (A v + b v) + c z for some chunks of rows, and keep ⟨v, w⟩ and ⟨w, w⟩ of each."""
    k = a.size
    for q in range(first, last):
        start, stop = q * rows, min((q + 1) * rows, num_rows)
        for t in range(0, k - 7, 8):
            _columns(indptr, indices, data, w, v, z, a, b, c, t, zeros(w, 8), start, stop, vw[q], ww[q])
        if k & 4:
            _columns(indptr, indices, data, w, v, z, a, b, c, k & ~7, zeros(w, 4), start, stop, vw[q], ww[q])
        if k & 2:
            _columns(indptr, indices, data, w, v, z, a, b, c, k & ~3, zeros(w, 2), start, stop, vw[q], ww[q])
        if k & 1:
            _columns(indptr, indices, data, w, v, z, a, b, c, k & ~1, zeros(w, 1), start, stop, vw[q], ww[q])


# -- calls -----------------------------------------------------------------------------------------------------------


def three_term(w: Any, v: Any, z: Any, terms: Terms, *, matrix: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn w into a (w + b v) + c z in place; return ⟨v, w⟩ and ⟨w, w⟩.

    With a SciPy CSR matrix A its product takes the place of w, whose memory may then be that of z.
    """
    arrays = [_view(x) for x in (w, v, v if z is None else z)]
    n, *columns = w.shape
    if matrix is not None or columns not in ([], [1]):
        sums = _pass(arrays, terms, matrix)
    else:  # a single column as eight, and what is left
        whole = n - n % _WIDTH
        sums = _pass([x[:whole].reshape(-1, _WIDTH) for x in arrays], terms).sum(axis=1, keepdims=True)
        sums += _pass([x[whole:] for x in arrays], terms)
    vw, ww = sums.reshape(2, *columns)
    return vw, ww.real


def _pass(arrays: Sequence[NDArray[Any]], terms: Terms, matrix: Any = None) -> NDArray[Any]:
    """Go through the rows of blocks w, v and z; return the two inner products of every column."""
    (n, *columns), dtype = arrays[0].shape, arrays[0].dtype
    k = int(np.prod(columns))
    rows = max(_FEWEST_ROWS, CHUNK // k)
    num_chunks = -(-n // rows)
    csr, costs = (None, None, None), None
    if matrix is not None:
        csr, ends = (matrix.indptr, matrix.indices, matrix.data), np.minimum(np.arange(num_chunks + 1) * rows, n)
        costs = matrix.indptr[ends] + _ROW_COST * ends
    flat = [x.reshape(-1) for x in arrays]
    factors = [np.resize(np.asarray(x), k).astype(dtype) for x in terms.numbers()]
    sums = np.empty((2, num_chunks, k), np.result_type(dtype, np.float64))

    def work(first: int, last: int) -> None:
        _chunks(*csr, *flat, *factors, n, rows, first, last, *sums)

    in_threads(work, num_chunks, num_threads(), costs=costs)
    return np.asarray(np.ascontiguousarray(np.moveaxis(sums, 1, 2)).sum(axis=2))  # along memory NumPy adds pairwise


def _view(x: Any) -> NDArray[Any]:
    view = host_view(x)
    if view is None:
        raise AssertionError("kernels are called with arrays on the host")
    return view
