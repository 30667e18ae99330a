"""Operators: the protocol that users meet, and the class that algorithms run on."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import array_api_compat as aac
import numpy as np

from specdens._atoms import Atoms
from specdens._vectors import Array, Terms, Vectors, dtype_name


@runtime_checkable
class LinearOperator(Protocol):
    """Anything with a square shape, a dtype and products ``A @ x`` for x of shape (n,) and (n, k).

    An optional attribute ``device`` says where its vectors live. There is nothing to inherit from.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, n)."""

    @property
    def dtype(self) -> Any:
        """The dtype of the vectors: float32, float64, complex64 or complex128."""

    def __matmul__(self, x: Any, /) -> Any:
        """Return the product with a vector (n,) or with the columns of a block (n, k)."""


class ReusedMemoryError(ValueError):
    """An operator answered from a buffer that still holds an earlier product; later products are copied."""

    def __init__(self) -> None:
        super().__init__(
            "A @ x returned the memory of an earlier product that is still in use. Return a new array each time."
        )


class Operator(ABC):
    """A `LinearOperator` that knows its array library and answers with vectors of its own making.

    A product is checked (shape, dtype, device) and is always fresh memory that the caller may overwrite. Operators
    combine with ``+``, ``-`` and scalars.
    """

    __array_ufunc__ = None  # so that NumPy leaves ``array + operator`` to the operator

    has_block_products = True
    """Whether a product with a block is more than a loop over its columns."""

    def __init__(self, n: int, vectors: Vectors) -> None:
        self.shape = (n, n)
        self.vectors = vectors
        # as many as a recurrence holds at a time: an operator may take turns between several buffers
        self._last_products: deque[weakref.ref[Any]] = deque(maxlen=3)
        self._reuses_memory = False

    @property
    def dtype(self) -> Any:
        """The dtype of the vectors, in the terms of their array library."""
        return self.vectors.dtype

    @property
    def device(self) -> Any:
        """The device of the vectors."""
        return self.vectors.device

    # An operator may know part of its spectrum: deflated pairs, a null space. Then it acts on a subspace, the probes
    # are projected onto that, and what is known comes back as atoms.

    @property
    def dimension(self) -> int:
        """The number of eigenvalues in all, the known ones included."""
        return self.shape[0]

    @property
    def bulk_dimension(self) -> int:
        """The dimension of the subspace in which the spectrum is not known."""
        return self.shape[0]

    @property
    def known_atoms(self) -> Atoms:
        """The eigenvalues known beforehand, with their share of `dimension`."""
        return Atoms.none()

    def project(self, x: Array) -> Array:
        """Project x onto that subspace, in place, and return x."""
        return x

    def apply_within(self, x: Array) -> Array:
        """Return the product with an x that lies in that subspace."""
        return self @ x

    def cheaper_form(self) -> CheaperForm | None:
        """Return an operator with the same spectrum that costs less: `spectral_density` asks, uses it and says so."""
        return None

    fills_given_memory = False
    """Whether `three_term` writes its result into `out`; small ones may be new memory all the same."""

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Return w = a (A v + b v) + c v_prev within that subspace, ⟨v, w⟩ and ⟨w, w⟩; see `Vectors.three_term`.

        An operator that can do so in one pass with its product does, into the memory `out`, which may be v_prev.
        """
        return self.vectors.three_term(self.apply_within(v), v, v_prev, terms, squares=squares)

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """Return the product with x, as the operator behind gives it."""

    def __matmul__(self, x: Array) -> Array:
        n = self.shape[0]
        if getattr(x, "ndim", 0) not in (1, 2) or x.shape[0] != n:
            raise ValueError(f"`x` must have shape ({n},) or ({n}, k); got {getattr(x, 'shape', type(x))}")
        y = self.apply(x)
        if aac.is_torch_array(y):
            y = y.detach()
        self._check_product(x, y)
        if self._reuses_memory:
            return self.vectors.copy(y)
        for earlier in tuple(self._last_products):  # another thread may use the operator too
            product = earlier()
            if product is not None and same_memory(product, y):
                self._reuses_memory = True
                raise ReusedMemoryError
        if same_memory(x, y) or not _is_writable(y):
            return self.vectors.copy(y)
        self._last_products.append(weakref.ref(y))
        return y

    def _check_product(self, x: Array, y: Array) -> None:
        vectors = self.vectors
        if not aac.is_array_api_obj(y) or aac.array_namespace(y) is not vectors.xp:
            raise TypeError(
                f"A @ x must return an array of {vectors.xp.__name__}, as x is; got {type(y).__module__}."
                f"{type(y).__name__}. Name the operator's array library with `like=`."
            )
        if tuple(y.shape) != tuple(x.shape):
            raise ValueError(f"A @ x must have the shape of x, {tuple(x.shape)}; got {tuple(y.shape)}")
        if y.dtype != vectors.dtype:
            raise TypeError(
                f"A @ x must have the operator's dtype {vectors.name}; got {dtype_name(y.dtype)}. "
                "Declare the dtype that the operator really computes in."
            )
        if aac.device(y) != vectors.device:
            raise ValueError(f"A @ x must stay on the operator's device {vectors.device}; got {aac.device(y)}")

    def __add__(self, other: Any) -> Operator:
        return _combination((1.0, self), (1.0, other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Operator:
        return _combination((1.0, self), (-1.0, other))

    def __rsub__(self, other: Any) -> Operator:
        return _combination((1.0, other), (-1.0, self))

    def __mul__(self, factor: float) -> Operator:
        return _combination((factor, self))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Operator:
        return _combination((1.0 / divisor, self))

    def __neg__(self) -> Operator:
        return _combination((-1.0, self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.shape[0]}, dtype={self.vectors.name}, device={self.device})"


@dataclass(frozen=True)
class CheaperForm:
    """An operator with the spectrum of another, its known atoms included, on vectors that cost less."""

    operator: Operator
    note: str
    """What it is, in words, for the log and for the notes of a density."""
    full_steps: int
    """The number of steps up to which full reorthogonalisation costs next to nothing."""
    lift: Callable[[Any], Any]
    """From its eigenpairs to those of the operator that it stands for."""


def _combination(*terms: tuple[float, Any]) -> Operator:
    from specdens._combine import Combination

    return Combination(terms)


class Products(Operator):
    """Products by calling a function: a matrix's ``@``, a user's matvec, anything."""

    def __init__(self, n: int, vectors: Vectors, matmul: Callable[[Array], Array], *, blocks: bool) -> None:
        super().__init__(n, vectors)
        self._matmul = matmul
        self.has_block_products = blocks

    def apply(self, x: Array) -> Array:
        if x.ndim == 1 or self.has_block_products:
            return self._matmul(x)
        out = self.vectors.zeros(x.shape)
        for j in range(x.shape[1]):
            column = self._matmul(self.vectors.copy(x[:, j]))
            self._check_product(x[:, j], column)
            out = self.vectors.assign(out, (..., j), column)
        return out


def product_of_copy(product: Callable[[Array], Array], vectors: Vectors, x: Array) -> Array:
    """Return a product with a copy of x, whatever the operator behind does with its memory."""
    try:
        return product(vectors.copy(x))
    except ReusedMemoryError:  # from now on products are copied
        return product(vectors.copy(x))


def same_memory(x: Array, y: Array) -> bool:
    """Return whether two arrays overlap in memory."""
    if x is y:
        return True
    if aac.is_numpy_array(y):
        return bool(np.may_share_memory(x, y))
    if aac.is_torch_array(y):
        pointer = y.untyped_storage().data_ptr()
        return bool(pointer != 0 and pointer == x.untyped_storage().data_ptr())
    return False


def _is_writable(y: Array) -> bool:
    """Return whether y may be overwritten and read in chunks of rows: row-major, not read-only, not broadcast."""
    if aac.is_numpy_array(y):
        return bool(y.flags.writeable and y.flags.c_contiguous)
    if aac.is_torch_array(y):
        return bool(y.is_contiguous() and not y.is_inference())  # torch refuses to write what inference_mode() made
    return True
