"""Will a search for eigenpairs end within its budget? The rate at which residuals have come down says so.

Residuals of eigenvalues that stand apart fall geometrically. At the edge of a dense spectrum they fall like a power of
the number of products, and a budget that is not enough is better not spent.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

Look = tuple[int, float]
"""A number of products, and the largest residual then as a multiple of what it may be."""

_EARLIEST = 0.2  # of the budget: before that a rate means little
_LATEST_LOOKS = (1.0, 5 / 6, 2 / 3)  # a new Ritz value among the wanted ones raises the residual for a while


def is_hopeless(looks: Sequence[Look], budget: int) -> bool:
    """Return whether the residuals will not come down within the budget, judged now and twice before.

    Parameters
    ----------
    looks
        What was seen since the search began, in order.
    budget
        The largest number of products.
    """
    if not looks or looks[-1][0] - looks[0][0] < _EARLIEST * budget:
        return False
    passed = looks[-1][0] - looks[0][0]
    times = [looks[0][0] + share * passed for share in _LATEST_LOOKS]
    return all(_expected_end(looks, time) > budget for time in times)


def _expected_end(looks: Sequence[Look], time: float) -> float:
    """Return after how many products the residuals will be small enough, at the rate of the half before `time`."""
    last = bisect_right(looks, (time, math.inf)) - 1
    half = bisect_right(looks, ((looks[0][0] + looks[last][0]) / 2, math.inf)) - 1
    (then, before), (now, excess) = looks[half], looks[last]
    if excess <= 1.0:
        return now
    rate = math.log(before / excess) / (now - then) if now > then and 0.0 < before < math.inf else 0.0
    return now + math.log(excess) / rate if rate > 0 else math.inf
