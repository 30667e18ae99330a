"""Intervals that contain a spectrum."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Interval(NamedTuple):
    """An interval that contains a spectrum.

    Attributes
    ----------
    lo, hi : float
        Its ends.

    Examples
    --------
    >>> import specdens as sd
    >>> sd.Interval(-1.0, 3.0).widened(0.25)
    Interval(lo=-2.0, hi=4.0)
    """

    lo: float
    hi: float

    @property
    def width(self) -> float:
        """The length of the interval."""
        return self.hi - self.lo

    @property
    def center(self) -> float:
        """The middle of the interval."""
        return self.lo / 2 + self.hi / 2

    def widened(self, margin: float) -> Interval:
        """Return the interval with `margin` of its width added at either end, and never of width zero.

        Parameters
        ----------
        margin : float
            What is added at either end, as a share of the width.

        Returns
        -------
        Interval
            The wider interval.

        Raises
        ------
        ValueError
            If the margin is negative or not finite.
        """
        margin = as_margin(margin)
        room = margin * self.width
        if self.width <= 1e-12 * max(abs(self.lo), abs(self.hi)):  # a single eigenvalue, to rounding
            scale = abs(self.center) if abs(self.center) > 1e-150 else 1.0  # the squares of less are zero
            room = scale * max(margin, 1e-3)
        return Interval(self.lo - room, self.hi + room)


def as_margin(margin: Any) -> float:
    """Return a share of the width that is added at either end: a finite number, not negative."""
    try:
        number = float(margin)
    except (TypeError, ValueError):
        raise TypeError(f"`margin` must be a number; got {margin!r}") from None
    if not 0 <= number < np.inf:
        raise ValueError(f"`margin` must be finite and not negative; got {number:g}. 0 adds nothing at the ends.")
    return number


def as_interval(name: str, bounds: Any) -> Interval:
    """Return a pair of increasing finite numbers as an `Interval`."""
    try:
        lo, hi = (float(end) for end in bounds)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a pair (lo, hi); got {bounds!r}") from None
    if not (np.isfinite(lo) and np.isfinite(hi) and lo < hi):
        raise ValueError(f"`{name}` must be finite and increasing; got ({lo:g}, {hi:g})")
    return Interval(lo, hi)
