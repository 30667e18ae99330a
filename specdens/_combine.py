"""Operators made from operators: sums, multiples and shifts; projections; counting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from specdens._as_operator import as_operator
from specdens._atoms import Atoms
from specdens._operators import Operator, ReusedMemoryError, same_memory
from specdens._vectors import Array


class Combination(Operator):
    """The operator Σ cᵢ Aᵢ + s I: sums, differences, scalar multiples and shifts.

    A multiple or a shift of an operator that knows part of its spectrum knows it too; a sum does not.

    Parameters
    ----------
    terms
        Pairs (cᵢ, Aᵢ) of a real coefficient and an operator.
    shift
        The multiple s of the identity.
    """

    def __init__(self, terms: Sequence[tuple[float, Any]], *, shift: float = 0.0) -> None:
        if not terms:
            raise ValueError("`terms` must hold at least one pair (coefficient, operator); got none")
        operators = [as_operator(A) for _, A in terms]
        first = operators[0]
        super().__init__(first.shape[0], first.vectors)
        for A in operators[1:]:
            if (A.shape, A.dtype, A.device) != (first.shape, first.dtype, first.device):
                raise ValueError(
                    f"operators must agree in shape, dtype and device to be added; got {first!r} and {A!r}"
                )
        self.terms = tuple((_as_real(c), A) for (c, _), A in zip(terms, operators, strict=True))
        self.shift = _as_real(shift)
        self.has_block_products = all(A.has_block_products for A in operators)

    def apply(self, x: Array) -> Array:
        vectors = self.vectors
        (c, A), *others = self.terms
        y = A @ x
        if c != 1.0:
            y = vectors.scale(self._coefficient(c), y)
        for c, A in others:
            product = A @ x
            if same_memory(product, y):  # two operators that share a buffer
                raise ReusedMemoryError
            y = vectors.axpy(self._coefficient(c), product, y)
        if self.shift != 0.0:
            y = vectors.axpy(self._coefficient(self.shift), x, y)
        return y

    @property
    def dimension(self) -> int:
        return self._only.dimension if self._only else super().dimension

    @property
    def bulk_dimension(self) -> int:
        return self._only.bulk_dimension if self._only else super().bulk_dimension

    @property
    def known_atoms(self) -> Atoms:
        if self._only is None:
            return super().known_atoms
        positions, masses = self._only.known_atoms
        positions = self.terms[0][0] * positions + self.shift
        order = np.argsort(positions, kind="stable")
        return Atoms(positions[order], masses[order])

    def project(self, x: Array) -> Array:
        return self._only.project(x) if self._only else x

    def apply_within(self, x: Array) -> Array:
        return self.project(self @ x)

    @property
    def _only(self) -> Operator | None:
        return self.terms[0][1] if len(self.terms) == 1 else None

    def _coefficient(self, c: float) -> Array:
        return self.vectors.from_host(np.asarray(c))


class Projected(Operator):
    """The operator P A P with P = I − QQᴴ, for a Q with orthonormal columns.

    Parameters
    ----------
    A
        Any operator.
    Q
        Orthonormal columns, of shape (n, rank), in the array library and on the device of A.
    """

    def __init__(self, A: Any, Q: Array) -> None:
        self.A: Operator = as_operator(A)
        self.Q = Q
        n = self.A.shape[0]
        if Q.ndim != 2 or Q.shape[0] != n or Q.shape[1] > n:
            raise ValueError(f"`Q` must have shape ({n}, rank); got {tuple(Q.shape)}")
        super().__init__(n, self.A.vectors)
        self.has_block_products = self.A.has_block_products

    def project(self, x: Array) -> Array:
        """Remove the part of x within the span of Q, in place, and return x."""
        # twice is enough: the second pass removes what rounding left of a large component
        for _ in range(2):
            x = self.vectors.subtract(self.Q, self.vectors.coefficients(self.Q, x), x)
        return x

    def apply(self, x: Array) -> Array:
        return self.project(self.A @ self.project(self.vectors.copy(x)))


class Counted(Operator):
    """An operator that counts its products: `num_products` columns were multiplied so far.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = sd.Counted(np.diag([1.0, 2.0, 3.0]))
    >>> _ = A @ np.ones(3), A @ np.ones((3, 5))
    >>> A.num_products
    6
    """

    def __init__(self, A: Any) -> None:
        self.A: Operator = as_operator(A)
        super().__init__(self.A.shape[0], self.A.vectors)
        self.num_products = 0
        self.has_block_products = self.A.has_block_products

    def apply(self, x: Array) -> Array:
        self.num_products += 1 if x.ndim == 1 else x.shape[1]
        return self.A @ x

    @property
    def dimension(self) -> int:
        return self.A.dimension

    @property
    def bulk_dimension(self) -> int:
        return self.A.bulk_dimension

    @property
    def known_atoms(self) -> Atoms:
        return self.A.known_atoms

    def project(self, x: Array) -> Array:
        return self.A.project(x)

    def apply_within(self, x: Array) -> Array:
        self.num_products += 1 if x.ndim == 1 else x.shape[1]
        return self.A.apply_within(x)


def _as_real(value: Any) -> float:
    try:
        number = complex(value)
    except (TypeError, ValueError):
        raise TypeError(f"coefficients of operators must be numbers; got {value!r}") from None
    if number.imag != 0 or not np.isfinite(number.real):
        raise ValueError(
            f"coefficients of operators must be real and finite, so that the sum is Hermitian; got {value!r}"
        )
    return number.real
