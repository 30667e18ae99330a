"""Gaussian bumps averaged over cells, and the standard error of what they add up to.

A set of bumps stands for one probe's measure; their positions may have been pushed forward by a function first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from specdens._distributions.cdf import Cdf, Floats

ROUNDING = 1e-10
"""The floor of a standard error, relative to the highest value drawn."""

_SMALLEST_SHARE = 30.0
REACH = 9.0
"""Widths beyond which a Gaussian is below rounding."""
_ENTRIES = 2**20  # of the matrices made at a time


class Bumps(NamedTuple):
    """Positions, masses and widths of Gaussian bumps."""

    positions: Floats
    masses: Floats
    widths: Floats


def cell_averages(edges: Floats, bumps: Bumps, second_masses: Floats | None = None) -> tuple[Floats, Floats]:
    """Return Σ mⱼ gⱼ and Σ m'ⱼ gⱼ², where gⱼ is the average of bump j over each cell and m' the second masses."""
    num_cells, sizes = edges.size - 1, np.diff(edges)
    first, second = np.zeros(num_cells), np.zeros(num_cells)
    # a bump touches the cells within its reach only: the same number of columns for all, as many as the widest needs
    start = np.searchsorted(edges, bumps.positions - REACH * bumps.widths, side="right") - 1
    stop = np.searchsorted(edges, bumps.positions + REACH * bumps.widths, side="left")
    reach = int(np.max(stop - start, initial=1))
    step = max(1, _ENTRIES // reach)
    for begin in range(0, bumps.positions.size, step):
        j = slice(begin, begin + step)
        at = np.clip(start[j, None] + np.arange(reach + 1), 0, num_cells)
        cells = np.diff(ndtr((edges[at] - bumps.positions[j, None]) / bumps.widths[j, None]), axis=1)
        at = np.minimum(at[:, :-1], num_cells - 1)
        first += np.bincount(at.ravel(), (cells * bumps.masses[j, None]).ravel(), num_cells)
        if second_masses is not None:
            squares = np.square(cells / sizes[at]) * second_masses[j, None]
            second += np.bincount(at.ravel(), squares.ravel(), num_cells)
    return first / sizes, second


Averages = Callable[[Floats, Bumps, "Floats | None"], tuple[Floats, Floats]]
"""A function like `cell_averages`."""


def local_mean(edges: Floats, values: Floats, half_width: Floats | float) -> Floats:
    """Return the mean of a non-negative cell-wise constant function over [x − half_width, x + half_width] for every x.

    A difference of running sums; where that is lost to rounding, the value of the cell itself.
    """
    centers = (edges[1:] + edges[:-1]) / 2
    half = np.maximum(half_width, np.diff(edges) / 2)
    total = np.concatenate([[0.0], np.cumsum(values * np.diff(edges))])
    lo, hi = np.maximum(centers - half, edges[0]), np.minimum(centers + half, edges[-1])
    inside = np.interp(hi, edges, total) - np.interp(lo, edges, total)
    mean: Floats = np.where(inside > 1e-12 * total[-1], inside / (hi - lo), values)
    return mean


def variance_masses(weights: Floats, n: int) -> Floats:
    """Return the weights to use in the mean of f²: an eigenvalue has mass 1/n at least.

    A probe may see a single eigenvalue with a weight far below 1/n and would then promise a small error just where
    the error is largest. Nodes that carry next to nothing stay at nothing.
    """
    return np.maximum(weights, np.minimum(1.0 / max(n, 1), _SMALLEST_SHARE * weights))


def standard_error(values: Floats, variance: Floats, squared_error: Floats | float = 0.0) -> Floats:
    """Return the root of the sum of sampling variance, squared quadrature error and a floor for rounding."""
    floor = ROUNDING * np.max(np.abs(values), initial=0.0)
    total: Floats = variance + squared_error + floor**2
    return np.sqrt(total)


def slab_bumps(cdf: Cdf, widths: Callable[[Floats], Floats], num_pieces: int) -> Bumps:
    """Return the best estimate of a probe's distribution as bumps: every linear piece cut into equal parts."""
    lo, hi, mass = cdf.positions[:-1], cdf.positions[1:], np.diff(cdf.values)
    keep = mass > 0
    lo, hi, mass = lo[keep], hi[keep], mass[keep]
    parts = (np.arange(num_pieces) + 0.5) / num_pieces
    x = (lo[:, None] + (hi - lo)[:, None] * parts).ravel()
    return Bumps(x, np.repeat(mass / num_pieces, num_pieces), widths(x))


def draw(
    edges: Floats,
    bumps: Sequence[Bumps],
    *,
    width: Floats | float,
    dimension: int,
    sampling_variance: float,
    averages: Averages = cell_averages,
) -> tuple[Floats, Floats]:
    """Return the mean of several smoothed rules over the cells, and its sampling variance.

    Parameters
    ----------
    edges
        The ends of the cells.
    bumps
        The quadrature rule of every probe, smoothed.
    width
        The width of the bumps, everywhere or at every cell.
    dimension
        The number of eigenvalues that the bumps stand for.
    sampling_variance
        The variance of a mean over the probes, in units of the variance over the spectrum.
    averages
        `cell_averages`, or what folds bumps at the ends of the spectrum.
    """
    both = [averages(edges, each, variance_masses(each.masses, dimension)) for each in bumps]
    values, second = (np.mean([pair[i] for pair in both], axis=0) for i in (0, 1))
    return values, local_mean(edges, sampling_variance * np.maximum(second - values**2, 0.0), width)


def local_square(
    edges: Floats,
    values: Floats,
    others: Sequence[Bumps],
    width: Floats | float,
    averages: Averages = cell_averages,
) -> Floats:
    """Return the mean square, over two widths on either side, of the difference to another drawing."""
    other = np.mean([averages(edges, each, None)[0] for each in others], axis=0)
    return local_mean(edges, (values - other) ** 2, 2 * width)
