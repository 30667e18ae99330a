"""Compiled kernels: vector updates with their inner products, and CSR products fused with them. Imports numba.

Vectors are flat: entry i of column t of k is element i·k + t. Work is cut into chunks of `CHUNK` elements whose sums
are kept apart and added at the end, so that results do not depend on the number of threads. Within a chunk the kernels
go through tiles that stay in the first-level cache, with coefficients and partial sums laid out like the tile: every
loop is a plain one over neighbouring elements, for any k. More arrays in one loop than these have would need more tests
for overlap than the compiler is willing to make, and it would not vectorise.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from specdens._fast import host_view, in_threads, num_threads

CHUNK = 2**16
TILE = 2**9

# Unsigned indices spare the test for negative ones. The flags allow sums to be reordered, not NaN to be ignored.
U = np.uintp
_FLAGS = {"reassoc", "contract", "arcp", "nsz"}
_NO_INDICES = np.empty(0, np.int32)


def _compiled(function: Any) -> Any:
    """Return a function that runs without the interpreter's lock; the compiled code is kept on disk if possible."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": _FLAGS}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep the compiled code
        return numba.njit(**options)(function)


# -- vectors ---------------------------------------------------------------------------------------------------------


@_compiled
def _square(y):  # type: ignore[no-untyped-def]
    return np.float64(y.real) * np.float64(y.real) + np.float64(y.imag) * np.float64(y.imag)


@_compiled
def _add_scale(w, v, b, a, first, last, ww):  # type: ignore[no-untyped-def]
    """Do w ← a (w + b v) for one tile; add |w|² to ww."""
    first, m = U(first), U(last) - U(first)
    if a.size == 1:
        square = 0.0
        for e in range(m):
            y = a[0] * (w[first + e] + b[0] * v[first + e])
            w[first + e] = y
            square += _square(y)
        ww[0] += square
    else:
        for e in range(m):
            y = a[e] * (w[first + e] + b[e] * v[first + e])
            w[first + e] = y
            ww[e] += _square(y)


@_compiled
def _scale_add(w, v, a, b, first, last):  # type: ignore[no-untyped-def]
    """Do w ← a w + b v for one tile."""
    first, m, one = U(first), U(last) - U(first), a.size == 1
    for e in range(m):
        t = U(0) if one else e
        w[first + e] = a[t] * w[first + e] + b[t] * v[first + e]


@_compiled
def _add_dot(w, v, z, c, squares, first, last, vw, ww):  # type: ignore[no-untyped-def]
    """Do w ← w + c z for one tile; add conj(v) w to vw and |w|² to ww."""
    first, m = U(first), U(last) - U(first)
    if c.size == 1:
        dot, square = vw.dtype.type(0), 0.0
        for e in range(m):
            y = w[first + e] + c[0] * z[first + e]
            w[first + e] = y
            dot += vw.dtype.type(np.conj(v[first + e])) * vw.dtype.type(y)
            square += _square(y)
        vw[0] += dot
        ww[0] += square
    else:
        for e in range(m):
            y = w[first + e] + c[e] * z[first + e]
            w[first + e] = y
            vw[e] += vw.dtype.type(np.conj(v[first + e])) * vw.dtype.type(y)
        if squares:
            for e in range(m):
                ww[e] += _square(w[first + e])


@_compiled
def _add_columns(tile, sums):  # type: ignore[no-untyped-def]
    """Add the elements of every column of a tile to the sums, and clear the tile."""
    k = U(sums.size)
    for start in range(U(0), U(tile.size), k):
        for t in range(k):
            sums[t] += tile[start + t]
    tile[:] = 0


@_compiled
def _add_scale_chunks(w, v, b, a, tile, chunk, first, last, sums):  # type: ignore[no-untyped-def]
    ww = np.zeros(a.size)
    for q in range(first, last):
        end = min((q + 1) * chunk, w.size)
        for start in range(q * chunk, end, tile):
            _add_scale(w, v, b, a, start, min(start + tile, end), ww)
        _add_columns(ww, sums[q])


