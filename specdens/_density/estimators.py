"""From a measure to a `Density`: grids, kernel widths, functions of the spectrum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from specdens._density.density import Density
from specdens._density.folding import folded_averages
from specdens._density.grid import MARGIN, uniform_edges, widened_point
from specdens._density.kernel_width import Width, constant_width, interpolated_width, node_spacing
from specdens._density.pieces import atom_intervals, cut, split
from specdens._density.smoothing import Bumps, cell_averages, draw, local_square, slab_bumps, standard_error
from specdens._distributions.atoms import Atoms, merge_atoms
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval

if TYPE_CHECKING:
    from specdens._measure.base import Measure
    from specdens._measure.quadrature import Rule

Function = Callable[[Floats], Floats]

DEFAULT_KAPPA = 1.25
"""κ of the Gaussian kernel, from the code of the paper's authors; the paper's text has 3."""

_FOLDED = 12.0  # widths of the kernel in a spectrum at whose ends it is folded
_TAIL = 4.0  # widths of a Gaussian beyond which 3e-5 of its mass lies
_PIECES = 4  # parts of a slab on the axis of the operator: each is narrower than a bump
_PIECES_PUSHED = 16  # parts of a slab under a function, which may stretch some of them
_ADAPTIVE_FACTOR = 0.6  # of the distance between nodes: narrow, and no ripples in a smooth bulk


def check_kappa(kappa: float) -> float:
    """Return kappa if it exceeds 1."""
    if not 1 < kappa < np.inf:
        raise ValueError(
            f"`kappa` must exceed 1; got {kappa:g}. Larger values give narrower bumps; {DEFAULT_KAPPA:g} is the "
            "default, the paper's text has 3."
        )
    return float(kappa)


def gaussian_width(interval: Interval, num_steps: int, kappa: float) -> float:
    """Return the paper's σ: a bump falls by the factor κ half way to the next node, if nodes are evenly spaced."""
    return interval.width / (max(num_steps - 1, 1) * float(np.sqrt(8 * np.log(kappa))))


def gaussian_density(
    measure: Measure, *, num_points: int, kappa: float, width: float | None, edges: Floats | None
) -> Density:
    """Draw the density with Gaussian bumps of one width at the nodes [Papyan 2019, LanczosApproxSpec]."""
    kappa = check_kappa(kappa)
    rules = measure.smooth_rules
    interval = _interval(measure)
    sigma = gaussian_width(interval, _most_nodes(rules), kappa) if width is None else width
    edges = _edges(interval, _TAIL * sigma if rules else 0.0, num_points) if edges is None else edges
    kernel = f"Gaussian, σ = {sigma:.4g}" + (f" (κ = {kappa:g})" if width is None else "")
    return _node_density(measure, edges, [constant_width(sigma)] * len(rules), kernel=kernel)


def adaptive_density(measure: Measure, *, num_points: int, edges: Floats | None) -> Density:
    """Draw with one Gaussian width per node: wide in a smooth bulk, narrow at converged eigenvalues."""
    edges = _edges(_interval(measure), 0.0, num_points) if edges is None else edges
    floor = float(np.min(np.diff(edges)))
    widths = [_width_map(rule, floor) for rule in measure.smooth_rules]
    return _node_density(measure, edges, widths, kernel="Gaussian of adaptive width")


def _node_density(measure: Measure, edges: Floats, widths: Sequence[Width], *, kernel: str) -> Density:
    """Draw the nodes of every probe with Gaussian bumps of the given widths.

    The quadrature error is the smaller of two indicators: the difference to the best estimate of the distribution,
    smoothed alike, and that to the rule of one step less (which errs as much: half of its square is due to either).
    """
    if not widths:
        return finish(measure, np.zeros(edges.size - 1), np.zeros(edges.size - 1), edges, kernel=kernel)
    width = np.mean([each((edges[1:] + edges[:-1]) / 2) for each in widths], axis=0)
    values, variance = draw(
        edges,
        _bumps(measure.smooth_rules, widths),
        width=width,
        dimension=measure.bulk_dimension,
        sampling_variance=measure.sampling_variance,
    )
    slabs = [slab_bumps(cdf, each, _PIECES) for cdf, each in zip(measure.smooth_cdfs, widths, strict=True)]
    shorter = _bumps(measure.shortened(lambda k: k - 1).smooth_rules, widths)
    by_slabs = local_square(edges, values, slabs, width)
    by_step = local_square(edges, values, shorter, width) / 2
    limited = max(float(np.max(rule.residuals)) for rule in measure.smooth_rules) > measure.rounding_room
    stderr = standard_error(values, variance, np.minimum(by_slabs, by_step) if limited else 0.0)
    return finish(measure, values, stderr, edges, kernel=kernel, resolution=width)


