"""Growth of rounding errors in the subspace that an operator projects out.

A deflated or projected operator is zero on the subspace of its known eigenvectors. A Lanczos vector has a component of
rounding size there. If zero lies outside the rest of the spectrum, the recurrence multiplies it by about |α|/β at every
step, until zero appears as a Ritz value that the operator does not have on the complement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specdens._typing import Floats

_NUM_PROJECTIONS = 2  # in a row: the new vector still carries the component of the one before


@dataclass(frozen=True)
class Leakage:
    """Upper estimates of the components of the last two Lanczos vectors in the known subspace, one per probe."""

    current: Floats
    previous: Floats
    num_due: int = 0
    """How many of the next vectors are to be projected."""

    @classmethod
    def at_start(cls, num_probes: int, *, eps: float) -> Leakage:
        """Return the estimate for start vectors that were projected."""
        return cls(np.full(num_probes, eps), np.zeros(num_probes))

    @classmethod
    def from_array(cls, array: NDArray[np.float64]) -> Leakage:
        """Return the estimate from its saved array."""
        return cls(array[0], array[1], int(array[2, 0]))

    def as_array(self) -> NDArray[np.float64]:
        """Return the estimate as an array of three rows, to be saved."""
        return np.stack([self.current, self.previous, np.full(self.current.shape, float(self.num_due))])

    @property
    def projects(self) -> bool:
        """Whether the vector of the last step is to be projected."""
        return self.num_due > 0

    def after_step(self, alpha: Floats, beta: Floats, beta_prev: Floats, *, eps: float) -> Leakage:
        """Return the estimate after a step with these coefficients; β = 0 marks probes that have ended."""
        moved = np.abs(alpha) * self.current + beta_prev * self.previous
        grown = np.divide(moved, beta, out=np.zeros(beta.shape), where=beta > 0) + eps
        due = max(0, self.num_due - 1)
        if not due and np.any(
            grown > eps**0.75
        ):  # with ε^½ eigenvalues of an exact run are off by 1e-10, with ε^¾ by rounding
            due = _NUM_PROJECTIONS
        return Leakage(np.full(beta.shape, eps) if due else grown, self.current, due)
