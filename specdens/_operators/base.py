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
from specdens._operators.products import ReusedMemoryError, check_product, is_writable, shares_memory
from specdens._typing import Array
from specdens._vectors.base import Terms, Vectors


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
        """Project x onto the subspace in which the spectrum is not known, of dimension `bulk_dimension`.

        Parameters
        ----------
        x : Array
            A vector (n,) or a block (n, k), which is overwritten.

        Returns
        -------
        Array
            x, or an array in its place where the library's arrays cannot be changed.
        """
        return x

    def apply_within(self, x: Array) -> Array:
        """Return the product with an x that lies in that subspace already, so that it need not be projected.

        Parameters
        ----------
        x : Array
            A vector (n,) or a block (n, k) that `project` leaves as it is.

        Returns
        -------
        Array
            A x, of the shape of x, as new memory.
        """
        return self @ x

    def cheaper_form(self) -> CheaperForm | None:
        """Return an operator with the same spectrum that costs less, which `spectral_density` uses, or None.

        Returns
        -------
        CheaperForm or None
            The other operator, with the way back from its eigenpairs; None if there is none.
        """
        return None

    def probe_index(self, column: int) -> int:
        """Return the number of the random vector that probe `column` starts from.

        Parameters
        ----------
        column : int
            The number of the probe.

        Returns
        -------
        int
            `column`, unless several columns of a block shall start from one random vector.
        """
        return column

    fills_given_memory = False
    """Whether `three_term` can write its result into `out`; it may still return new memory for small vectors."""

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Return w = a (A v + b v) + c v_prev within that subspace, ⟨v, w⟩ and ⟨w, w⟩.

        One step of the Lanczos or Chebyshev recurrence. Override it where the product and this update can be done in
        one pass over memory.

        Parameters
        ----------
        v : Array
            A vector (n,) or a block (n, k) in that subspace, which is not changed.
        v_prev : Array or None
            The vector or block before it; None at the first step. It may be overwritten only if it is `out`.
        terms : Terms
            The coefficients a, b and c, one per column.
        squares : bool
            Whether ⟨w, w⟩ is asked for; if not, None may be returned in its place.
        out : Array or None
            Memory that w may be written into, if `fills_given_memory`; it may be that of v_prev.

        Returns
        -------
        tuple of Array
            w, ⟨v, w⟩ and ⟨w, w⟩; the inner products of each column, accumulated in float64.
        """
        return self.vectors.three_term(self.apply_within(v), v, v_prev, terms, squares=squares)

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """Return the product with x; ``A @ x`` calls it and checks what it returns.

        Parameters
        ----------
        x : Array
            A vector (n,) or a block (n, k), which must not be changed.

        Returns
        -------
        Array
            A x, of the shape, dtype and device of x. New memory each time; memory that is reused is found and copied.
        """

    def __matmul__(self, x: Array) -> Array:
        n = self.shape[0]
        if getattr(x, "ndim", 0) not in (1, 2) or x.shape[0] != n:
            raise ValueError(f"`x` must have shape ({n},) or ({n}, k); got {getattr(x, 'shape', type(x))}")
        y = self.vectors.placed(self.apply(x))
        if not (self.vectors.holds(y) and y.shape == x.shape):
            y = y.detach() if aac.is_torch_array(y) else y
            check_product(self.vectors, x, y)
        if self._reuses_memory:
            return self.vectors.copy(y)
        for earlier in tuple(self._last_products):  # another thread may use the operator too
            product = earlier()
            if product is not None and shares_memory(product, y):
                self._reuses_memory = True
                raise ReusedMemoryError
        if shares_memory(x, y) or not is_writable(y):
            return self.vectors.copy(y)
        self._last_products.append(weakref.ref(y))
        return y

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
        size = f"n={self.dimension}" + (f", vectors of {self.shape[0]}" if self.dimension != self.shape[0] else "")
        return f"{type(self).__name__}({size}, dtype={self.vectors.name}, device={self.device})"


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

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> from specdens.adapters import Array, Operator, vectors_like
    >>> class Wide(Operator):
    ...     # XᵀX of a matrix X with few rows: XXᵀ has the same eigenvalues but for zeros
    ...     def __init__(self, X: Array) -> None:
    ...         super().__init__(X.shape[1], vectors_like(X))
    ...         self.X = X
    ...     def apply(self, x: Array) -> Array:
    ...         return self.X.T @ (self.X @ x)
    ...     def cheaper_form(self) -> sd.CheaperForm:
    ...         return sd.CheaperForm(sd.gram(self.X), "by rows", full_steps=len(self.X), lift=lambda pairs: pairs)
    >>> density = sd.spectral_density(Wide(np.random.default_rng(0).standard_normal((20, 2000))))
    >>> float(density.atoms.masses[0])  # 1,980 of 2,000
    0.99
    """

    operator: Operator
    note: str
    full_steps: int
    lift: Callable[[Any], Any]
