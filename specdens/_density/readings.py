"""The readings of a measure on the density that was drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import ArrayLike

from specdens._distributions.cdf import Floats
from specdens._validate import named_as

if TYPE_CHECKING:
    from specdens._measure.base import Measure
    from specdens._measure.convergence import Convergence
    from specdens._measure.estimate import Estimate, Estimates


@named_as("Density")
class MeasureReadings:
    """The part of `Density` that asks its measure: of the eigenvalues λ, whatever axis and kernel the density has."""

    measure: Measure

    @overload
    def count(self, lo: float, hi: float) -> Estimate: ...

    @overload
    def count(self, lo: ArrayLike, hi: ArrayLike) -> Estimates: ...

    def count(self, lo: ArrayLike, hi: ArrayLike) -> Estimate | Estimates:
        """Return the number of eigenvalues in [lo, hi]; see `Measure.count`."""
        return self.measure.count(lo, hi)

    def weight(self, lo: float, hi: float) -> Estimate:
        """Return the share of the measure in [lo, hi]; see `Measure.weight`."""
        return self.measure.weight(lo, hi)

    def quantile(self, q: ArrayLike) -> Floats:
        """Return the smallest λ below which the share q of the eigenvalues lies; see `Measure.quantile`."""
        return self.measure.quantile(q)

    def trace(self, f: Callable[[Floats], ArrayLike] = np.asarray) -> Estimate:
        """Return tr f(A); see `Measure.trace`."""
        return self.measure.trace(f)

    def mean(self, f: Callable[[Floats], ArrayLike]) -> Estimate:
        """Return the mean of f over the eigenvalues; see `Measure.mean`."""
        return self.measure.mean(f)

    def logdet(self, *, shift: float = 0.0) -> Estimate:
        """Return log det(A + shift); see `Measure.logdet`."""
        return self.measure.logdet(shift=shift)

    def schatten(self, p: float) -> Estimate:
        """Return the Schatten p-norm; see `Measure.schatten`."""
        return self.measure.schatten(p)

    def estrada(self) -> Estimate:
        """Return the Estrada index tr exp A; see `Measure.estrada`."""
        return self.measure.estrada()

    def heat_trace(self, t: float) -> Estimate:
        """Return tr exp(−tA); see `Measure.heat_trace`."""
        return self.measure.heat_trace(t)

    def entropy(self) -> Estimate:
        """Return the entropy of the eigenvalues as shares of the trace; see `Measure.entropy`."""
        return self.measure.entropy()

    def effective_rank(self) -> Estimate:
        """Return the effective rank; see `Measure.effective_rank`."""
        return self.measure.effective_rank()

    def condition_number(self) -> Estimate:
        """Return the condition number; see `Measure.condition_number`."""
        return self.measure.condition_number()

    def convergence(self) -> Convergence:
        """Return how far the measure is from its limit; see `Measure.convergence`."""
        return self.measure.convergence()