@_compiled
def _three_term_chunks(  # type: ignore[no-untyped-def]
    indptr, indices, data, w, v, z, a, b, c, scaled, squares, tile, chunk, first, last, sums_vw, sums_ww
):
    """Do the update of some chunks, after the product of each tile where there is a matrix."""
    vw, ww = np.zeros(c.size, sums_vw.dtype), np.zeros(c.size)
    k = sums_vw.shape[1]
    for q in range(first, last):
        end = min((q + 1) * chunk, w.size)
        for start in range(q * chunk, end, tile):
            stop = min(start + tile, end)
            if indptr.size and k == 1:
                _one_column_update(indptr, indices, data, w, v, z, a, b, c, start, stop, vw, ww)
                continue
            if indptr.size:
                _rows(indptr, indices, data, v, w, k, start // k, stop // k)
            if scaled:
                _scale_add(w, v, a, b, start, stop)
            _add_dot(w, v, z, c, squares, start, stop, vw, ww)
        _add_columns(vw, sums_vw[q])
        _add_columns(ww, sums_ww[q])


# -- CSR -------------------------------------------------------------------------------------------------------------


@_compiled
def _eight_columns(indptr, indices, data, x, y, k, t, first, last):  # type: ignore[no-untyped-def]
    """Do y ← A x for some rows, columns t to t + 7: an entry of A is read once for all of them."""
    k, t = U(k), U(t)
    for i in range(U(first), U(last)):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = data.dtype.type(0)
        for p in range(U(indptr[i]), U(indptr[i + U(1)])):
            d, j = data[p], U(indices[p]) * k + t
            s0 += d * x[j]
            s1 += d * x[j + U(1)]
            s2 += d * x[j + U(2)]
            s3 += d * x[j + U(3)]
            s4 += d * x[j + U(4)]
            s5 += d * x[j + U(5)]
            s6 += d * x[j + U(6)]
            s7 += d * x[j + U(7)]
        r = i * k + t
        y[r], y[r + U(1)], y[r + U(2)], y[r + U(3)] = s0, s1, s2, s3
        y[r + U(4)], y[r + U(5)], y[r + U(6)], y[r + U(7)] = s4, s5, s6, s7


@_compiled
def _one_column(indptr, indices, data, x, y, k, t, first, last):  # type: ignore[no-untyped-def]
    """Do y ← A x for some rows and column t."""
    k, t = U(k), U(t)
    for i in range(U(first), U(last)):
        s = data.dtype.type(0)
        for p in range(U(indptr[i]), U(indptr[i + U(1)])):
            s += data[p] * x[U(indices[p]) * k + t]
        y[i * k + t] = s


@_compiled
def _one_column_update(indptr, indices, data, w, v, z, a, b, c, first, last, vw, ww):  # type: ignore[no-untyped-def]
    """Do w ← a A v + b v + c z for some rows of a single column; add conj(v) w to vw and |w|² to ww."""
    dot, square = vw.dtype.type(0), 0.0
    for i in range(U(first), U(last)):
        s = data.dtype.type(0)
        for p in range(U(indptr[i]), U(indptr[i + U(1)])):
            s += data[p] * v[U(indices[p])]
        y = a[0] * s + b[0] * v[i] + c[0] * z[i]
        w[i] = y
        dot += vw.dtype.type(np.conj(v[i])) * vw.dtype.type(y)
        square += _square(y)
    vw[0] += dot
    ww[0] += square


@_compiled
def _rows(indptr, indices, data, x, y, k, first, last):  # type: ignore[no-untyped-def]
    """Do y ← A x for some rows and all columns."""
    for t in range(0, k - 7, 8):
        _eight_columns(indptr, indices, data, x, y, k, t, first, last)
    for t in range(k - k % 8, k):
        _one_column(indptr, indices, data, x, y, k, t, first, last)


@_compiled
def _csr_chunks(indptr, indices, data, x, y, k, rows, first, last):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        _rows(indptr, indices, data, x, y, k, q * rows, min((q + 1) * rows, indptr.size - 1))


# -- calls -----------------------------------------------------------------------------------------------------------


class _Layout:
    """How a block of k columns is cut: tiles and chunks hold whole rows."""

    def __init__(self, like: Any) -> None:
        view = _view(like)
        self.k = 1 if view.ndim == 1 else view.shape[1]
        self.shape, self.dtype = view.shape[1:], view.dtype
        self.tile = max(1, TILE // self.k) * self.k
        self.chunk = max(1, CHUNK // self.tile) * self.tile
        self.num_chunks = -(-view.size // self.chunk)

    def coefficients(self, a: Any, otherwise: float) -> NDArray[Any]:
        """Return one coefficient per element of a tile, or a single one for one column."""
        each = np.full(self.k, otherwise, self.dtype) if a is None else np.asarray(a).astype(self.dtype).reshape(-1)
        return np.resize(each, self.tile if self.k > 1 else 1)

    def sums(self, dtype: Any = np.float64) -> NDArray[Any]:
        """Return room for one inner product of every chunk."""
        return np.zeros((self.num_chunks, self.k), np.result_type(dtype, np.float64))

    def total(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Return the sums over all chunks."""
        along_memory = np.ascontiguousarray(sums.T)  # so that NumPy adds pairwise
        return np.asarray(along_memory.sum(axis=1).reshape(self.shape))


def three_term(
    w: Any, v: Any, z: Any, a: Any, b: Any, c: Any, matrix: Any = None, *, squares: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn w into a w + b v + c z in place; return ⟨v, w⟩ and ⟨w, w⟩. With a SciPy CSR matrix A, w is A v at first."""
    layout = _Layout(w)
    sums_vw, sums_ww = layout.sums(layout.dtype), layout.sums()
    arrays = _flat(w), _flat(v), _flat(v if z is None else z)
    coefficients = [layout.coefficients(x, otherwise) for x, otherwise in ((a, 1.0), (b, 0.0), (c, 0.0))]
    scaled = a is not None or b is not None
    csr = (_NO_INDICES, _NO_INDICES, arrays[0][:0]) if matrix is None else _arrays(matrix)

    def work(first: int, last: int) -> None:
        _three_term_chunks(
            *csr, *arrays, *coefficients, scaled, squares, layout.tile, layout.chunk, first, last, sums_vw, sums_ww
        )

    in_threads(work, layout.num_chunks, num_threads())
    return layout.total(sums_vw), layout.total(sums_ww)


def add_scale(b: Any, v: Any, a: Any, w: Any) -> NDArray[Any]:
    """Turn w into a (w + b v) in place; return ⟨w, w⟩."""
    layout = _Layout(w)
    sums = layout.sums()
    arrays, coefficients = (_flat(w), _flat(v)), (layout.coefficients(b, 0.0), layout.coefficients(a, 1.0))

    def work(first: int, last: int) -> None:
        _add_scale_chunks(*arrays, *coefficients, layout.tile, layout.chunk, first, last, sums)

    in_threads(work, layout.num_chunks, num_threads())
    return layout.total(sums)


def csr_product(matrix: Any, x: Any, y: Any) -> None:
    """Write A x into y, for a SciPy CSR matrix A."""
    layout = _Layout(x)
    csr, arrays = _arrays(matrix), (_flat(x), _flat(y))

    def work(first: int, last: int) -> None:
        _csr_chunks(*csr, *arrays, layout.k, layout.chunk // layout.k, first, last)

    in_threads(work, layout.num_chunks, num_threads())


def _arrays(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return matrix.indptr, matrix.indices, matrix.data


def _flat(x: Any) -> NDArray[Any]:
    return _view(x).reshape(-1)


def _view(x: Any) -> NDArray[Any]:
    view = host_view(x)
    if view is None:
        raise AssertionError("kernels are called with arrays on the host")
    return view
