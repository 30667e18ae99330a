"""Eigenvalues beyond the bulk: where they are, how many there are, and how well either is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from specdens._bounds import Interval
from specdens._cdf import Floats
from specdens._density import Density
from specdens._errors import as_positive
from specdens._readings import Estimate, Readings

NEIGHBOURS = 10
"""A gap is wide if the nearest `NEIGHBOURS` eigenvalues on its inner side span less than it."""

_NODES = 6  # and so do the nearest nodes: what a run cannot resolve is no gap
_AT_MOST = 3.0  # eigenvalues that a node counts for
_HEAVY = 30.0  # eigenvalues at one place; a single one looks like as many to one probe in 10⁷
_ROUNDING = 1e3  # units of rounding: Ritz values of one eigenvalue differ by less
_FAINTEST = 1e-4  # eigenvalues: a node that carries less is a ghost on its way, or noise
_MOVING = 1e-3  # the same for a node that has not converged
_SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class Outliers:
    """The eigenvalues outside the bulk, in increasing order; copies of one eigenvalue are one entry."""

    positions: Floats
    """Where they are."""
    errors: Floats
    """How far an eigenvalue may be from there: the bound by the residual, and the spread of what was merged."""
    multiplicities: Floats
    """Mass times dimension: the estimated number of eigenvalues at each position, rarely an integer."""
    multiplicity_errors: Floats
    """Standard errors of the multiplicities, due to the random probes; 0 for deflated eigenpairs."""
    bulk: Interval
    """The outermost nodes that are not outliers: the bulk's edges as far as the run resolves them."""

    @property
    def count(self) -> Estimate:
        """The number of eigenvalues outside the bulk, with its standard error: multiplicities add up."""
        return Estimate(float(np.sum(self.multiplicities)), float(np.linalg.norm(self.multiplicity_errors)))

    def __len__(self) -> int:
        """Return the number of distinct positions: the least number of outliers there are."""
        return self.positions.size

    def __repr__(self) -> str:
        head = f"bulk [{self.bulk.lo:.6g}, {self.bulk.hi:.6g}]"
        if not len(self):
            return f"Outliers: none, {head}"
        value, stderr = self.count
        columns = (self.positions, self.errors, self.multiplicities, self.multiplicity_errors)
        rows = [
            f"{x:>14.7g}  ± {error:<8.1e}  {many:>10.3g} ± {many_error:.2g}"
            for x, error, many, many_error in zip(*columns, strict=True)
        ]
        if len(rows) > _SHOWN:
            rows[_SHOWN // 2 : -_SHOWN // 2] = ["             ⋮"]
        number = f"Outliers: {len(self)} positions, {value:.3g} ± {stderr:.2g} eigenvalues, {head}"
        return "\n".join([number, "         value               multiplicity", *rows])


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


def outliers(measure: Readings | Density, *, separation: float = 1.25, max_share: float = 0.05) -> Outliers:
    """Return the eigenvalues beyond the edges of the bulk.

    Nodes that cannot be told apart (their intervals θ ± residual overlap) are merged, over ghosts and probes alike.
    What stays unresolved is the bulk; what has converged stands alone. The bulk ends, on either side, at the innermost
    gap that is wider than `separation` times the span of the 10 eigenvalues and of the 6 nodes next to it on its inner
    side, with at most the share `max_share` of all eigenvalues beyond it. Next to an eigenvalue of multiplicity above
    30, such as a null space, it is the 10 eigenvalues beyond the gap that count; if there are fewer than 20 of them,
    all are outliers.

    Parameters
    ----------
    measure
        What to read: a measure, or a density, whose measure and deflated eigenpairs are used.
    separation
        How many such spans a gap must have; larger values demand clearer outliers. At the edge of a random matrix the
        first two eigenvalues are about a fifth of one span apart.
    max_share
        Outliers are few: the largest share of all eigenvalues that may lie beyond either edge.

    Notes
    -----
    A heavy tail has no edge: its largest eigenvalues may be far apart, and count. An outlier that has not converged is
    part of the bulk; more steps resolve it.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.concatenate([[30.0, 20.0, 20.0], np.linspace(-1, 1, 997)]))
    >>> found = sd.analysis.outliers(sd.fast_lanczos(A, num_probes=50))
    >>> found.positions.round(6)
    array([20., 30.])
    >>> bool(abs(found.count.value - 3) < 2 * found.count.stderr)
    True
    """
    separation = as_positive("separation", separation)
    if not 0 < max_share < 0.5:
        raise ValueError(f"`max_share` must lie between 0 and 0.5; got {max_share}. More than half is no outlier.")
    readings = readings_of(measure)
    points = _known_points(readings, _atom_errors(measure))
    groups = _merged(points)
    above = _first_outlier(points, readings.num_probes, separation, max_share)
    below = groups.lo.size - _first_outlier(_mirrored_points(points), readings.num_probes, separation, max_share)
    outside = np.concatenate([np.arange(below), np.arange(above, groups.lo.size)])
    seen = np.maximum(groups.random[outside], np.where(groups.random[outside] > 0, 1.0, 0.0)) / readings.dimension
    spread = np.sqrt(readings.sampling_variance * seen * np.maximum(1 - seen, 0.0))
    return Outliers(
        positions=groups.best[outside],
        errors=np.maximum(groups.bound, groups.spread)[outside],
        multiplicities=groups.number[outside],
        multiplicity_errors=readings.dimension * spread,
        bulk=Interval(float(groups.lo[below]), float(groups.hi[above - 1])),
    )


def readings_of(measure: Readings | Density) -> Readings:
    """Return the measure itself, or that of a density."""
    if isinstance(measure, Density):
        return measure.measure
    if not isinstance(measure, Readings):
        raise TypeError(
            f"`measure` must be a measure or a density; got {type(measure).__name__}. "
            "For an operator call fast_lanczos or spectral_density first."
        )
    return measure


def _atom_errors(measure: Readings | Density) -> Floats:
    """Return how well the known atoms are known: the residuals of deflated pairs, where a density carries them."""
    atoms = readings_of(measure).known_atoms
    pairs = measure.outliers if isinstance(measure, Density) else None
    if pairs is None or pairs.rank != atoms.positions.size:
        return np.zeros(atoms.positions.size)
    order = np.argsort(pairs.values, kind="stable")
    return np.asarray((np.abs(pairs.values) * pairs.residuals)[order], dtype=np.float64)


def _known_points(readings: Readings, atom_errors: Floats) -> _Points:
    """Return all nodes and known atoms with their residuals."""
    atoms, rules, n = readings.known_atoms, readings.rules, readings.dimension
    x = np.concatenate([atoms.positions, *(rule.nodes for rule in rules)])
    error = np.concatenate([atom_errors, *(rule.residuals for rule in rules)])
    seen = np.concatenate([np.empty(0), *(n * readings.probe_mass * rule.weights for rule in rules)])
    scale = float(np.max(np.abs(x), initial=0.0))
    points = _Points(
        x=x,
        error=error + _ROUNDING * readings.eps * scale,
        number=np.concatenate([n * atoms.masses, seen]),
        random=np.concatenate([np.zeros(atoms.masses.size), seen]),
    )
    # what carries next to nothing would bridge gaps and move edges: a new ghost on its way to its eigenvalue
    moving = error > readings.eps**0.5 * scale
    keep = np.flatnonzero(points.number > np.where(moving, _MOVING / max(readings.num_probes, 1), _FAINTEST**2))
    keep = keep[np.argsort(x[keep], kind="stable")]
    return _Points(*(part[keep] for part in points))


def _merged(points: _Points) -> _Groups:
    """Return the points, merged where their intervals overlap."""
    order = np.argsort(points.x - points.error, kind="stable")
    x, r, count, random = (part[order] for part in points)
    reach = np.maximum.accumulate(x + r)
    starts = np.flatnonzero(np.concatenate([[True], (x - r)[1:] > reach[:-1]]))
    total = np.add.reduceat(count, starts)
    best = starts + np.array([np.argmin(part) for part in np.split(r, starts[1:])])
    offsets = x - np.repeat(x[best], np.diff(np.append(starts, x.size)))
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
        gap = groups.lo[i] - groups.bound[i] - groups.hi[i - 1] if i else 0.0
        if not heavy[i - 1]:
            span = _span(points, groups.hi[i - 1], num_probes, upward=False)
        elif beyond[i] > 2 * NEIGHBOURS:
            span = _span(points, groups.lo[i], num_probes, upward=True)
        else:
            span = 0.0
        if gap > separation * span:
            return int(i)
    return int(groups.lo.size)


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
