"""Operators that wrap another one and forward everything that they do not change: the base class, and counting."""

from __future__ import annotations

from dataclasses import replace

from specdens._distributions.atoms import Atoms
from specdens._distributions.interval import Interval
from specdens._operators.base import CheaperForm, Operator
from specdens._operators.convert import as_operator
from specdens._typing import Array, OperatorLike
from specdens._vectors.base import Terms


class Wrapper(Operator):
    """Base class of operators made from one other operator `A`: every hook of `Operator` is forwarded to it.

    A subclass overrides the hooks that it changes. Products, facts about the spectrum and the fused step of `A` are
    kept by all the others.

    Parameters
    ----------
    A : OperatorLike
        The operator that is wrapped: anything that `as_operator` takes.

    Examples
    --------
    >>> from typing import Any
    >>> import numpy as np, specdens as sd
    >>> class Logged(sd.Wrapper):
    ...     def apply(self, x: Any) -> Any:
    ...         print("product with", x.shape)
    ...         return super().apply(x)
    >>> Logged(np.eye(2)) @ np.ones(2)
    product with (2,)
    array([1., 1.])
    """

    def __init__(self, A: OperatorLike) -> None:
        self.A: Operator = as_operator(A)
        super().__init__(self.A.shape[0], self.A.vectors)

    @property
    def has_block_products(self) -> bool:  # type: ignore[override]
        return self.A.has_block_products

    @property
    def is_matrix(self) -> bool:  # type: ignore[override]
        return self.A.is_matrix

    @property
    def fills_given_memory(self) -> bool:  # type: ignore[override]
        return self.A.fills_given_memory

    @property
    def dimension(self) -> int:
        return self.A.dimension

    @property
    def bulk_dimension(self) -> int:
        return self.A.bulk_dimension

    @property
    def known_atoms(self) -> Atoms:
        return self.A.known_atoms

    @property
    def known_bounds(self) -> Interval:
        return self.A.known_bounds

    @property
    def notes(self) -> tuple[str, ...]:
        return self.A.notes

    def project(self, x: Array) -> Array:
        return self.A.project(x)

    def apply(self, x: Array) -> Array:
        return self.A @ x

    def apply_within(self, x: Array) -> Array:
        return self.A.apply_within(x)

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        return self.A.three_term(v, v_prev, terms, squares=squares, out=out)

    def cheaper_form(self) -> CheaperForm | None:
        return self.A.cheaper_form()

    def probe_index(self, column: int) -> int:
        return self.A.probe_index(column)


class Counted(Wrapper):
    """An operator that counts its products, on the same code path and with the same results as without counting.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes.

    Attributes
    ----------
    num_products : int
        The number of columns that were multiplied so far, those with its cheaper form included.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = sd.Counted(np.diag([1.0, 2.0, 3.0]))
    >>> _ = A @ np.ones(3), A @ np.ones((3, 5))
    >>> A.num_products
    6
    """

    def __init__(self, A: OperatorLike) -> None:
        super().__init__(A)
        self._tally = _Tally()

    @property
    def num_products(self) -> int:
        """The number of columns that were multiplied so far."""
        return self._tally.count

    @num_products.setter
    def num_products(self, count: int) -> None:
        self._tally.count = count

    def apply(self, x: Array) -> Array:
        self._tally.add(x)
        return super().apply(x)

    def apply_within(self, x: Array) -> Array:
        self._tally.add(x)
        return super().apply_within(x)

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        self._tally.add(v)
        return super().three_term(v, v_prev, terms, squares=squares, out=out)

    def cheaper_form(self) -> CheaperForm | None:
        """Return the cheaper form of the operator, whose products are counted here."""
        form = super().cheaper_form()
        if form is None:
            return None
        counted = Counted(form.operator)
        counted._tally = self._tally
        return replace(form, operator=counted)


class _Tally:
    """A number of products that several operators add to."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, x: Array) -> None:
        self.count += 1 if x.ndim == 1 else x.shape[1]