def pushed_density(
    measure: Measure, *, f: Function, axis: str, num_points: int, kappa: float, edges: Floats | None, fold: bool = True
) -> Density:
    """Draw the density of f(A): the best estimate of the distribution, pushed forward and smoothed with one width.

    Under a function that stretches part of the axis, as log does near zero, nodes become a comb; the slabs between
    them do not. The quadrature error adds the squared differences to the estimates from one step less, three quarters
    and half of the steps. With `fold` the kernel is folded at the ends of what the spectrum becomes under f, so that no
    mass lies beyond them: no singular value is negative.
    """
    kappa = check_kappa(kappa)
    rules = measure.smooth_rules
    interval = _image_interval(measure, f)
    sigma = gaussian_width(interval, _most_nodes(rules), kappa)
    ends = _reach(measure, interval, f)
    fold = fold and ends.width > _FOLDED * sigma

    def averages(edges: Floats, bumps: Bumps, second_masses: Floats | None) -> tuple[Floats, Floats]:
        if fold:
            return folded_averages(edges, bumps, ends, second_masses)
        return cell_averages(edges, bumps, second_masses)

    if edges is None:
        edges = _edges(ends, _TAIL * sigma if rules else 0.0, num_points, keep_sign=fold)
    kernel = f"Gaussian, σ = {sigma:.4g} (κ = {kappa:g}){' on the estimated distribution' if fold else ''}"
    atoms = _pushed_atoms(measure.atoms, f)
    if not rules:
        empty = np.zeros(edges.size - 1)
        return finish(measure, empty, empty, edges, kernel=kernel, atoms=atoms, axis=axis)
    width = constant_width(sigma)
    _, variance = draw(
        edges,
        _pushed_bumps(rules, f, width),
        width=sigma,
        dimension=measure.bulk_dimension,
        sampling_variance=measure.sampling_variance,
        averages=averages,
    )
    slabs = _pushed_slabs(measure, f, width)
    values = np.mean([averages(edges, each, None)[0] for each in slabs], axis=0)
    shorter = [measure.shortened(cut) for cut in (lambda k: k - 1, lambda k: 3 * k // 4, lambda k: k // 2)]
    error: Floats = sum(
        (local_square(edges, values, _pushed_slabs(less, f, width), sigma, averages) for less in shorter),
        np.zeros(values.shape),
    )
    stderr = standard_error(values, variance, error)
    resolution = np.full(values.size, sigma)
    return finish(measure, values, stderr, edges, kernel=kernel, atoms=atoms, axis=axis, resolution=resolution)


def log_density(
    measure: Measure, epsilon: float, per: str, *, num_points: int, kappa: float, edges: Floats | None
) -> Density:
    """Draw the density of log(|λ| + ε), per unit of that or per unit of |λ|."""
    if edges is not None and per == "lambda":
        if edges[1] <= 0:
            raise ValueError(f"`grid` must be positive for per='lambda'; got a first cell that ends at {edges[1]:g}")
        # the cell at zero takes the tail of the bumps below log ε too
        lowest = [np.log(epsilon) - np.ptp(np.log(edges[1:] + epsilon)) - 1.0] if edges[0] <= 0 else []
        edges = np.concatenate([lowest, np.log(np.maximum(edges, 0.0) + epsilon)])
    density = pushed_density(
        measure,
        f=lambda x: np.log(np.abs(x) + epsilon),
        axis="log(|λ| + ε)",
        num_points=num_points,
        kappa=kappa,
        edges=edges,
        fold=False,
    )
    density = replace(density, epsilon=epsilon)
    return density if per == "log" else _per_lambda(density, epsilon)


def _per_lambda(density: Density, epsilon: float) -> Density:
    """Return a density per unit log(|λ| + ε) as one per unit |λ|; what the bumps leave below |λ| = 0 is drawn at it."""
    edges = np.maximum(np.exp(density.edges) - epsilon, 0.0)
    first = int(np.flatnonzero(edges > 1e-12 * epsilon)[0]) - 1 if edges[0] <= 0 else 0
    cells = (
        np.concatenate([[0], np.arange(first + 1, density.grid.size)]) if first > 0 else np.arange(density.grid.size)
    )
    masses, errors = (np.add.reduceat(y * np.diff(density.edges), cells) for y in (density.values, density.stderr))
    edges = np.concatenate([[edges[0]], edges[cells[1:]], edges[-1:]])
    return replace(
        density,
        grid=(edges[1:] + edges[:-1]) / 2,
        values=masses / np.diff(edges),
        stderr=errors / np.diff(edges),
        edges=edges,
        resolution=None if density.resolution is None else density.resolution[cells] * (np.exp(density.grid[cells])),
        axis="|λ|",
        atoms=Atoms(np.maximum(np.exp(density.atoms.positions) - epsilon, 0.0), density.atoms.masses),
    )


def finish(
    measure: Measure,
    values: Floats,
    stderr: Floats,
    edges: Floats,
    *,
    kernel: str,
    atoms: Atoms | None = None,
    axis: str = "λ",
    resolution: Floats | None = None,
) -> Density:
    """Scale a drawing of probability 1 to the share of the smooth part, and add the atoms, by default the measure's."""
    share = measure.probe_mass * len(measure.smooth_rules)
    return Density(
        grid=(edges[1:] + edges[:-1]) / 2,
        values=share * values,
        stderr=share * stderr,
        edges=edges,
        axis=axis,
        atoms=measure.atoms if atoms is None else atoms,
        mass_outside=share * (1.0 - float(np.sum(values * np.diff(edges)))),
        kernel=kernel,
        measure=measure,
        resolution=resolution,
    )


def _pushed_atoms(atoms: Atoms, f: Function) -> Atoms:
    """Return the atoms on the axis of f, in order; those that f sends to one place are one."""
    if not atoms.positions.size:
        return atoms
    images = f(atoms.positions)
    rounding = 1e3 * np.finfo(np.float64).eps * float(np.max(np.abs(images)))
    return merge_atoms([Atoms(images, atoms.masses)], tolerance=rounding)


def _most_nodes(rules: Sequence[Rule]) -> int:
    return max((rule.nodes.size for rule in rules), default=1)


def _bumps(rules: Sequence[Rule], widths: Sequence[Width]) -> list[Bumps]:
    return [Bumps(rule.nodes, rule.weights, width(rule.nodes)) for rule, width in zip(rules, widths, strict=True)]


def _pushed_bumps(rules: Sequence[Rule], f: Function, width: Width) -> list[Bumps]:
    return [Bumps(f(rule.nodes), rule.weights, width(rule.nodes)) for rule in rules]


def _pushed_slabs(measure: Measure, f: Function, width: Width) -> list[Bumps]:
    """Return the best estimate outside the atoms, of mass 1, in parts that are pushed forward."""
    pieces, _ = cut(measure.whole_cdf, atom_intervals(measure, measure.atoms))
    length = pieces.hi - pieces.lo
    x, mass = split(pieces, np.where(length > 0, 2 * length / _PIECES_PUSHED, 1.0))
    share = measure.probe_mass * len(measure.smooth_rules)
    return [Bumps(f(x), mass / share if share else mass, width(x))]  # without smooth rules there is nothing but atoms


def _interval(measure: Measure) -> Interval:
    """Return the interval that the smooth part occupies, or the atoms if there is none."""
    if not measure.smooth_rules:
        return _span(measure.atoms.positions).widened(MARGIN)
    return widened_point(measure.bounds())


def _image_interval(measure: Measure, f: Function) -> Interval:
    """Return the interval on the axis of f that the nodes of the smooth part occupy, or the atoms if there is none."""
    rules = measure.smooth_rules
    if not rules:
        return _span(f(measure.atoms.positions)).widened(MARGIN)
    return widened_point(_span(np.concatenate([f(rule.nodes) for rule in rules])))


def _span(x: Floats) -> Interval:
    return Interval(float(np.min(x)), float(np.max(x)))


def _reach(measure: Measure, interval: Interval, f: Function) -> Interval:
    """Return the interval widened to all that the slabs between the nodes become under f."""
    images = [each.positions for each in _pushed_slabs(measure, f, constant_width(1.0))]
    return _span(np.concatenate([*images, interval]))


def _edges(interval: Interval, tail: float, num_points: int, *, keep_sign: bool = False) -> Floats:
    """Return the default grid: with some room at either end, but not across zero where the sign is known."""
    room = max(MARGIN * interval.width, tail)
    lo, hi = interval.lo - room, interval.hi + room
    if keep_sign:
        lo, hi = max(lo, 0.0) if interval.lo >= 0 else lo, min(hi, 0.0) if interval.hi <= 0 else hi
    return uniform_edges(lo, hi, num_points)


def _width_map(rule: Rule, floor: float) -> Width:
    """Return the kernel width as a function of position: log-linear between the nodes of a rule."""
    groups = np.concatenate([[0], np.cumsum(np.diff(rule.nodes) > 0.1 * floor)])  # ghosts count once
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    nodes, residuals = rule.nodes[starts], np.minimum.reduceat(rule.residuals, starts)
    if nodes.size == 1:
        return constant_width(floor)
    widths = np.maximum(_ADAPTIVE_FACTOR * np.minimum(node_spacing(nodes), residuals), floor)
    return interpolated_width(nodes, widths)
