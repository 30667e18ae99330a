"""The width of a kernel as a function of the position on the axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specdens._distributions.cdf import Floats

Width = Callable[[Floats], Floats]


def constant_width(width: float) -> Width:
    """Return the same width everywhere."""
    return lambda x: np.full(np.shape(x), width)


def interpolated_width(points: Floats, widths: Floats) -> Width:
    """Return the width that is log-linear between the given points."""
    logs = np.log(widths)
    return lambda x: np.exp(np.interp(x, points, logs))


def node_spacing(nodes: Floats) -> Floats:
    """Return at every node of an increasing sequence the mean of the gaps to its neighbors.

    It is at most twice the smaller gap, so that the last node of a bulk does not leak into the gap beside it.
    """
    gaps = np.diff(nodes)
    left, right = np.concatenate([gaps[:1], gaps]), np.concatenate([gaps, gaps[-1:]])
    return np.asarray(np.minimum((left + right) / 2, 2 * np.minimum(left, right)))
