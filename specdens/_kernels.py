"""Compiled kernels: vector updates with their inner products. Imports numba.

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
LONG_TILE = 2**12  # of one column, which has no coefficients to keep: as much as is accurate to add at a time

# Unsigned indices spare the test for negative ones. The flags allow sums to be reordered, not NaN to be ignored.
U = np.uintp
_FLAGS = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: Any) -> Any:
    """Return a function that runs without the interpreter's lock; the compiled code is kept on disk if possible."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": _FLAGS}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep the compiled code
        return numba.njit(**options)(function)


# -- vectors ---------------------------------------------------------------------------------------------------------


@compiled
def square(y):  # type: ignore[no-untyped-def]
    return np.float64(y.real) * np.float64(y.real) + np.float64(y.imag) * np.float64(y.imag)


@compiled
def _add_scale(w, v, b, a, first, last, ww):  # type: ignore[no-untyped-def]
    """Do w ← a (w + b v) for one tile; add |w|² to ww."""
    first, m = U(first), U(last) - U(first)
    if a.size == 1:
        length = 0.0
        for e in range(m):
            y = a[0] * (w[first + e] + b[0] * v[first + e])
            w[first + e] = y
            length += square(y)
        ww[0] += length
    else:
        for e in range(m):
            y = a[e] * (w[first + e] + b[e] * v[first + e])
            w[first + e] = y
            ww[e] += square(y)


@compiled
def scale_add(w, v, a, b, first, last):  # type: ignore[no-untyped-def]
    """Do w ← a w + b v for one tile."""
    first, m, one = U(first), U(last) - U(first), a.size == 1
    for e in range(m):
        t = U(0) if one else e
        w[first + e] = a[t] * w[first + e] + b[t] * v[first + e]


@compiled
def _add_dot(w, v, z, c, squares, first, last, vw, ww):  # type: ignore[no-untyped-def]
    """Do w ← w + c z for one tile; add conj(v) w to vw and |w|² to ww."""
    first, m = U(first), U(last) - U(first)
    if c.size == 1:
        dot, length = vw.dtype.type(0), 0.0
        for e in range(m):
            y = w[first + e] + c[0] * z[first + e]
            w[first + e] = y
            dot += vw.dtype.type(np.conj(v[first + e])) * vw.dtype.type(y)
            length += square(y)
        vw[0] += dot
        ww[0] += length
    else:
        for e in range(m):
            y = w[first + e] + c[e] * z[first + e]
            w[first + e] = y
            vw[e] += vw.dtype.type(np.conj(v[first + e])) * vw.dtype.type(y)
        if squares:
            for e in range(m):
                ww[e] += square(w[first + e])


@compiled
def add_columns(tile, sums):  # type: ignore[no-untyped-def]
    """Add the elements of every column of a tile to the sums, and clear the tile."""
    k = U(sums.size)
    for start in range(U(0), U(tile.size), k):
        for t in range(k):
            sums[t] += tile[start + t]
    tile[:] = 0


@compiled
def _add_scale_chunks(w, v, b, a, tile, chunk, first, last, sums):  # type: ignore[no-untyped-def]
    ww = np.zeros(a.size)
    for q in range(first, last):
        end = min((q + 1) * chunk, w.size)
        for start in range(q * chunk, end, tile):
            _add_scale(w, v, b, a, start, min(start + tile, end), ww)
        add_columns(ww, sums[q])


@compiled
def dots(w, v, squares, first, last, vw, ww):  # type: ignore[no-untyped-def]
    """Add conj(v) w of one tile to vw and |w|² to ww."""
    first, m = U(first), U(last) - U(first)
    for e in range(m):
        vw[e] += vw.dtype.type(np.conj(v[first + e])) * vw.dtype.type(w[first + e])
    if squares:
        for e in range(m):
            ww[e] += square(w[first + e])


@compiled
def _three_term_chunks(w, v, z, a, b, c, scaled, squares, tile, chunk, first, last, sums_vw, sums_ww):  # type: ignore[no-untyped-def]
    """Do w ← a w + b v + c z for some chunks."""
    vw, ww = np.zeros(c.size, sums_vw.dtype), np.zeros(c.size)
    for q in range(first, last):
        end = min((q + 1) * chunk, w.size)
        for start in range(q * chunk, end, tile):
            stop = min(start + tile, end)
            if scaled:
                scale_add(w, v, a, b, start, stop)
            _add_dot(w, v, z, c, squares, start, stop, vw, ww)
        add_columns(vw, sums_vw[q])
        add_columns(ww, sums_ww[q])


# -- calls -----------------------------------------------------------------------------------------------------------


class Layout:
    """How a block of k columns is cut: tiles and chunks hold whole rows."""

    def __init__(self, like: Any) -> None:
        view = _view(like)
        self.k = 1 if view.ndim == 1 else view.shape[1]
        self.shape, self.dtype = view.shape[1:], view.dtype
        self.tile = max(1, TILE // self.k) * self.k if self.k > 1 else LONG_TILE
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


def three_term(w: Any, v: Any, z: Any, a: Any, b: Any, c: Any, *, squares: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn w into a w + b v + c z in place; return ⟨v, w⟩ and ⟨w, w⟩."""
    layout = Layout(w)
    sums = layout.sums(layout.dtype), layout.sums()
    arrays = flat(w), flat(v), flat(v if z is None else z)
    coefficients = [layout.coefficients(x, otherwise) for x, otherwise in ((a, 1.0), (b, 0.0), (c, 0.0))]
    flags = a is not None or b is not None, squares

    def work(first: int, last: int) -> None:
        _three_term_chunks(*arrays, *coefficients, *flags, layout.tile, layout.chunk, first, last, *sums)

    in_threads(work, layout.num_chunks, num_threads())
    return layout.total(sums[0]), layout.total(sums[1])


def add_scale(b: Any, v: Any, a: Any, w: Any) -> NDArray[Any]:
    """Turn w into a (w + b v) in place; return ⟨w, w⟩."""
    layout = Layout(w)
    sums = layout.sums()
    arrays, coefficients = (flat(w), flat(v)), (layout.coefficients(b, 0.0), layout.coefficients(a, 1.0))

    def work(first: int, last: int) -> None:
        _add_scale_chunks(*arrays, *coefficients, layout.tile, layout.chunk, first, last, sums)

    in_threads(work, layout.num_chunks, num_threads())
    return layout.total(sums)


def flat(x: Any) -> NDArray[Any]:
    return _view(x).reshape(-1)


def _view(x: Any) -> NDArray[Any]:
    view = host_view(x)
    if view is None:
        raise AssertionError("kernels are called with arrays on the host")
    return view
