"""The default picture: the best estimate of the distribution, smoothed at the resolution that the run has locally.

See ``docs/explanation/quadrature.md``. Point masses stand apart; the rest is smoothed with a Gaussian whose width h(λ)
follows the distance between nodes, or between the levels of an exact spectrum, folded at the ends of the spectrum so
that no mass is drawn beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from specdens._density.density import Density
from specdens._density.folding import folded_averages, smoothed
from specdens._density.grid import MARGIN, widened_point
from specdens._density.kernel_width import Width, interpolated_width
from specdens._density.levels import spread_levels
from specdens._density.pieces import Pieces, PointMasses, cut
from specdens._density.plan import TAIL, Plan, is_few, plan_drawing
from specdens._density.run_resolution import width_of_run, within
from specdens._density.smoothing import Bumps, local_mean, standard_error, variance_masses
from specdens._distributions.atoms import Atoms
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._validate import as_count

if TYPE_CHECKING:
    from specdens._measure.base import Measure
    from specdens._measure.quadrature import Rule

_FOLDED = 12.0  # widths of the kernel in a spectrum at whose ends it is folded
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
    plan = plan_drawing(measure, width, points)
    pieces, masses = cut(measure.whole_cdf, plan.points)
    if plan.bands:
        pieces = spread_levels(pieces.lo, pieces.mass, plan.bands)
    pieces = _spread_ends(pieces, plan.rules)
    ends = _ends(pieces, plan.points)
    if width is not None and (ends.width < _FOLDED * width or (not plan.rules and is_few(measure))):
        ends = Interval(ends.lo - TAIL * width, ends.hi + TAIL * width)
    h = plan.width or width_of_run(measure, plan.points, ends)
    edges = _grid(ends, h, num_points) if edges is None else edges
    grid = (edges[1:] + edges[:-1]) / 2
    resolution = np.maximum(h(grid), np.diff(edges) / 2)  # a grid shows no more than its cells resolve
    h = interpolated_width(grid, resolution)
    bands = plan.bands or [ends]
    values = smoothed(edges, pieces, h, bands)
    return Density(
        grid=grid,
        values=values,
        stderr=_stderr(measure, plan, edges, values, h, bands),
        edges=edges,
        axis="λ",
        atoms=Atoms(plan.points.positions, masses),
        mass_outside=float(np.sum(pieces.mass) - np.sum(values * np.diff(edges))),
        kernel=f"Gaussian of {'local width' if width is None else f'σ = {width:.4g}'} on {plan.words}",
        measure=measure,
        resolution=resolution,
        atom_stderr=_atom_stderr(measure, plan.points),
    )


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
    if rules and lo.size > 2:
        hi[0] = max(hi[0], min(lo[1], 2 * lo[2] - lo[1])) if hi[0] == lo[0] else hi[0]
        lo[-1] = min(lo[-1], max(hi[-2], 2 * hi[-3] - hi[-2])) if lo[-1] == hi[-1] else lo[-1]
    return Pieces(lo, hi, pieces.mass)


def _ends(pieces: Pieces, points: PointMasses) -> Interval:
    """Return the ends of the smooth part, or of the point masses if there is none."""
    x = np.concatenate([pieces.lo, pieces.hi]) if pieces.mass.size else points.positions
    return widened_point(Interval(float(np.min(x)), float(np.max(x))))


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


def _stderr(measure: Measure, plan: Plan, edges: Floats, values: Floats, h: Width, bands: Sequence[Interval]) -> Floats:
    """Return the standard error: sampling, and the differences to the estimates of one step and a quarter less."""
    rules = plan.rules if plan.width is None else measure.rules
    if not rules or not np.any(values > 0):
        return np.zeros(values.size)
    share = measure.probe_mass * len(rules)
    width = h((edges[1:] + edges[:-1]) / 2)
    variance = _sampling_variance(measure, rules, plan.points, edges, h, bands)
    spread = local_mean(edges, share**2 * variance, width)
    squares: Floats = np.zeros(values.shape)
    for shorter in (measure.shortened(lambda k: k - 1), measure.shortened(lambda k: 3 * k // 4)) if plan.rules else ():
        pieces = _spread_ends(cut(shorter.whole_cdf, plan.points)[0], shorter.smooth_rules)
        less = smoothed(edges, pieces, h, bands)
        squares += local_mean(edges, (values - less) ** 2, 2 * width)
    return standard_error(values, spread, squares)


def _sampling_variance(
    measure: Measure, rules: Sequence[Rule], points: PointMasses, edges: Floats, h: Width, bands: Sequence[Interval]
) -> Floats:
    """Return the sampling variance of the mean of the smoothed rules."""
    if measure.sampling_variance == 0:
        return np.zeros(edges.size - 1)
    first, second = np.zeros((2, edges.size - 1))
    ends = Interval(bands[0].lo, bands[-1].hi)
    for rule in rules:
        x, w = (part[~within(rule.nodes, points)] for part in (rule.nodes, rule.weights))
        masses = variance_masses(w, measure.bulk_dimension)
        mean, square = folded_averages(edges, Bumps(x, w, h(x)), ends, masses)
        first, second = first + mean / len(rules), second + square / len(rules)
    return np.asarray(measure.sampling_variance * np.maximum(second - first**2, 0.0))


def _atom_stderr(measure: Measure, points: PointMasses) -> Floats:
    """Return the standard errors of the masses of the points; 0 for what was known beforehand."""
    known = within(measure.known_atoms.positions, points)
    errors = np.array([measure.weight(a, b).stderr for a, b in zip(points.lo, points.hi, strict=True)])
    owner = np.searchsorted(points.lo, measure.known_atoms.positions[known], side="right") - 1
    errors[owner] = 0.0
    return errors
