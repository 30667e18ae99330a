"""The default picture: the best estimate of the distribution, smoothed at the resolution that the run has locally.

See ``docs/explanation/quadrature.md``. Point masses stand apart; the rest is smoothed with a Gaussian whose width h(λ)
follows the distance between nodes, folded at the ends of the spectrum so that no mass is drawn beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from specdens._density.density import Density
from specdens._density.grid import MARGIN, widened_point
from specdens._density.kernel_width import Width, constant_width, interpolated_width, node_spacing
from specdens._density.pieces import Pieces, PointMasses, atom_intervals, cut, split, union
from specdens._density.smoothing import REACH, Bumps, cell_averages, local_mean, standard_error, variance_masses
from specdens._distributions.atoms import Atoms
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._validate import as_count

if TYPE_CHECKING:
    from specdens._measure.base import Measure
    from specdens._measure.quadrature import Rule

_NARROWEST, _WIDEST = 0.35, 0.7  # kernel width h, in units of the distance between nodes
_ENOUGH = 56.0  # eigenvalues × probes within h, between these limits: the sampling error is then 10 %
_UNIFORM = 0.5  # share of the grid's points that are evenly spaced; the others follow the resolution


def local_density(
    measure: Measure, *, num_points: int, width: float | None, edges: Floats | None, points: PointMasses
) -> Density:
    """Draw the best estimate of the distribution at its local resolution.

    Parameters
    ----------
    measure
        The measure.
    num_points
        The number of cells of the default grid.
    width
        One kernel width for the whole axis, instead of the local one.
    edges
        The ends of the cells, instead of the default grid.
    points
        Eigenvalues to draw as point masses, besides the measure's atoms.
    """
    points = union(atom_intervals(measure), points)
    pieces, masses = cut(measure.whole_cdf, points)
    pieces = _spread_ends(pieces, measure.smooth_rules)
    ends = _ends(pieces, points)
    h = _width_function(measure, points, ends) if width is None else constant_width(width)
    edges = _grid(ends, h, num_points) if edges is None else edges
    grid = (edges[1:] + edges[:-1]) / 2
    resolution = np.maximum(h(grid), np.diff(edges) / 2)  # a grid shows no more than its cells resolve
    h = interpolated_width(grid, resolution)
    values = smoothed(edges, pieces, h, ends)
    stderr = _stderr(measure, points, edges, values, h, ends)
    words = "local width" if width is None else f"σ = {width:.4g}"
    return Density(
        grid=grid,
        values=values,
        stderr=stderr,
        edges=edges,
        axis="λ",
        atoms=Atoms(points.positions, masses),
        mass_outside=float(np.sum(pieces.mass) - np.sum(values * np.diff(edges))),
        kernel=f"Gaussian of {words} on the best estimate",
        measure=measure,
        resolution=resolution,
        atom_stderr=_atom_stderr(measure, points),
    )


def smoothed(edges: Floats, pieces: Pieces, h: Width, ends: Interval) -> Floats:
    """Return the cell averages of pieces, each point smoothed by a Gaussian of width h(x) that is folded at the ends.

    An exact spectrum is smoothed alike with ``Pieces(eigenvalues, eigenvalues, masses)``.
    """
    x, mass = split(pieces, h((pieces.lo + pieces.hi) / 2))
    return folded_averages(edges, Bumps(x, mass, h(x)), ends)[0]


def folded_averages(
    edges: Floats, bumps: Bumps, ends: Interval, second_masses: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return `cell_averages` of bumps whose mass beyond the ends is mirrored to the inside."""
    sizes = np.diff(edges)
    inside = np.clip(edges, ends.lo, ends.hi)
    x = np.clip(bumps.positions, ends.lo, ends.hi)
    near_lo, near_hi = (x - ends.lo < REACH * bumps.widths), (ends.hi - x < REACH * bumps.widths)
    positions = np.concatenate([x, 2 * ends.lo - x[near_lo], 2 * ends.hi - x[near_hi]])
    masses, widths = (np.concatenate([part, part[near_lo], part[near_hi]]) for part in (bumps.masses, bumps.widths))
    seconds = (
        None
        if second_masses is None
        else np.concatenate([second_masses, second_masses[near_lo], second_masses[near_hi]])
    )
    used = np.diff(inside)
    safe = np.flatnonzero(used > 0)
    first, second = np.zeros((2, sizes.size))
    if safe.size:
        cells = inside[safe[0] : safe[-1] + 2]
        part, squares = cell_averages(cells, Bumps(positions, masses, widths), seconds)
        share = used[safe] / sizes[safe]
        first[safe], second[safe] = part * share, squares * share**2
    return first, second


# -- where, and how finely ---------------------------------------------------------------------------------------------


