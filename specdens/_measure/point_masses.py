"""Eigenvalues that stand apart: isolated ones beyond or between bulks, and degenerate ones within a bulk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from specdens._density.pieces import PointMasses
from specdens._distributions.cdf import Floats
from specdens._measure.quadrature import Rule

if TYPE_CHECKING:
    from specdens._measure.base import Measure

_RESOLVED = 0.2  # residual of a resolved node, as a share of the distance to its neighbours
_CONVERGED = 1e-2  # the same for a node that is an eigenvalue to what a picture can show
_HEAVY = 8.0  # weight of a degenerate eigenvalue, in units of the larger of its neighbours' weights
_MANY = 30.0  # eigenvalues that a degenerate one must stand for: a simple one looks like as many to one probe in 10⁷
_APART = 3.0  # distance of isolated eigenvalues in a picture, in units of the median distance of unresolved nodes
_NEGLIGIBLE = 1e-13  # weight of rounding
_ALONE = 5.0  # gaps on both sides of an isolated eigenvalue, in units of the next gaps beyond them


def find_point_masses(measure: Measure) -> PointMasses:
    """Return the eigenvalues that a picture shows as point masses, beyond those that are known or exact.

    These are the isolated eigenvalues of the measure, the outliers of `find_outliers`, converged eigenvalues in a gap
    of the spectrum, and degenerate eigenvalues, whose nodes are resolved and at least 8 times as heavy as their
    neighbours, as seen by most probes.
    Each comes with an interval that holds it and nothing else.
    """
    nodes = [_significant(rule) for rule in measure.smooth_rules]
    inner = [_stand_out(rule, measure.dimension * measure.probe_mass * measure.num_probes) for rule in nodes]
    everything = np.sort(np.concatenate([np.empty(0), *(rule.nodes for rule in nodes)]))
    room = measure.rounding_room
    outer = _converged(*_isolated(measure, room), everything, room)
    return _merged([outer, *inner], num_needed=max(1, (len(nodes) + 1) // 2), room=room)


def _isolated(measure: Measure, room: float) -> tuple[Floats, Floats]:
    """Return positions and errors of outliers and of isolated eigenvalues far apart, each once, in increasing order.

    At the edge of a smooth bulk the first eigenvalues are isolated, too, but no further apart than the nodes within the
    bulk: there they belong to the curve.
    """
    found, isolated = measure.find_outliers(), measure.isolated
    rests = () if isolated is None else tuple(rule.nodes[rule.weights > _NEGLIGIBLE] for rule in isolated.rests)
    if isolated is None or not all(nodes.size > 1 for nodes in rests):
        return found.positions, found.errors
    spacing = float(np.median(np.concatenate([np.diff(nodes) for nodes in rests])))
    places = np.sort(np.concatenate([isolated.positions, *rests]))
    at = np.searchsorted(places, isolated.positions)
    gaps = np.concatenate([[np.inf], np.diff(places), [np.inf]])
    distances = np.abs(isolated.positions[:, None] - found.positions)
    is_new = np.all(distances > isolated.errors[:, None] + found.errors + room, axis=1)
    is_new &= np.minimum(gaps[at], gaps[at + 1]) > _APART * spacing
    positions = np.concatenate([found.positions, isolated.positions[is_new]])
    order = np.argsort(positions, kind="stable")
    return positions[order], np.concatenate([found.errors, isolated.errors[is_new]])[order]


def _significant(rule: Rule) -> Rule:
    """Return a rule without nodes of rounding weight, its ghosts merged: copies of a converged node are one."""
    keep = rule.weights > _NEGLIGIBLE
    x, w, r = rule.nodes[keep], rule.weights[keep], rule.residuals[keep]
    scale = float(np.max(np.abs(x), initial=0.0))
    starts = np.flatnonzero(np.concatenate([[True], np.diff(x) > 1e-9 * scale]))
    best = starts + np.array([int(np.argmax(part)) for part in np.split(w, starts[1:])], dtype=np.int64)
    return Rule(x[best], np.add.reduceat(w, starts), np.minimum.reduceat(r, starts), rule.exact)


def _stand_out(rule: Rule, dimension: float) -> PointMasses:
    """Return the nodes of one probe that are degenerate or isolated eigenvalues."""
    x, w, r = rule.nodes, rule.weights, rule.residuals
    if x.size < 5:
        return PointMasses(np.empty(0), np.empty(0), np.empty(0))
    gaps = np.diff(x)
    left, right = np.concatenate([[np.inf], gaps]), np.concatenate([gaps, [np.inf]])
    gap = np.minimum(left, right)
    beside = np.maximum(np.concatenate([[0.0], w[:-1]]), np.concatenate([w[1:], [0.0]]))
    degenerate = (w > _HEAVY * beside) & (r < _RESOLVED * gap) & (dimension * w > _MANY)
    # the larger of the next two gaps beyond: one alone may be that between a ghost and its eigenvalue
    far = np.concatenate([[np.inf] * 3, gaps, [np.inf] * 3])
    i = np.arange(x.size) + 2  # far[i] is the gap to the left of node i - 2, far[i + 1] that to its right
    next_left, next_right = np.maximum(far[i - 1], far[i - 2]), np.maximum(far[i + 2], far[i + 3])
    isolated = (r < _CONVERGED * gap) & (left > _ALONE * next_left) & (right > _ALONE * next_right)
    chosen = np.flatnonzero(degenerate | isolated)
    return PointMasses(x[chosen], x[chosen] - gap[chosen] / 4, x[chosen] + gap[chosen] / 4)


def _converged(x: Floats, errors: Floats, nodes: Floats, room: float) -> PointMasses:
    """Return the outliers that have converged, with intervals of at most a quarter of the way to the next node."""
    reach = 10 * errors + room
    rows = []
    for i in range(x.size):
        others = np.concatenate([nodes[np.abs(nodes - x[i]) > reach[i]], np.delete(x, i)])
        gap = float(np.min(np.abs(others - x[i]), initial=np.inf))
        if errors[i] <= max(_CONVERGED * gap, room):
            half = min(float(reach[i]), gap / 4)
            rows.append((x[i], x[i] - half, x[i] + half))
    return PointMasses(*(np.array([row[j] for row in rows], dtype=np.float64) for j in range(3)))


def _merged(parts: Sequence[PointMasses], *, num_needed: int, room: float) -> PointMasses:
    """Return outliers and what at least `num_needed` probes see at one place, as disjoint intervals."""
    outer, inner = parts[0], parts[1:]
    x, lo, hi = (np.concatenate([np.empty(0), *(part[i] for part in inner)]) for i in range(3))
    order = np.argsort(x, kind="stable")
    x, lo, hi = x[order], lo[order], hi[order]
    rows = [(float(p), float(a), float(b)) for p, a, b in zip(*outer, strict=True)]
    start = 0
    for stop in range(1, x.size + 1):
        if stop < x.size and x[stop] <= hi[start] and x[stop] - x[start] <= (hi[start] - lo[start]) / 2:
            continue
        members = slice(start, stop)
        center = float(np.mean(x[members]))
        known = any(a <= center <= b for _, a, b in rows)
        if stop - start >= num_needed and not known:
            a, b = float(np.max(lo[members])), float(np.min(hi[members]))
            spread = float(np.max(np.abs(x[members] - center)))
            rows.append((center, min(a, center - spread - room), max(b, center + spread + room)))
        start = stop
    rows.sort()
    return PointMasses(*(np.array([row[i] for row in rows]) for i in range(3)))
