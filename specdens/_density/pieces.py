"""A distribution function cut into point masses and pieces of uniform density."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from specdens._distributions.atoms import Atoms
from specdens._distributions.cdf import Cdf, Floats

if TYPE_CHECKING:
    from specdens._measure.base import Measure


class PointMasses(NamedTuple):
    """Eigenvalues to show as point masses, in increasing order, each with an interval that holds it alone."""

    positions: Floats
    lo: Floats
    hi: Floats


class Pieces(NamedTuple):
    """Masses, each uniform on [lo, hi]; a jump where both are equal."""

    lo: Floats
    hi: Floats
    mass: Floats


def cut(cdf: Cdf, points: PointMasses) -> tuple[Pieces, Floats]:
    """Return the pieces of a distribution function outside the intervals of the points, and the mass within each."""
    x = np.unique(np.concatenate([cdf.positions, points.lo, points.hi]))
    left, right = cdf(x, side="left"), cdf(x, side="right")
    lo, hi = np.concatenate([x, x[:-1]]), np.concatenate([x, x[1:]])
    mass = np.concatenate([right - left, left[1:] - right[:-1]])
    middle = (lo + hi) / 2
    owner = np.searchsorted(points.lo, middle, side="right") - 1
    inside = owner >= 0
    inside[inside] = middle[inside] <= points.hi[owner[inside]]
    keep = ~inside & (mass > 4 * np.finfo(np.float64).eps)  # less is the rounding of differences of the function
    within: Floats = np.bincount(owner[inside], mass[inside], points.positions.size).astype(np.float64)
    order = np.argsort(middle[keep], kind="stable")
    return Pieces(lo[keep][order], hi[keep][order], mass[keep][order]), within


def atom_intervals(measure: Measure, atoms: Atoms) -> PointMasses:
    """Return atoms of a measure with the intervals that rounding may move them within."""
    x = atoms.positions
    room = np.maximum(measure.rounding_room, measure.eps**0.75 * np.max(np.abs(x), initial=0.0))
    return PointMasses(x, x - room, x + room)


def standing_apart(points: PointMasses, cdf: Cdf, distance: Floats, mass: float) -> PointMasses:
    """Return the points with less than `mass` around them, within their distance, that does not belong to points."""
    own = np.concatenate([[0.0], np.cumsum(cdf(points.hi) - cdf(points.lo, side="left"))])
    around = cdf(points.positions + distance) - cdf(points.positions - distance, side="left")
    first = np.searchsorted(points.positions, points.positions - distance, side="left")
    last = np.searchsorted(points.positions, points.positions + distance, side="right")
    keep = around - (own[last] - own[first]) < mass
    return PointMasses(*(part[keep] for part in points))


def union(first: PointMasses, second: PointMasses) -> PointMasses:
    """Return both sets of points; intervals that overlap become one, at the position from `first` if there is one."""
    rows = sorted(
        [(a, b, x, 0) for x, a, b in zip(*first, strict=True)] + [(a, b, x, 1) for x, a, b in zip(*second, strict=True)]
    )
    merged: list[tuple[float, float, float, int]] = []
    for a, b, x, rank in rows:
        if merged and a <= merged[-1][1]:
            lo, hi, at, best = merged[-1]
            merged[-1] = (lo, max(hi, b), *((x, rank) if rank < best else (at, best)))
        else:
            merged.append((a, b, x, rank))
    return PointMasses(*(np.array([row[i] for row in merged], dtype=np.float64) for i in (2, 0, 1)))


def split(pieces: Pieces, width: Floats, share: float = 0.5, most: int = 64) -> tuple[Floats, Floats]:
    """Return positions and masses of equal parts of every piece, each at most `share` of the local width long."""
    length = pieces.hi - pieces.lo
    parts = np.clip(np.ceil(length / (share * width)), 1, most).astype(np.int64)
    piece = np.repeat(np.arange(parts.size), parts)
    number = np.arange(piece.size) - np.repeat(np.cumsum(parts) - parts, parts)
    x = pieces.lo[piece] + length[piece] * (number + 0.5) / parts[piece]
    return x, pieces.mass[piece] / parts[piece]
