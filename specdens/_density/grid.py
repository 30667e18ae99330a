"""Grids: the cells around points, and the part of the axis that they cover."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._validate import as_count

MARGIN = 0.05
"""How far a grid reaches beyond the spectrum, as a share of its width."""


def uniform_edges(lo: float, hi: float, num_points: int) -> Floats:
    """Return the ends of `num_points` equal cells whose centers run from lo to hi."""
    num_points = as_count("num_points", num_points, minimum=2)
    half = (hi - lo) / (num_points - 1) / 2
    return np.linspace(lo - half, hi + half, num_points + 1)


def edges_around(grid: ArrayLike) -> Floats:
    """Return the ends of the cells around given points: half way between them, symmetric at the ends."""
    points = np.asarray(grid, dtype=np.float64)
    if points.ndim != 1 or points.size < 2:
        raise ValueError(f"`grid` must be a vector of at least 2 points; got shape {points.shape}")
    if not np.all(np.isfinite(points)) or not np.all(np.diff(points) > 0):
        raise ValueError("`grid` must be finite and strictly increasing")
    middle = (points[1:] + points[:-1]) / 2
    return np.concatenate([[2 * points[0] - middle[0]], middle, [2 * points[-1] - middle[-1]]])


def widened_point(interval: Interval) -> Interval:
    """Return the interval, widened by the margin if it is a point up to rounding."""
    is_point = interval.width <= 1e-12 * max(abs(interval.lo), abs(interval.hi))
    return interval.widened(MARGIN) if is_point else interval
