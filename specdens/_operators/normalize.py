"""Operators shifted and scaled to the interval [−1, 1]."""

from __future__ import annotations

from specdens._distributions.interval import Interval
from specdens._operators.combination import Combination
from specdens._typing import OperatorLike


class Normalized(Combination):
    """The operator (A − c)/d, whose spectrum lies in [−1, 1] when that of A lies in `interval` = [c − d, c + d].

    `normalize` makes one.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes.
    interval : Interval
        An interval that contains the spectrum of A.

    Attributes
    ----------
    interval : Interval
        The interval that was mapped to [−1, 1].

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> sd.Normalized(np.diag([0.0, 4.0]), sd.Interval(0.0, 4.0)) @ np.ones(2)
    array([-1.,  1.])
    """

    def __init__(self, A: OperatorLike, interval: Interval) -> None:
        half = interval.width / 2
        super().__init__([(1.0 / half, A)], shift=-interval.center / half)
        self.interval = interval
