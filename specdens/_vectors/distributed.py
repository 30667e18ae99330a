"""Vectors whose rows are distributed over processes: every inner product is followed by a sum over the processes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdens._typing import Array
from specdens._vectors.base import Terms, Vectors


class DistributedVectors(Vectors):
    """Operations on the local rows of vectors; inner products, norms and coefficients are those of whole vectors.

    Parameters
    ----------
    local : Vectors
        The operations on the rows of this process.
    reduce : callable
        From an array of float64 or complex128 numbers to its sum over all processes, the same on each of them. It is
        called in the same order everywhere.
    rows : sequence of range
        The local rows among all, in increasing order.
    length : int
        The number of rows in all.
    is_first : bool
        Whether this is the one process that reports progress.

    Examples
    --------
    This process has the first two of four rows; the others have as many, with the same numbers, so that sums double.

    >>> import numpy as np
    >>> from specdens.adapters import DistributedVectors, vectors_like
    >>> local = vectors_like(np.zeros(0))
    >>> vectors = DistributedVectors(local, lambda x: 2 * x, rows=[range(2)], length=4, is_first=True)
    >>> float(vectors.dot(np.ones(2), np.ones(2))), vectors.whole_length(2)
    (4.0, 4)
    """

    def __init__(
        self, local: Vectors, reduce: Callable[[Array], Array], *, rows: Sequence[range], length: int, is_first: bool
    ) -> None:
        self.__dict__.update(local.__dict__)
        self.local, self.reduce, self.rows, self.length = local, reduce, tuple(rows), length
        self.is_first = is_first

    def whole_length(self, n: int) -> int:
        return self.length

    def row_ranges(self, n: int) -> Sequence[range]:
        return self.rows

    @property
    def is_shared(self) -> bool:
        return True

    def is_same(self, text: str) -> bool:
        digest = hashlib.sha256(text.encode()).digest()
        # sums of integers are exact: equal numbers add up to a multiple of each
        numbers = np.array([1.0, *(int.from_bytes(digest[k : k + 4], "little") for k in range(0, 16, 4))])
        sums = np.real(self.to_host(self._summed(self.from_host(numbers, self.wide))))
        return self.all_true(bool(np.all(sums == sums[0] * numbers)))

    def all_true(self, condition: bool) -> bool:
        failed = self._summed(self.from_host(np.array(0.0 if condition else 1.0), self.wide))
        return float(np.real(self.to_host(failed))) == 0.0

    def from_host(self, values: ArrayLike, dtype: Any = None) -> Array:
        return self.local.from_host(values, dtype)

    def to_host(self, x: Array) -> NDArray[Any]:
        return self.local.to_host(x)

    def dot(self, x: Array, y: Array) -> Array:
        return self._summed(self.local.dot(x, y))

    def largest(self, x: Array) -> Array:
        return self._summed(self._wide(self.local.largest(x)))

    def coefficients(self, Q: Array, x: Array) -> Array:
        return self._summed(self.local.coefficients(Q, x))

    def three_term(
        self, w: Array, v: Array, v_prev: Array | None, terms: Terms, *, dots: bool = True, squares: bool = True
    ) -> tuple[Array, Array, Array]:
        w, vw, ww = self.local.three_term(w, v, v_prev, terms, dots=dots, squares=squares)
        if dots and squares:  # one message for both
            both = self._summed(self.xp.stack([vw, ww]))
            return w, both[0, ...], both[1, ...]
        return w, self._summed(vw) if dots else None, self._summed(ww) if squares else None

    def _summed(self, numbers: Array) -> Array:
        """Return the sums of local numbers over all processes."""
        return self.xp.reshape(self.xp.asarray(self.reduce(numbers), dtype=numbers.dtype), numbers.shape)
