"""Sums, multiples and shifts of operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specdens._distributions.atoms import Atoms
from specdens._distributions.interval import Interval
from specdens._operators.base import CheaperForm, Operator
from specdens._operators.convert import as_operator
from specdens._operators.products import ReusedMemoryError, shares_memory
from specdens._operators.wrappers import Wrapper
from specdens._typing import Array, OperatorLike
from specdens._vectors.base import Terms

# Coefficients are folded into those of a fused step up to this size, far from the range of float32.
_LARGEST_FOLDED = 1e15


class Combination(Wrapper):
    """The operator Σ cᵢ Aᵢ + s I: sums, differences, scalar multiples and shifts.

    A multiple or a shift of one operator keeps what that operator knows of its spectrum and its fused step, with the
    coefficients folded in. A sum of several operators knows nothing of its spectrum.

    Parameters
    ----------
    terms : sequence of (float, OperatorLike)
        Pairs (cᵢ, Aᵢ) of a real coefficient and an operator. The operators agree in shape, dtype and device.
    shift : float
        The multiple s of the identity.

    Attributes
    ----------
    terms : tuple of (float, Operator)
        The pairs.
    shift : float
        The multiple of the identity.

    Raises
    ------
    ValueError
        If there are no terms, if operators disagree, or if a coefficient is not real and finite.
    TypeError
        If a coefficient is not a number.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = sd.as_operator(np.diag([1.0, 2.0]))
    >>> (2 * A - np.eye(2)).shifted(10.0) @ np.ones(2)
    array([11., 13.])
    """

    def __init__(self, terms: Sequence[tuple[float, OperatorLike]], *, shift: float = 0.0) -> None:
        if not terms:
            raise ValueError("`terms` must hold at least one pair (coefficient, operator); got none")
        self.terms = tuple((_as_real(c), as_operator(A)) for c, A in terms)
        self.shift = _as_real(shift)
        # c A + s I, where A is the operator of a single term, or the sum of several
        self._factor, inner = self.terms[0] if len(self.terms) == 1 else (1.0, _Sum(self.terms))
        super().__init__(inner)

    @property
    def known_atoms(self) -> Atoms:
        positions, masses = self.A.known_atoms
        positions = self._factor * positions + self.shift
        order = np.argsort(positions, kind="stable")
        return Atoms(positions[order], masses[order])

    @property
    def known_bounds(self) -> Interval:
        if self._factor == 0.0:
            return Interval(self.shift, self.shift)
        lo, hi = sorted(self._factor * end + self.shift for end in self.A.known_bounds)
        return Interval(lo, hi)

    def apply(self, x: Array) -> Array:
        return self._scaled_and_shifted(super().apply(x), x)

    def apply_within(self, x: Array) -> Array:
        y = self._scaled_and_shifted(super().apply_within(x), x)
        # A is zero outside the subspace, c A + s I is not: the traces of rounding there must not grow
        return self.project(y) if self._shifts_known_part else y

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        c, s = self._factor, self.shift
        in_range = max(abs(c), 1.0, abs(s)) <= _LARGEST_FOLDED * min(abs(c), 1.0)
        if not in_range or (self._shifts_known_part and not self.fills_given_memory):
            return Operator.three_term(self, v, v_prev, terms, squares=squares, out=out)
        # a ((c A + s) v + b v) + d v_prev = (a c) (A v + ((b + s) / c) v) + d v_prev
        a, b = terms.a, terms.b
        with self.vectors.float64_enabled():
            if c != 1.0:
                a = self._number(c) if a is None else a * self._number(c)
            if s != 0.0:
                b = self._number(s) if b is None else b + self._number(s)
            if c != 1.0 and b is not None:
                b = b * self._number(1.0 / c)
        return super().three_term(v, v_prev, Terms(a, b, terms.c), squares=squares, out=out)

    def cheaper_form(self) -> CheaperForm | None:
        """Return the same multiple and shift of the operator's cheaper form."""
        form, c, s = super().cheaper_form(), self._factor, self.shift
        if form is None or c == 0.0:
            return None

        def lift(pairs: Any) -> Any:
            return form.lift(pairs.transformed(1.0 / c, -s / c)).transformed(c, s)

        operator = Combination([(c, form.operator)], shift=s)
        return replace(form, operator=operator, lift=lift)

    def _scaled_and_shifted(self, y: Array, x: Array) -> Array:
        """Return c y + s x in the memory of y."""
        vectors = self.vectors
        if self._factor != 1.0:
            y = vectors.scale(vectors.from_host(np.asarray(self._factor)), y)
        if self.shift != 0.0:
            y = vectors.axpy(vectors.from_host(np.asarray(self.shift)), x, y)
        return y

    @property
    def _shifts_known_part(self) -> bool:
        return self.shift != 0.0 and self.bulk_dimension < self.vectors.whole_length(self.shape[0])

    def _number(self, value: float) -> Array:
        return self.vectors.from_host(np.asarray(value), self.vectors.wide)


class _Sum(Operator):
    """The operator Σ cᵢ Aᵢ of several terms, of whose spectrum nothing is known."""

    def __init__(self, terms: Sequence[tuple[float, Operator]]) -> None:
        first = terms[0][1]
        super().__init__(first.shape[0], first.vectors)
        for _, A in terms[1:]:
            if (A.shape, A.dtype, A.device) != (first.shape, first.dtype, first.device):
                raise ValueError(
                    f"operators must agree in shape, dtype and device to be added; got {first!r} and {A!r}"
                )
        self.terms = terms

    @property
    def has_block_products(self) -> bool:  # type: ignore[override]
        return all(A.has_block_products for _, A in self.terms)

    @property
    def is_matrix(self) -> bool:  # type: ignore[override]
        return all(A.is_matrix for _, A in self.terms)

    @property
    def known_bounds(self) -> Interval:
        ends = [sorted(c * end for end in A.known_bounds) if c else [0.0, 0.0] for c, A in self.terms]
        return Interval(sum(lo for lo, _ in ends), sum(hi for _, hi in ends))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(note for _, A in self.terms for note in A.notes))

    def apply(self, x: Array) -> Array:
        vectors = self.vectors
        (c, A), *others = self.terms
        y = A @ x
        if c != 1.0:
            y = vectors.scale(vectors.from_host(np.asarray(c)), y)
        for c, A in others:
            product = A @ x
            if shares_memory(product, y):  # two operators that share a buffer
                raise ReusedMemoryError
            y = vectors.axpy(vectors.from_host(np.asarray(c)), product, y)
        return y


Operator.combination_type = Combination


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