def _spread_ends(pieces: Pieces, rules: Sequence[Rule]) -> Pieces:
    """Return the pieces with the jump at every probe's outermost nodes spread inwards, up to the next node.

    The best estimate leaves the outer half of these weights at the node, so as not to leave the spectrum. Drawn at the
    resolution of the nodes, and folded, that half would be a spike at a smooth edge.
    """
    lo, hi = pieces.lo.copy(), pieces.hi.copy()
    for rule in rules:
        x = rule.nodes[rule.weights > 1e-13]
        if x.size < 3:
            continue
        first, last = np.diff(x[:3]), np.diff(x[-3:])
        hi[(pieces.lo == x[0]) & (pieces.hi == x[0])] = x[0] + min(first[0], 2 * first[1])
        lo[(pieces.lo == x[-1]) & (pieces.hi == x[-1])] = x[-1] - min(last[1], 2 * last[0])
    if lo.size > 2:
        hi[0] = max(hi[0], min(lo[1], 2 * lo[2] - lo[1])) if hi[0] == lo[0] else hi[0]
        lo[-1] = min(lo[-1], max(hi[-2], 2 * hi[-3] - hi[-2])) if lo[-1] == hi[-1] else lo[-1]
    return Pieces(lo, hi, pieces.mass)


def _ends(pieces: Pieces, points: PointMasses) -> Interval:
    """Return the ends of the smooth part, or of the point masses if there is none."""
    x = np.concatenate([pieces.lo, pieces.hi]) if pieces.mass.size else points.positions
    return widened_point(Interval(float(np.min(x)), float(np.max(x))))


def _width_function(measure: Measure, points: PointMasses, ends: Interval) -> Width:
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
    keep = (rule.weights > 1e-13) & ~_within(rule.nodes, points)
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


def _within(x: Floats, points: PointMasses) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    owner = np.searchsorted(points.lo, x, side="right") - 1
    return np.asarray((owner >= 0) & (x <= np.append(points.hi, np.inf)[owner]), dtype=np.bool_)


def _grid(ends: Interval, h: Width, num_points: int) -> Floats:
    """Return cells of which half are evenly spaced, and half as dense as the resolution is fine."""
    num_points = as_count("num_points", num_points, minimum=2)
    lo, hi = ends.lo - MARGIN * ends.width, ends.hi + MARGIN * ends.width
    fine = _fine_points(lo, hi, h)
    middle = (fine[1:] + fine[:-1]) / 2
    rate = np.diff(fine) / h(middle)
    level = _UNIFORM * (fine - lo) / (hi - lo)
    level[1:] += (1 - _UNIFORM) * np.cumsum(rate) / np.sum(rate)
    return np.interp(np.linspace(0.0, level[-1], num_points + 1), level, fine)


def _fine_points(lo: float, hi: float, h: Width) -> Floats:
    """Return points at which h changes by little from one to the next: bisection of an even grid."""
    x = np.linspace(lo, hi, 513)
    for _ in range(20):
        logs = np.log(h(x))
        wide = (np.diff(x) > np.minimum(h(x[1:]), h(x[:-1]))) & (np.abs(np.diff(logs)) > 0.1)
        if not np.any(wide) or x.size > 2**15:
            break
        x = np.sort(np.concatenate([x, (x[1:] + x[:-1])[wide] / 2]))
    return x


# -- errors ------------------------------------------------------------------------------------------------------------


def _stderr(measure: Measure, points: PointMasses, edges: Floats, values: Floats, h: Width, ends: Interval) -> Floats:
    """Return the standard error: sampling, and the differences to the estimates of one step and a quarter less."""
    rules = measure.smooth_rules
    if not rules or not np.any(values > 0):
        return np.zeros(values.size)
    share = measure.probe_mass * len(rules)
    width = h((edges[1:] + edges[:-1]) / 2)
    variance = _sampling_variance(measure, rules, points, edges, h, ends)
    spread = local_mean(edges, share**2 * variance, width)
    squares: Floats = np.zeros(values.shape)
    for shorter in (measure.shortened(lambda k: k - 1), measure.shortened(lambda k: 3 * k // 4)):
        pieces = _spread_ends(cut(shorter.whole_cdf, points)[0], shorter.smooth_rules)
        less = smoothed(edges, pieces, h, ends)
        squares += local_mean(edges, (values - less) ** 2, 2 * width)
    return standard_error(values, spread, squares)


def _sampling_variance(
    measure: Measure, rules: Sequence[Rule], points: PointMasses, edges: Floats, h: Width, ends: Interval
) -> Floats:
    """Return the sampling variance of the mean of the smoothed rules."""
    first, second = np.zeros((2, edges.size - 1))
    for rule in rules:
        x, w = (part[~_within(rule.nodes, points)] for part in (rule.nodes, rule.weights))
        masses = variance_masses(w, measure.bulk_dimension)
        mean, square = folded_averages(edges, Bumps(x, w, h(x)), ends, masses)
        first, second = first + mean / len(rules), second + square / len(rules)
    return np.asarray(measure.sampling_variance * np.maximum(second - first**2, 0.0))


def _atom_stderr(measure: Measure, points: PointMasses) -> Floats:
    """Return the standard errors of the masses of the points; 0 for what was known beforehand."""
    known = _within(measure.known_atoms.positions, points)
    errors = np.array([measure.count(a, b).stderr for a, b in zip(points.lo, points.hi, strict=True)])
    owner = np.searchsorted(points.lo, measure.known_atoms.positions[known], side="right") - 1
    errors[owner] = 0.0
    return errors / measure.dimension
