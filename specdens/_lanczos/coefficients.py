"""The coefficients of one probe in a Lanczos recurrence.

These are a few numbers per step. They are Python's, not arrays: at n = 10⁴ the work on small arrays would take longer
than the product and the vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

_EPS64 = float(np.finfo(np.float64).eps)


@dataclass(slots=True, kw_only=True)
class ProbeCoefficients:
    """α and β of one probe so far, and the lengths of its last two vectors."""

    alphas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)
    """β₁, …, β_m; the last one couples to the next vector."""
    scale: float = 0.0
    """The largest ‖A v‖ so far, or what is known of it beforehand."""
    is_active: bool = True
    """Whether the probe goes on: false once T is exact."""
    length: float = 1.0
    """‖v‖ as measured: about 1, so that no pass is spent on scaling."""
    length_prev: float = 1.0

    @property
    def last_beta(self) -> float:
        """β of the last step, or 0 before the first."""
        return self.betas[-1] if self.betas else 0.0

    def weight_of_previous(self) -> float:
        """Return −β n_v/n_prev, the coefficient of v_prev in the next vector."""
        return -self.last_beta * self.length / self.length_prev if self.is_active else 0.0

    def likely_scale(self, limits: tuple[float, float, Any]) -> float:
        """Return a g that makes the next vector about unit if β changes little, rounded to the vectors' dtype."""
        smallest, largest, narrow = limits
        size = self.last_beta * self.length
        g = min(max(1.0 / size if size > 0 else 1.0, smallest), largest)
        return float(narrow.type(g))

    def next_beta(self, squared_length: complex, g: float) -> float:
        """Return β = ‖g (w − α v)‖/(g n_v), or 0 if the probe has ended."""
        return math.sqrt(max(squared_length.real, 0.0)) / (g * self.length) if self.is_active else 0.0

    def record(self, alpha: complex, squared_length: complex, g: float, *, eps: float, known_size: float) -> None:
        """Append α and β, and keep the length of the new vector.

        The probe ends if β is rounding, of a product or of known eigenvalues of that size.
        """
        beta, beta_prev = self.next_beta(squared_length, g), self.last_beta
        size = math.hypot(alpha.real, alpha.imag, beta, beta_prev)
        self.scale = max(self.scale, size)
        self.alphas.append(alpha.real)
        self.betas.append(beta)
        # an invariant subspace; relative to this product, so that outliers do not hide a bulk far below them
        self.is_active = beta > breakdown(eps) * max(size, known_size)
        self.length, self.length_prev = math.sqrt(max(squared_length.real, 0.0)), self.length

    def settle(self, log2_range: float) -> float:
        """Return the factor that makes the new vector unit if its length is beyond 2^±log2_range, else 1; 0 at the end.

        The first one is always made unit: nothing was known of its length.
        """
        length = self.length
        if self.is_active and len(self.alphas) > 1 and abs(math.log2(length)) <= log2_range:
            return 1.0
        self.length = 1.0
        return 1.0 / length if self.is_active else 0.0

    def copy(self) -> Self:
        """Return coefficients that can go on without changing these."""
        return replace(self, alphas=list(self.alphas), betas=list(self.betas))


def breakdown(eps: float) -> float:
    """Return what rounding leaves of β where it should be zero, relative to the product.

    A few units ε of the vectors, whose coefficients are exact; in float64 also what the accumulation of inner products
    leaves (39 ε was seen on a Kneser graph, with room for more).
    """
    return 5 * eps + 100 * _EPS64
