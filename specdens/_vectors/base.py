"""The few vector operations that must be accurate and in place, for every array library.

A *vector* here is an array of shape (n,), or a block of k vectors as the columns of an (n, k) array. Coefficients
are arrays of shape () or (k,) that live on the device of the vectors, so that nothing waits for the host.
Reductions accumulate in float64, chunk by chunk (`float64_dots`): no float64 copy of a vector is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Self

import array_api_compat as aac
import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdens._typing import Array as Array
from specdens._vectors import tuning
from specdens._vectors.csr_rows import CsrRows
from specdens._vectors.float64_dots import column_dots

# Warnings are suppressed here; callers test for non-finite values on the host.
ignore_nonfinite = np.errstate(over="ignore", invalid="ignore")


# Attributes of `Vectors` that cannot be pickled; `__setstate__` finds them again from an array.
_FROM_ARRAY = frozenset({"xp", "device", "dtype", "wide"})


class Terms(NamedTuple):
    """The coefficients of a (w + b v) + c v_prev, one per column; None stands for 1 as a, and for 0 as b and c.

    Attributes
    ----------
    a, b, c : array, optional
        Of shape () or (k,), on the device of the vectors.

    Examples
    --------
    >>> from specdens.adapters import Terms
    >>> Terms(c=-2.0).with_defaults()
    Terms(a=1.0, b=0.0, c=-2.0)
    """

    a: Array = None
    b: Array = None
    c: Array = None

    def with_defaults(self) -> Self:
        """Return the coefficients with numbers in the place of None."""
        return type(self)(*(number if x is None else x for x, number in zip(self, (1.0, 0.0, 0.0), strict=True)))


class ThreeTerm(NamedTuple):
    """One call of `Vectors.three_term`: w ← a (w + b v) + c v_prev, with ⟨v, w⟩ if `dots` and ⟨w, w⟩ if `squares`.

    With a `matrix` A in CSR format the product A v takes the place of w, whose memory may then be that of v_prev.
    """

    w: Array
    v: Array
    v_prev: Array | None
    terms: Terms
    dots: bool = True
    squares: bool = True
    matrix: CsrRows | None = None


class Vectors:
    """In-place operations on the vectors of one array library, device and dtype.

    Parameters
    ----------
    like
        Any array of that library, device and dtype; only these three are read from it.

    Examples
    --------
    >>> import numpy as np
    >>> from specdens.adapters import Terms, vectors_like
    >>> vectors = vectors_like(np.zeros(0, dtype=np.float32))
    >>> w, v = vectors.from_host([3.0, 4.0]), vectors.from_host([1.0, 1.0])
    >>> vectors.name, float(vectors.norm(w))
    ('float32', 5.0)

    One pass over memory: w ← w − 2 v, with ⟨v, w⟩ and ⟨w, w⟩ of the new w in float64.

    >>> w, vw, ww = vectors.three_term(w, v, None, Terms(b=vectors.from_host(-2.0, vectors.wide)))
    >>> w.tolist(), float(vw), float(ww)
    ([1.0, 2.0], 3.0, 5.0)
    """

    def __init__(self, like: Array) -> None:
        self.xp = aac.array_namespace(like)
        self.device = aac.device(like)
        self.dtype = like.dtype
        self.name = dtype_name(like.dtype)
        self.is_complex = self.name.startswith("complex")
        limits = np.finfo(self.name)
        self.eps = float(limits.eps)
        self.range = (float(limits.tiny), float(limits.max), limits.dtype)  # of real numbers in that precision
        self.itemsize = np.dtype(self.name).itemsize
        self.wide = self.xp.complex128 if self.is_complex else self.xp.float64
        self.agree: Callable[[str], bool] | None = None
        """Whether a text is the same on all processes that compute together; None where this process is alone."""
        self.label = ""
        """What the vectors belong to, in words that are the same on all processes that compute together."""
        self._chunk = tuning.NUMPY_CHUNK if aac.is_numpy_array(like) else tuning.DEVICE_CHUNK

    # -- vectors of several processes that compute together override these -----------------------------------------

    is_first = True
    """Whether this process is the one that reports progress and writes checkpoints."""

    @property
    def is_shared(self) -> bool:
        """Whether several processes compute together, and make the same calls."""
        return self.agree is not None

    def is_same(self, text: str) -> bool:
        """Return whether a text is the same on all processes that compute together."""
        return self.agree is None or self.agree(text)

    def whole_length(self, n: int) -> int:
        """Return the number of rows in all, where this process has n of them."""
        return n

    def row_ranges(self, n: int) -> Sequence[range]:
        """Return which rows this process has, where these are n, in increasing order."""
        return (range(n),)

    def all_true(self, condition: bool) -> bool:
        """Return whether a condition holds on all processes that hold rows of the same vectors."""
        return condition

    def largest(self, x: Array) -> Array:
        """Return the largest magnitude of an entry. Over several processes: the sum of their maxima, an upper bound."""
        flat = self.xp.reshape(x, (-1,))
        return self.xp.max(self.xp.stack([self.xp.max(self.xp.abs(flat[part])) for part in self._parts(x)]))

    # -- pickling ------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle keeps: modules, dtypes and devices are found again from an array."""
        kept = {name: value for name, value in self.__dict__.items() if name not in _FROM_ARRAY}
        return kept | {"_like": self.zeros((0,))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        like = state.pop("_like")
        self.__dict__.update(state)
        self.xp, self.device, self.dtype = aac.array_namespace(like), aac.device(like), like.dtype
        self.wide = self.xp.complex128 if self.is_complex else self.xp.float64

    # -- making and moving -------------------------------------------------------------------------------------

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Return zeros on the vectors' device."""
        return self.xp.zeros(shape, dtype=self.dtype, device=self.device)

    def from_host(self, values: ArrayLike, dtype: Any = None) -> Array:
        """Return a copy of an array of the host, or of numbers, in the vectors' dtype (or `dtype`) on their device."""
        dtype = self.dtype if dtype is None else dtype
        # ascontiguousarray makes shape () to (1,), without which torch refuses to copy to another device
        host = np.ascontiguousarray(values, dtype=dtype_name(dtype))
        there = self.xp.asarray(host, dtype=dtype, device=self.device, copy=True)
        return self.xp.reshape(there, np.shape(values))

    def to_host(self, x: Array) -> NDArray[Any]:
        """Return an array as a NumPy array (the one call that waits for the device)."""
        if aac.is_torch_array(x):
            x = x.detach().cpu()
        elif aac.is_cupy_array(x):
            x = x.get()
        return np.asarray(x)

    def times(self, coefficients: Array, factors: ArrayLike) -> Array:
        """Return coefficients on the device, multiplied in float64 by numbers of the host."""
        with self.float64_enabled():
            return coefficients * self.from_host(factors, self.wide)

    def numbers(self, *coefficients: Array) -> list[list[Any]]:
        """Return coefficients of shape () or (k,) as lists of Python's numbers; there is one wait for the device."""
        with self.float64_enabled():
            rows = self.to_host(self.xp.stack(coefficients))
        return [np.atleast_1d(row).tolist() for row in rows]

    def assign(self, x: Array, index: Any, values: Array) -> Array:
        """Write `values` into ``x[index]`` and return x."""
        x[index] = values
        return x

    def holds(self, x: Any) -> bool:
        """Return whether x is known at a glance to be a vector of this library, dtype and device."""
        return False

    def placed(self, x: Array) -> Array:
        """Return a vector where those of this class lie: sharded over devices, or as it is."""
        return x

    def block_of_rows(self, shape: tuple[int, ...], make: Callable[[range], NDArray[Any]]) -> Array | None:
        """Return a block whose devices ask for their rows, or None where there is one device alone."""
        return None

    def copy(self, x: Array) -> Array:
        """Return a writable copy of x in row-major order."""
        fresh = self.xp.empty(x.shape, dtype=self.dtype, device=self.device)
        fresh[...] = x
        return fresh

    # -- arithmetic --------------------------------------------------------------------------------------------

    @ignore_nonfinite
    def dot(self, x: Array, y: Array) -> Array:
        """Return the inner products ⟨x, y⟩ = Σ conj(x) y of matching columns, accumulated in float64."""
        total = self.xp.zeros(x.shape[1:], dtype=self.wide, device=self.device)
        for rows in self._chunks(x):
            total += column_dots(self.xp, x[rows], y[rows], self.wide)
        return total

    @ignore_nonfinite
    def norm(self, x: Array) -> Array:
        """Return the Euclidean norm of every column, accumulated in float64."""
        return self.xp.sqrt(self._real(self.dot(x, x)))

    @ignore_nonfinite
    def axpy(self, a: Array, x: Array, y: Array) -> Array:
        """Add a x to y in place, column by column, and return y."""
        a = self._narrow(a)
        for rows in self._chunks(x):
            part = y[rows]
            part += a * x[rows]
        return y

    def three_term(
        self, w: Array, v: Array, v_prev: Array | None, terms: Terms, *, dots: bool = True, squares: bool = True
    ) -> tuple[Array, Array, Array]:
        """Overwrite w with a (w + b v) + c v_prev in one pass over memory; return w, ⟨v, w⟩ and ⟨w, w⟩.

        A step of the Lanczos or Chebyshev recurrence does this after its product. Without `dots` or `squares` the inner
        products need not be computed, and may be None.
        """
        return self._three_term(ThreeTerm(w, v, v_prev, terms, dots, squares))

    @ignore_nonfinite
    def _three_term(self, task: ThreeTerm) -> tuple[Array, Array, Array]:
        """Do `three_term` chunk by chunk, with array API operations only: the reference implementation."""
        w, v, v_prev = task.w, task.v, task.v_prev
        parts = self._parts(w)
        a, b, c = (self._per_entry(x, w, parts[0]) for x in task.terms)
        w_flat, v_flat, z_flat = (self.xp.reshape(x, (-1,)) for x in (w, v, v if v_prev is None else v_prev))
        vw, ww = [], []
        for part in parts:
            y, size = w_flat[part], part.stop - part.start
            if b is not None:
                y += b[:size] * v_flat[part]
            if a is not None:
                y *= a[:size]
            if c is not None:
                y += c[:size] * z_flat[part]
            if task.dots:
                vw.append(self._column_dots(v_flat[part], y, w))
            if task.squares:
                ww.append(self._column_dots(y, y, w))
        return w, self._total(vw), self._total(ww)

    @ignore_nonfinite
    def scale(self, a: Array, x: Array) -> Array:
        """Multiply the columns of x by a in place and return x."""
        x *= self._narrow(a)
        return x

    # -- small bases -------------------------------------------------------------------------------------------

    @ignore_nonfinite
    def coefficients(self, Q: Array, x: Array) -> Array:
        """Return Qᴴx for a basis Q of shape (n, m), accumulated in float64."""
        if self.dtype == self.wide and not self.is_complex:
            return Q.T @ x  # nothing to convert: one call, which BLAS shares among the cores
        total = self.xp.zeros((Q.shape[1], *x.shape[1:]), dtype=self.wide, device=self.device)
        for rows in self._chunks(Q, tuning.BASIS_CHUNK):
            part = self._wide(x[rows])
            # the conjugate of x, not of Q, which is m times as large
            total += self._wide(Q[rows]).T @ (self.xp.conj(part) if self.is_complex else part)
        return self.xp.conj(total) if self.is_complex else total

    @ignore_nonfinite
    def subtract(self, Q: Array, c: Array, x: Array) -> Array:
        """Subtract Q c from x in place and return x."""
        c = self._narrow(c)
        for rows in self._chunks(x, tuning.BASIS_ROWS):
            part = x[rows]
            part -= Q[rows] @ c
        return x

    def combine(self, Q: Array, c: Array) -> Array:
        """Return Q c as a new array, chunk by chunk."""
        out = self.zeros((Q.shape[0], *c.shape[1:]))
        c = self._narrow(c)
        for rows in self._chunks(out, tuning.BASIS_ROWS):
            out[rows] = Q[rows] @ c
        return out

    def orthonormalize(self, V: Array) -> Array:
        """Return orthonormal columns that span those of V.

        The QR factorization of some libraries computes norms in the precision of the vectors: in float32 the columns
        that it returns were 0.16 % too long at 28 million rows. Norms accumulated in float64 mend that.
        """
        Q = self.xp.linalg.qr(V)[0]
        with self.float64_enabled():
            inverse = 1 / self.norm(Q)
        return self.scale(inverse, Q)

    def float64_enabled(self) -> AbstractContextManager[Any]:
        """Return a context for arithmetic with coefficients: in float64, without warnings about non-finite values."""
        return np.errstate(over="ignore", invalid="ignore")

    # -- helpers -----------------------------------------------------------------------------------------------

    def _chunks(self, x: Array, at_least: int = 0) -> Iterator[tuple[Any, ...]]:
        n = x.shape[0]
        columns = x.shape[1] if x.ndim > 1 else 1
        step = max(1, max(self._chunk, at_least) // max(1, columns))
        return ((slice(start, min(start + step, n)), ...) for start in range(0, n, step))

    # Blocks are updated as the flat arrays that they are in memory: loops over a few columns would be slow.

    def _parts(self, x: Array) -> list[slice]:
        """Return the parts of the flat x that are processed one at a time; each holds whole rows."""
        columns = x.shape[1] if x.ndim > 1 else 1
        size, step = x.shape[0] * columns, max(1, self._chunk // columns) * columns
        return [slice(start, min(start + step, size)) for start in range(0, size, step)]

    def _per_entry(self, a: Array, x: Array, part: slice) -> Array:
        """Return one coefficient per entry of a flat part, from one per column."""
        if a is None:
            return None
        a, size = self._narrow(a), part.stop - part.start
        if x.ndim == 1 or a.ndim == 0:
            return self.xp.broadcast_to(a, (size,))
        return self.xp.tile(a, (size // x.shape[1],))

    def _column_dots(self, x: Array, y: Array, like: Array) -> Array:
        """Return ⟨x, y⟩ of the columns of flat parts, in float64."""
        if like.ndim > 1:
            x, y = (self.xp.reshape(part, (-1, like.shape[1])) for part in (x, y))
        return column_dots(self.xp, x, y, self.wide)

    def _total(self, sums: list[Array]) -> Array:
        return self.xp.sum(self.xp.stack(sums), axis=0) if sums else None

    def _wide(self, x: Array) -> Array:
        return self.xp.astype(x, self.wide, copy=False)

    def _real(self, a: Array) -> Array:
        return self.xp.real(a) if self.is_complex else a

    def _narrow(self, a: Array) -> Array:
        """Return coefficients in the vectors' dtype: float64 ones would promote every chunk."""
        return self.xp.astype(a, self.dtype, copy=False)


def dtype_name(dtype: Any) -> str:
    """Return "float32", "complex128", … for a dtype of any array library."""
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return str(dtype).rsplit(".", 1)[-1]
