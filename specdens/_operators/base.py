"""The base class of operators, on which all algorithms run."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import array_api_compat as aac
import numpy as np

from specdens._distributions.atoms import Atoms
from specdens._distributions.interval import Interval
from specdens._typing import Array
from specdens._vectors.base import Terms, Vectors, dtype_name


class ReusedMemoryError(ValueError):
    """An operator returned a buffer that still holds an earlier product. From then on its products are copied."""

    def __init__(self) -> None:
        super().__init__(
            "A @ x returned the memory of an earlier product that is still in use. Return a new array each time."
        )


class Operator(ABC):
    """Base class of operators: a `LinearOperator` that knows its array library and part of its spectrum.

    `as_operator` makes one from whatever multiplies a vector. A subclass defines `apply` and overrides the hooks of
    which it knows more than the defaults say. Products ``A @ x`` are checked (shape, dtype, device) and are new memory
    that the caller may overwrite. Operators combine with ``+``, ``-`` and real numbers.

    Parameters
    ----------
    n : int
        The length of the vectors.
    vectors : Vectors
        The vector operations of the array library, device and dtype.

    Attributes
    ----------
    shape : tuple of int
        (n, n).
    vectors : Vectors
        The vector operations.

    Raises
    ------
    ValueError
        By products: if shapes or devices do not fit, or if an operator returns a buffer that is still in use.
    TypeError
        By products: if the result is of another array library or dtype.

    Examples
    --------
    >>> from typing import Any
    >>> import numpy as np, specdens as sd
    >>> class Doubling(sd.Operator):
    ...     def apply(self, x: Any) -> Any:
    ...         return 2 * x
    >>> A = Doubling(3, sd.as_operator(np.eye(3)).vectors)
    >>> (A + np.eye(3)) @ np.ones(3)
    array([3., 3., 3.])
    """

    __array_ufunc__ = None  # so that NumPy leaves ``array + operator`` to the operator

    combination_type: ClassVar[Callable[..., Operator]]
    """The class of sums and multiples: `Combination`, set by the module that defines it."""

    has_block_products = True
    """Whether a product with a block is more than a loop over its columns."""

    is_matrix = False
    """Whether it is a matrix that the caller has, rather than a function or a model that makes products."""

    def __init__(self, n: int, vectors: Vectors) -> None:
        self.shape = (n, n)
        self.vectors = vectors
        # as many as a recurrence holds at a time: an operator may return several buffers in turn
        self._last_products: deque[weakref.ref[Any]] = deque(maxlen=3)
        self._reuses_memory = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle keeps: all but the references to products that are still in use."""
        return {**self.__dict__, "_last_products": deque(maxlen=3)}

    @property
    def dtype(self) -> Any:
        """The dtype of the vectors, in the terms of their array library."""
        return self.vectors.dtype

    @property
    def device(self) -> Any:
        """The device of the vectors."""
        return self.vectors.device

    # An operator may know part of its spectrum, such as deflated pairs or a null space. Algorithms then run on the
    # subspace of the rest, onto which probes are projected, and measures get the known part as atoms.

    @property
    def dimension(self) -> int:
        """The number of eigenvalues in all, the known ones included."""
        return self.vectors.whole_length(self.shape[0])

    @property
    def bulk_dimension(self) -> int:
        """The dimension of the subspace in which the spectrum is not known."""
        return self.vectors.whole_length(self.shape[0])

    @property
    def known_atoms(self) -> Atoms:
        """The eigenvalues known beforehand, with their share of `dimension`."""
        return Atoms.none()

    @property
    def known_bounds(self) -> Interval:
        """An interval that contains the spectrum by construction: from 0 on for a positive semi-definite operator."""
        return Interval(-np.inf, np.inf)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the notes of results should say of how products are made."""
        return ()

    def project(self, x: Array) -> Array:
        """Project x onto that subspace, in place, and return x."""
        return x

    def apply_within(self, x: Array) -> Array:
        """Return the product with an x that lies in that subspace."""
        return self @ x

    def cheaper_form(self) -> CheaperForm | None:
        """Return an operator with the same spectrum that costs less, which `spectral_density` uses, or None."""
        return None

    def probe_index(self, column: int) -> int:
        """Return the number of the random vector that probe `column` starts from, for operators on several columns."""
        return column

    fills_given_memory = False
    """Whether `three_term` can write its result into `out`; it may still return new memory for small vectors."""

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Return w = a (A v + b v) + c v_prev within that subspace, ⟨v, w⟩ and ⟨w, w⟩; see `Vectors.three_term`.

        An operator that fuses its product with this update overrides it, and may write w into `out`, also if that is
        v_prev.
        """
        return self.vectors.three_term(self.apply_within(v), v, v_prev, terms, squares=squares)

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """Return the product with x of shape (n,) or (n, k); ``A @ x`` checks it."""

    def __matmul__(self, x: Array) -> Array:
        n = self.shape[0]
        if getattr(x, "ndim", 0) not in (1, 2) or x.shape[0] != n:
            raise ValueError(f"`x` must have shape ({n},) or ({n}, k); got {getattr(x, 'shape', type(x))}")
        y = self.vectors.placed(self.apply(x))
        if aac.is_torch_array(y):
            y = y.detach()
        self._check_product(x, y)
        if self._reuses_memory:
            return self.vectors.copy(y)
        for earlier in tuple(self._last_products):  # another thread may use the operator too
            product = earlier()
            if product is not None and shares_memory(product, y):
                self._reuses_memory = True
                raise ReusedMemoryError
        if shares_memory(x, y) or not _is_writable(y):
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

    def _combine(self, *terms: tuple[float, Any]) -> Operator:
        return type(self).combination_type(terms)

    def __add__(self, other: Any) -> Operator:
        return self._combine((1.0, self), (1.0, other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Operator:
        return self._combine((1.0, self), (-1.0, other))

    def __rsub__(self, other: Any) -> Operator:
        return self._combine((1.0, other), (-1.0, self))

    def __mul__(self, factor: float) -> Operator:
        return self._combine((factor, self))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Operator:
        return self._combine((1.0 / divisor, self))

    def __neg__(self) -> Operator:
        return self._combine((-1.0, self))

    def shifted(self, shift: float) -> Operator:
        """Return the operator A + shift · I.

        Parameters
        ----------
        shift : float
            The number that is added to every eigenvalue.

        Returns
        -------
        Operator
            The shifted operator, which keeps the known atoms and the fused step of this one.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> sd.as_operator(np.eye(2)).shifted(-3.0) @ np.ones(2)
        array([-2., -2.])
        """
        return type(self).combination_type(((1.0, self),), shift=shift)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.shape[0]}, dtype={self.vectors.name}, device={self.device})"


@dataclass(frozen=True)
class CheaperForm:
    """An operator with the spectrum of another, its known atoms included, whose vectors are shorter.

    Attributes
    ----------
    operator : Operator
        The operator to use instead.
    note : str
        What it is, for the log and for the notes of a density.
    full_steps : int
        The number of steps up to which full reorthogonalisation costs next to nothing.
    lift : callable
        From its eigenpairs to those of the operator that it stands for.
    """

    operator: Operator
    note: str
    """What it is, in words, for the log and for the notes of a density."""
    full_steps: int
    """The number of steps up to which full reorthogonalisation costs next to nothing."""
    lift: Callable[[Any], Any]
    """From its eigenpairs to those of the operator that it stands for."""


def product_of_copy(product: Callable[[Array], Array], vectors: Vectors, x: Array) -> Array:
    """Return a product with a copy of x; operators that reuse their memory are called twice."""
    try:
        return product(vectors.copy(x))
    except ReusedMemoryError:  # from now on products are copied
        return product(vectors.copy(x))


def shares_memory(x: Array, y: Array) -> bool:
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
