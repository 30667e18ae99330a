"""Compiled kernels: CSR products, fused with the vector update that follows them. Imports numba.

Chunks, tiles and the flat layout of blocks are those of `_kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._fast import in_threads, num_threads
from specdens._kernels import Layout, U, add_columns, compiled, dots, flat, scale_add, square


@compiled
def _eight_columns(indptr, indices, data, x, y, z, a, c, k, t, first, last):  # type: ignore[no-untyped-def]
    """Do y ← a A x + c z for some rows, columns t to t + 7: an entry of A is read once for all of them."""
    k, t = U(k), U(t)
    a0, a1, a2, a3 = a[t], a[t + U(1)], a[t + U(2)], a[t + U(3)]
    a4, a5, a6, a7 = a[t + U(4)], a[t + U(5)], a[t + U(6)], a[t + U(7)]
    c0, c1, c2, c3 = c[t], c[t + U(1)], c[t + U(2)], c[t + U(3)]
    c4, c5, c6, c7 = c[t + U(4)], c[t + U(5)], c[t + U(6)], c[t + U(7)]
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
        s0 = a0 * s0 + c0 * z[r]
        s1 = a1 * s1 + c1 * z[r + U(1)]
        s2 = a2 * s2 + c2 * z[r + U(2)]
        s3 = a3 * s3 + c3 * z[r + U(3)]
        s4 = a4 * s4 + c4 * z[r + U(4)]
        s5 = a5 * s5 + c5 * z[r + U(5)]
        s6 = a6 * s6 + c6 * z[r + U(6)]
        s7 = a7 * s7 + c7 * z[r + U(7)]
        y[r], y[r + U(1)], y[r + U(2)], y[r + U(3)] = s0, s1, s2, s3
        y[r + U(4)], y[r + U(5)], y[r + U(6)], y[r + U(7)] = s4, s5, s6, s7


@compiled
def _one_column(indptr, indices, data, x, y, z, a, c, k, t, first, last):  # type: ignore[no-untyped-def]
    """Do y ← a A x + c z for some rows and column t."""
    k, t = U(k), U(t)
    for i in range(U(first), U(last)):
        s = data.dtype.type(0)
        for p in range(U(indptr[i]), U(indptr[i + U(1)])):
            s += data[p] * x[U(indices[p]) * k + t]
        y[i * k + t] = a[t] * s + c[t] * z[i * k + t]


@compiled
def _rows(indptr, indices, data, x, y, z, a, c, k, first, last):  # type: ignore[no-untyped-def]
    """Do y ← a A x + c z for some rows and all columns."""
    for t in range(0, k - 7, 8):
        _eight_columns(indptr, indices, data, x, y, z, a, c, k, t, first, last)
    for t in range(k - k % 8, k):
        _one_column(indptr, indices, data, x, y, z, a, c, k, t, first, last)


@compiled
def _rows_of_one(indptr, indices, data, v, w, z, a, b, c, first, last, vw, ww):  # type: ignore[no-untyped-def]
    """Do w ← a A v + b v + c z for some rows of a single column; add conj(v) w to vw and |w|² to ww."""
    dot, length = vw.dtype.type(0), 0.0
    for i in range(U(first), U(last)):
        s = data.dtype.type(0)
        for p in range(U(indptr[i]), U(indptr[i + U(1)])):
            s += data[p] * v[U(indices[p])]
        y = a[0] * s + b[0] * v[i] + c[0] * z[i]
        w[i] = y
        dot += vw.dtype.type(np.conj(v[i])) * vw.dtype.type(y)
        length += square(y)
    vw[0] += dot
    ww[0] += length


@compiled
def _csr_chunks(indptr, indices, data, x, y, a, c, k, rows, first, last):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        _rows(indptr, indices, data, x, y, x, a, c, k, q * rows, min((q + 1) * rows, indptr.size - 1))


@compiled
def _csr_three_term_chunks(  # type: ignore[no-untyped-def]
    indptr, indices, data, w, v, z, a, b, c, shifted, squares, tile, chunk, first, last, sums_vw, sums_ww
):
    """Do w ← a A v + b v + c z for some chunks: a tile is in the cache for its product and for what follows."""
    vw, ww, ones = np.zeros(c.size, sums_vw.dtype), np.zeros(c.size), np.ones(c.size, a.dtype)
    k = sums_vw.shape[1]
    for q in range(first, last):
        end = min((q + 1) * chunk, w.size)
        for start in range(q * chunk, end, tile):
            stop = min(start + tile, end)
            if k == 1:
                _rows_of_one(indptr, indices, data, v, w, z, a, b, c, start, stop, vw, ww)
                continue
            _rows(indptr, indices, data, v, w, z, a, c, k, start // k, stop // k)
            if shifted:
                scale_add(w, v, ones, b, start, stop)
            dots(w, v, squares, start, stop, vw, ww)
        add_columns(vw, sums_vw[q])
        add_columns(ww, sums_ww[q])


# -- calls -----------------------------------------------------------------------------------------------------------


def product(matrix: Any, x: NDArray[Any], y: NDArray[Any]) -> None:
    """Write A x into y, for a SciPy CSR matrix A."""
    layout = Layout(x)
    csr, arrays = (matrix.indptr, matrix.indices, matrix.data), (flat(x), flat(y))
    coefficients = layout.coefficients(None, 1.0), layout.coefficients(None, 0.0)

    def work(first: int, last: int) -> None:
        _csr_chunks(*csr, *arrays, *coefficients, layout.k, layout.chunk // layout.k, first, last)

    in_threads(work, layout.num_chunks, num_threads())


def three_term(
    matrix: Any, v: NDArray[Any], z: NDArray[Any] | None, w: NDArray[Any], a: Any, b: Any, c: Any, *, squares: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Write a A v + b v + c z into w, for a SciPy CSR matrix A; return ⟨v, w⟩ and ⟨w, w⟩."""
    layout = Layout(v)
    sums = layout.sums(layout.dtype), layout.sums()
    csr = matrix.indptr, matrix.indices, matrix.data
    arrays = flat(w), flat(v), flat(v if z is None else z)
    coefficients = [layout.coefficients(x, otherwise) for x, otherwise in ((a, 1.0), (b, 0.0), (c, 0.0))]
    flags = b is not None, squares

    def work(first: int, last: int) -> None:
        _csr_three_term_chunks(*csr, *arrays, *coefficients, *flags, layout.tile, layout.chunk, first, last, *sums)

    in_threads(work, layout.num_chunks, num_threads())
    return layout.total(sums[0]), layout.total(sums[1])
