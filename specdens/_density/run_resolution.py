"""The resolution that a run has at every λ: a share of the distance between its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from specdens._density.kernel_width import Width, constant_width, node_spacing
from specdens._density.pieces import PointMasses
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval

if TYPE_CHECKING:
    from specdens._measure.base import Measure
    from specdens._measure.quadrature import Rule

_NARROWEST, _WIDEST = 0.35, 0.7  # kernel width h, in units of the distance between nodes
_ENOUGH = 56.0  # eigenvalues × probes within h, between these limits: the sampling error is then 10 %


def width_of_run(measure: Measure, points: PointMasses, ends: Interval) -> Width:
    """Return h(λ): the geometric mean over the probes of a share of the distance between their nodes."""
    room = max(1e-7 * ends.width, measure.rounding_room)
    samples = measure.num_probes if measure.sampling_variance else np.inf
    maps = [_spacing(rule, points, measure.bulk_dimension, samples, room) for rule in measure.smooth_rules]
    maps = [each for each in maps if each[0].size]
    if not maps:
        return constant_width(max(ends.width / 100, room))
    return lambda x: np.exp(np.mean([np.interp(x, nodes, logs) for nodes, logs in maps], axis=0))


def _spacing(rule: Rule, points: PointMasses, dimension: int, num_probes: float, room: float) -> tuple[Floats, Floats]:
    """Return the nodes of a rule outside the point masses, and the logarithms of the kernel width at each."""
    keep = (rule.weights > 1e-13) & ~within(rule.nodes, points)
    nodes, weights = _without_ghosts(rule.nodes[keep], rule.weights[keep], room)
    if nodes.size < 2:
        return np.empty(0), np.empty(0)
    factor = np.clip(_ENOUGH / (num_probes * dimension * weights), _NARROWEST, _WIDEST)
    width = np.maximum(factor * node_spacing(nodes), _width_of_few(np.diff(nodes), dimension * weights))
    return nodes, np.log(np.maximum(width, room))


def _width_of_few(gaps: Floats, eigenvalues: Floats) -> Floats:
    """Return twice the distance between eigenvalues where nodes hold one or two each, within the nodes' resolution.

    Single eigenvalues, as at the ends of small matrices, are not to be seen one by one.
    """
    around = sliding_window_view(np.pad(np.append(gaps, gaps[-1]), 2, mode="reflect"), 5)
    held = sliding_window_view(np.pad(eigenvalues, 2, mode="edge"), 5).mean(axis=1)
    return np.where(held < 4, np.minimum(2 / held, 1.5) * np.median(around, axis=1), 0.0)


def _without_ghosts(nodes: Floats, weights: Floats, room: float) -> tuple[Floats, Floats]:
    """Return nodes and weights with copies of one eigenvalue merged.

    These are nodes within rounding of each other, and nodes ten times as close as the gaps around them are on average.
    """
    for _ in range(4):
        gaps = np.diff(nodes)
        if gaps.size < 3:
            break
        around = sliding_window_view(np.pad(gaps, 3, mode="reflect" if gaps.size > 3 else "edge"), 7)
        starts = np.flatnonzero(np.concatenate([[True], gaps > np.maximum(room, 0.1 * np.median(around, axis=1))]))
        if starts.size == nodes.size:
            break
        nodes, weights = nodes[starts], np.add.reduceat(weights, starts)
    return nodes, weights


def within(x: Floats, points: PointMasses) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which positions lie in the interval of a point."""
    owner = np.searchsorted(points.lo, x, side="right") - 1
    return np.asarray((owner >= 0) & (x <= np.append(points.hi, np.inf)[owner]), dtype=np.bool_)
