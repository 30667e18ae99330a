"""Cumulative distribution functions that are piecewise linear with jumps.

Mixtures, quantiles and W1 distances of such functions are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cdf:
    """A non-decreasing function, linear between its knots; two knots at the same position are a jump.

    Attributes
    ----------
    positions, values : ndarray
        The knots, both non-decreasing. The function is 0 left of the first knot and constant right of the last.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> cdf = sd.spectral_density(np.diag([1.0, 1.0, 1.0, 5.0])).distribution()
    >>> cdf([0.0, 2.0, 6.0]).round(12).tolist()
    [0.0, 0.75, 1.0]
    >>> float(cdf.quantile(0.9))
    5.0
    """

    positions: Floats
    values: Floats

    @classmethod
    def of_slabs(cls, left: Floats, right: Floats, mass: Floats) -> Cdf:
        """Return the function that rises linearly by mass[j] from left[j] to right[j].

        The slabs are in increasing order and do not overlap. The exception are atoms of negligible mass inside a slab:
        they are moved to its end.

        Parameters
        ----------
        left, right : ndarray
            The ends of every slab; an atom has both at one place.
        mass : ndarray
            The mass of every slab.

        Returns
        -------
        Cdf
            The distribution function.
        """
        upper = np.cumsum(mass)
        positions = np.maximum.accumulate(np.column_stack([left, right]).ravel())
        return cls(positions, np.maximum.accumulate(np.column_stack([upper - mass, upper]).ravel()))

    @classmethod
    def of_atoms(cls, positions: Floats, masses: Floats) -> Cdf:
        """Return the step function with jumps of `masses` at increasing `positions`.

        Parameters
        ----------
        positions, masses : ndarray
            Where the jumps are, and how high.

        Returns
        -------
        Cdf
            The distribution function.
        """
        return cls.of_slabs(positions, positions, masses)

    @property
    def mass(self) -> float:
        """The total mass: the value right of the last knot."""
        return float(self.values[-1]) if self.values.size else 0.0

    def __call__(self, x: ArrayLike, *, side: Literal["left", "right"] = "right") -> Floats:
        """Return the mass at or below x (side="right"), or strictly below it (side="left")."""
        x = np.asarray(x, dtype=np.float64)
        if self.positions.size == 0:
            return np.zeros(x.shape)
        after = np.searchsorted(self.positions, x, side=side)
        i, j = np.maximum(after - 1, 0), np.minimum(after, self.positions.size - 1)
        width = self.positions[j] - self.positions[i]
        share = np.where(width > 0, (x - self.positions[i]) / np.where(width > 0, width, 1.0), 0.0)
        inside = self.values[i] + share * (self.values[j] - self.values[i])
        value = np.where(after == 0, 0.0, np.where(after == self.positions.size, self.values[-1], inside))
        return np.where(np.isnan(x), np.nan, value)

    def jumps(self, lo: ArrayLike, hi: ArrayLike) -> Floats:
        """Return the mass of the jumps strictly between lo and hi.

        Parameters
        ----------
        lo, hi : array_like
            The ends of the intervals.

        Returns
        -------
        ndarray
            The masses, one per interval.
        """
        is_jump = self.positions[1:] == self.positions[:-1]
        at = self.positions[1:][is_jump]
        total = np.concatenate([[0.0], np.cumsum(np.diff(self.values)[is_jump])])
        inside: Floats = total[np.searchsorted(at, hi, side="left")] - total[np.searchsorted(at, lo, side="right")]
        return np.maximum(inside, 0.0)

    def quantile(self, q: ArrayLike) -> Floats:
        """Return the smallest x at which the function reaches the share q of its mass.

        Parameters
        ----------
        q : array_like
            Shares between 0 and 1.

        Returns
        -------
        ndarray
            The positions, of the shape of q.
        """
        # slightly less, so that a level which rounding just misses counts as reached
        level = np.asarray(q, dtype=np.float64) * self.mass * (1 - 1e-14)
        j = np.clip(np.searchsorted(self.values, level, side="left"), 1, self.values.size - 1)
        rise = self.values[j] - self.values[j - 1]
        share = np.where(rise > 0, (level - self.values[j - 1]) / np.where(rise > 0, rise, 1.0), 0.0)
        return self.positions[j - 1] + np.clip(share, 0.0, 1.0) * (self.positions[j] - self.positions[j - 1])


def mixture(parts: Sequence[tuple[float, Cdf]]) -> Cdf:
    """Return the weighted sum Σ wᵢ Fᵢ of distribution functions."""
    positions = np.unique(np.concatenate([np.empty(0), *(part.positions for _, part in parts)]))
    sides = [sum((w * part(positions, side=side) for w, part in parts), np.zeros(positions.shape)) for side in _SIDES]
    return Cdf(np.repeat(positions, 2), np.maximum.accumulate(np.column_stack(sides).ravel()))


def wasserstein(F: Cdf, G: Cdf) -> float:
    """Return the W1 (Wasserstein-1) distance ∫ |F − G| dx of two functions of the same mass."""
    x = np.unique(np.concatenate([F.positions, G.positions]))
    # on the open interval (x[i], x[i+1]) both are linear: from the right limit at x[i] to the left limit at x[i+1]
    start = (F(x) - G(x))[:-1]
    stop = (F(x, side="left") - G(x, side="left"))[1:]
    same_sign = start * stop >= 0
    total = np.abs(start) + np.abs(stop)
    crossing = (start**2 + stop**2) / np.where(total > 0, total, 1.0)
    return float(np.sum(np.diff(x) * np.where(same_sign, total, crossing) / 2))


_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
