"""Passes over NumPy vectors part by part, in threads: what there is without compiled kernels.

A part is large enough for threads to pay. Nothing here is so large that BLAS would start threads of its own: these keep
spinning for a while, beside ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._fast import in_threads, num_threads
from specdens._vectors import Terms

PART = 2**17
_DOT = 2**13  # elements of one inner product within BLAS

Vector = NDArray[Any]


class _Pass:
    """One pass over arrays of the shape of w: columns as flat memory, with coefficients for every entry of a part."""

    def __init__(self, w: Vector) -> None:
        self.k = 1 if w.ndim == 1 else w.shape[1]
        self.w, self.shape = w.reshape(-1), w.shape[1:]
        self.step = max(1, PART // self.k) * self.k
        self.num_parts = -(-w.size // self.step)
        self.wide = np.result_type(w.dtype, np.float64)

    def coefficients(self, a: Any) -> Vector | None:
        if a is None:
            return None
        a = np.asarray(a).astype(self.w.dtype).reshape(-1)
        return a if self.k == 1 else np.resize(a, self.step)

    def run(self, work: Callable[[slice, Vector, Vector], Iterator[Vector]], num_sums: int) -> list[Vector]:
        """Call work(part, w[part], scratch) for every part; return the sums of the columns that it yields."""
        sums = np.zeros((num_sums, self.num_parts, self.k), self.wide)

        def some(first: int, last: int) -> None:
            scratch = np.empty(self.step, self.w.dtype)
            with np.errstate(over="ignore", invalid="ignore"):
                for i in range(first, last):
                    part = slice(i * self.step, min((i + 1) * self.step, self.w.size))
                    y = self.w[part]
                    for j, value in enumerate(work(part, y, scratch[: y.size])):
                        sums[j, i] = value

        in_threads(some, self.num_parts, num_threads())
        return [each.sum(axis=0).reshape(self.shape) for each in sums]

    def dots(self, x: Vector, y: Vector) -> Vector:
        """Return ⟨x, y⟩ of the columns of a part, in float64."""
        x, y = x.astype(self.wide, copy=False), y.astype(self.wide, copy=False)
        if self.k > 1:
            return np.asarray(np.einsum("ij,ij->j", x.reshape(-1, self.k).conj(), y.reshape(-1, self.k)))
        whole = x.size - x.size % _DOT
        rows = np.vecdot(x[:whole].reshape(-1, _DOT), y[:whole].reshape(-1, _DOT))
        return np.asarray(rows.sum() + np.vecdot(x[whole:], y[whole:]))


def three_term(w: Vector, v: Vector, z: Vector | None, terms: Terms, *, dots: bool, squares: bool) -> tuple[Any, Any]:
    """Turn w into a (w + b v) + c z in place; return ⟨v, w⟩ and ⟨w, w⟩, or None for what is not asked for."""
    run = _Pass(w)
    a, b, c = (run.coefficients(x) for x in terms)
    v, z = v.reshape(-1), (v if z is None else z).reshape(-1)

    def work(part: slice, y: Vector, scratch: Vector) -> Iterator[Vector]:
        if b is not None:
            y += np.multiply(v[part], b[: y.size], out=scratch)
        if a is not None:
            y *= a[: y.size]
        if c is not None:
            y += np.multiply(z[part], c[: y.size], out=scratch)
        if dots:
            yield run.dots(v[part], y)
        if squares:
            yield run.dots(y, y)

    sums = iter(run.run(work, dots + squares))
    return next(sums) if dots else None, next(sums) if squares else None
