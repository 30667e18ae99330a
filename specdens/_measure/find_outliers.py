"""Eigenvalues beyond the bulk: where they are, how many there are, and how well either is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._measure.edge_shape import NEIGHBOURS, SLOW, edge_index, surprising_gap
from specdens._measure.estimate import Estimate
from specdens._measure.isolated_tail import IsolatedTail, isolated_tail

if TYPE_CHECKING:
    from specdens._measure.base import Measure

_NODES = 6  # a gap is compared with the span of so many nodes too: what a run cannot resolve is no gap
_AT_MOST = 3.0  # eigenvalues that a node counts for
_HEAVY = 30.0  # eigenvalues at one place; a single one looks like as many to one probe in 10⁷
_ROUNDING = 1e3  # units of rounding: Ritz values of one eigenvalue differ by less
_FAINTEST = 1e-4  # eigenvalues: a node that carries less is a ghost on its way, or noise
_NEGLIGIBLE = 1e-8  # eigenvalues: what a converged node carries at least
_MOVING = 1e-3  # what a node that has not converged carries at least, over all probes
_IN_LOGARITHMS = 0.5  # of the spans that a gap must have: what it must have in logarithms, where it is wide already
_SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class Outliers:
    """The eigenvalues outside the bulk, in increasing order; copies of one eigenvalue are one entry.

    Attributes
    ----------
    positions : ndarray
        Where they are.
    errors : ndarray
        How far an eigenvalue may be from there: the bound by the residual, and the spread of what was merged.
    multiplicities : ndarray
        Mass times dimension: the estimated number of eigenvalues at each position, rarely an integer.
    multiplicity_errors : ndarray
        Standard errors of the multiplicities, due to the random probes; 0 for deflated eigenpairs.
    bulk : Interval
        The outermost nodes that are not outliers: the bulk's edges as far as the run resolves them.
    tails : tuple of IsolatedTail
        Where a side has no outliers but isolated eigenvalues beyond all others: the ends of a heavy tail.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.r_[np.linspace(0, 1, 500), 5.0, 9.0])
    >>> found = sd.analysis.outliers(sd.fast_lanczos(A, num_steps=40, num_probes=2))
    >>> found.positions.round(9).tolist()
    [5.0, 9.0]
    """

    positions: Floats
    errors: Floats
    multiplicities: Floats
    multiplicity_errors: Floats
    bulk: Interval
    tails: tuple[IsolatedTail, ...] = ()

    @property
    def count(self) -> Estimate:
        """The number of eigenvalues outside the bulk, with its standard error: multiplicities add up."""
        return Estimate(float(np.sum(self.multiplicities)), float(np.linalg.norm(self.multiplicity_errors)))

    def __len__(self) -> int:
        """Return the number of distinct positions: the least number of outliers there are."""
        return self.positions.size

    def __repr__(self) -> str:
        head = f"bulk [{self.bulk.lo:.6g}, {self.bulk.hi:.6g}]"
        tails = [f"  {tail}" for tail in self.tails]
        if not len(self):
            return "\n".join([f"Outliers: none, {head}", *tails])
        value, stderr = self.count
        columns = (self.positions, self.errors, self.multiplicities, self.multiplicity_errors)
        rows = [
            f"{x:>14.7g}  ± {error:<8.1e}  {many:>10.3g} ± {many_error:.2g}"
            for x, error, many, many_error in zip(*columns, strict=True)
        ]
        if len(rows) > _SHOWN:
            rows[_SHOWN // 2 : -_SHOWN // 2] = ["             ⋮"]
        number = f"Outliers: {len(self)} positions, {value:.3g} ± {stderr:.2g} eigenvalues, {head}"
        return "\n".join([number, "         value               multiplicity", *rows, *tails])


class _Points(NamedTuple):
    """Nodes and known atoms in increasing order: position, residual, mass times dimension, random part of that."""

    x: Floats
    error: Floats
    number: Floats
    random: Floats


class _Groups(NamedTuple):
    """What cannot be told apart, merged: nodes whose intervals [θ − r, θ + r] overlap."""

    lo: Floats
    """Where the nodes of a group begin,"""
    hi: Floats
    """and where they end."""
    best: Floats
    """The node that is known best,"""
    bound: Floats
    """its residual,"""
    spread: Floats
    """and the root mean square of what was merged around it."""
    number: Floats
    """Mass times dimension."""
    random: Floats
    """The part of it that random probes saw."""


def find_outliers(
    measure: Measure, *, atom_errors: Floats, separation: float = 1.25, max_share: float = 0.05
) -> Outliers:
    """Return the eigenvalues beyond the edges of the bulk; see `analysis.outliers`.

    Parameters
    ----------
    measure
        The measure.
    atom_errors
        How far each known atom may be from its eigenvalue.
    separation, max_share
        As for `analysis.outliers`.
    """
    points = _known_points(measure, atom_errors)
    groups = _merged(points)
    above = _first_outlier(points, measure.num_probes, separation, max_share)
    below = groups.lo.size - _first_outlier(_mirrored_points(points), measure.num_probes, separation, max_share)
    none_above, none_below = above == groups.lo.size, below == 0
    tails = [isolated_tail(measure, sign=s) for s, none in ((1, none_above), (-1, none_below)) if none]
    outside = np.concatenate([np.arange(below), np.arange(above, groups.lo.size)])
    seen = np.maximum(groups.random[outside], np.where(groups.random[outside] > 0, 1.0, 0.0)) / measure.dimension
    spread = np.sqrt(measure.sampling_variance * seen * np.maximum(1 - seen, 0.0))
    positions, reach = groups.best[outside], np.maximum(groups.bound, groups.spread)[outside]
    multiplicities, doubts = _inferred(measure, positions, reach, groups.number[outside], measure.dimension * spread)
    return Outliers(
        positions=positions,
        errors=reach,
        multiplicities=multiplicities,
        multiplicity_errors=doubts,
        bulk=Interval(float(groups.lo[below]), float(groups.hi[above - 1])),
        tails=tuple(tail for tail in tails if tail is not None),
    )


def _inferred(
    measure: Measure, positions: Floats, reach: Floats, numbers: Floats, errors: Floats
) -> tuple[Floats, Floats]:
    """Return multiplicities and their errors: those of isolated eigenvalues are inferred, see `Isolated`."""
    isolated = measure.resolved.isolated
    if isolated is None or not positions.size:
        return numbers, errors
    distance = np.abs(positions[:, None] - isolated.positions)
    nearest = np.argmin(distance, axis=1)
    same = np.min(distance, axis=1) <= reach + isolated.errors[nearest]
    alone = np.bincount(nearest[same], minlength=isolated.positions.size)[nearest] == 1
    same &= alone
    return (
        np.where(same, isolated.multiplicities[nearest], numbers),
        np.where(same, isolated.stderrs[nearest], errors),
    )


def _known_points(measure: Measure, atom_errors: Floats) -> _Points:
    """Return all nodes and known atoms with their residuals."""
    atoms, rules, n = measure.known_atoms, measure.rules, measure.dimension
    x = np.concatenate([atoms.positions, *(rule.nodes for rule in rules)])
    error = np.concatenate([atom_errors, *(rule.residuals for rule in rules)])
    seen = np.concatenate([np.empty(0), *(n * measure.probe_mass * rule.weights for rule in rules)])
    scale = float(np.max(np.abs(x), initial=0.0))
    points = _Points(
        x=x,
        error=error + _ROUNDING * measure.eps * scale,
        number=np.concatenate([n * atoms.masses, seen]),
        random=np.concatenate([np.zeros(atoms.masses.size), seen]),
    )
    # what carries next to nothing would bridge gaps and move edges: a new ghost on its way to its eigenvalue
    moving = error > measure.eps**0.5 * scale
    keep = np.flatnonzero(points.number > np.where(moving, _MOVING / max(measure.num_probes, 1), _NEGLIGIBLE))
    keep = keep[np.argsort(x[keep], kind="stable")]
    return _Points(*(part[keep] for part in points))


def _merged(points: _Points) -> _Groups:
    """Return the points, merged where their intervals overlap."""
    order = np.argsort(points.x - points.error, kind="stable")
    x, r, count, random = (part[order] for part in points)
    reach = np.maximum.accumulate(x + r)
    starts = np.flatnonzero(np.concatenate([[True], (x - r)[1:] > reach[:-1]]))
    total = np.add.reduceat(count, starts)
    sizes = np.diff(np.append(starts, x.size))
    is_best = r == np.repeat(np.minimum.reduceat(r, starts), sizes)
    best = np.minimum.reduceat(np.where(is_best, np.arange(x.size), x.size), starts)  # the first of equals
    offsets = x - np.repeat(x[best], sizes)
    groups = _Groups(
        lo=np.minimum.reduceat(x, starts),
        hi=np.maximum.reduceat(x, starts),
        best=x[best],
        bound=r[best],
        spread=np.sqrt(np.add.reduceat(count * offsets**2, starts) / total),
        number=total,
        random=np.add.reduceat(random, starts),
    )
    return _Groups(*(part[total > _FAINTEST] for part in groups))


def _mirrored_points(points: _Points) -> _Points:
    """Return the points of −A."""
    return _Points(-points.x[::-1], points.error[::-1], points.number[::-1], points.random[::-1])


def _first_outlier(points: _Points, num_probes: int, separation: float, max_share: float) -> int:
    """Return the index of the first group above the bulk; the number of groups if there is none."""
    groups = _merged(points)
    total = float(np.sum(groups.number))
    beyond = np.cumsum(groups.number[::-1])[::-1]
    heavy = (groups.number > _HEAVY) & (groups.hi - groups.lo <= 2 * groups.bound)
    for i in np.flatnonzero(beyond <= max_share * total):
        gap = groups.lo[i] - groups.bound[i] - groups.hi[i - 1]  # i > 0: more than max_share lies beyond the first
        spans = separation
        if not heavy[i - 1]:
            span = _span(points, groups.hi[i - 1], num_probes, upward=False)
            if gap > separation * span:
                num_beyond = int(groups.lo.size - i)
                index = _edge_index(points, groups.hi[i - 1], num_beyond, num_probes)
                spans = surprising_gap(separation, index, num_beyond)
                if index >= SLOW and not _is_wide_in_logarithms(points, groups.hi[i - 1], gap, spans, num_probes):
                    continue
        elif beyond[i] > 2 * NEIGHBOURS:
            span = _span(points, groups.lo[i], num_probes, upward=True)
        else:
            span = 0.0
        if gap > spans * span:
            return int(i)
    return int(groups.lo.size)


def _is_wide_in_logarithms(points: _Points, edge: float, gap: float, spans: float, num_probes: int) -> bool:
    """Return whether a gap is wide in the logarithm of the distance from the centre, too.

    In the logarithm a tail that falls like a power falls exponentially: heavy tails have wide gaps.
    """
    half = np.searchsorted(np.cumsum(points.number), np.sum(points.number) / 2)
    distances = points.x - points.x[min(int(half), points.x.size - 1)]
    (near,) = np.nonzero((distances > 0) & (points.x <= edge))
    if not near.size:
        return True
    y = distances[near]
    logs = _Points(np.log(y), points.error[near] / y, points.number[near], points.random[near])
    return bool(
        np.log1p(gap / y[-1]) > _IN_LOGARITHMS * spans * _span(logs, float(logs.x[-1]), num_probes, upward=False)
    )


def _edge_index(points: _Points, edge: float, num_beyond: int, num_probes: int) -> float:
    """Return how sharply the bulk below an edge ends."""
    inside = points.x <= edge
    return edge_index(edge - points.x[inside][::-1], points.number[inside][::-1], num_beyond, num_probes)


def _span(points: _Points, edge: float, num_probes: int, *, upward: bool) -> float:
    """Return how far the nearest `NEIGHBOURS` eigenvalues, and nodes of every probe, extend from an edge."""
    inside = points.x >= edge if upward else points.x <= edge
    x, count = points.x[inside], points.number[inside]
    if not upward:
        x, count = x[::-1], count[::-1]
    # ghosts, and what several probes found of one eigenvalue, are one
    starts = np.flatnonzero(np.concatenate([[True], np.abs(np.diff(x)) > 10 * np.min(points.error)]))
    nodes = np.minimum(np.diff(np.append(starts, x.size)) / max(num_probes, 1), 1.0)
    # a random probe may see one eigenvalue as if it were many
    sure = np.minimum(np.add.reduceat(count, starts), _AT_MOST * nodes)
    enough = max(np.searchsorted(np.cumsum(sure), NEIGHBOURS), np.searchsorted(np.cumsum(nodes), _NODES))
    return float(abs(x[starts[min(int(enough), starts.size - 1)]] - edge))
