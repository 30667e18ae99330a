"""Smoothing with Gaussians that are folded at the ends of the spectrum, so that no mass is drawn beyond them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from specdens._density.kernel_width import Width, interpolated_width
from specdens._density.pieces import Pieces, split
from specdens._density.smoothing import REACH, Bumps, cell_averages
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval

if TYPE_CHECKING:
    from specdens._density.density import Density

_SAME = 1e-6  # distance of an eigenvalue from its atom, as a share of the spectrum's width


def smoothed_like(density: Density, eigenvalues: ArrayLike) -> Floats:
    """Return exact eigenvalues smoothed on the grid of a density as it is, without those that are its atoms."""
    e = np.sort(np.asarray(eigenvalues, dtype=np.float64))
    if e.ndim != 1 or not e.size or not np.all(np.isfinite(e)):
        raise ValueError(f"`eigenvalues` must be a vector of finite numbers; got shape {e.shape}")
    if density.resolution is None or not density.kernel.startswith("Gaussian"):
        raise ValueError(
            f"`smooth` needs a Gaussian kernel; got a density with {density.kernel}. "
            "Draw SpectralMeasure.from_eigenvalues(eigenvalues) with that kernel instead."
        )
    atoms = np.concatenate([[-np.inf], density.atoms.positions, [np.inf]])
    above = np.searchsorted(atoms, e)
    apart = np.minimum(atoms[above] - e, e - atoms[above - 1]) > _SAME * (e[-1] - e[0])
    rest, mass = e[apart], np.full(int(np.sum(apart)), 1.0 / e.size)
    if not rest.size:
        return np.zeros(density.grid.size)
    centers = (density.edges[1:] + density.edges[:-1]) / 2
    h = interpolated_width(centers, density.resolution)
    if " on " not in density.kernel:  # bumps at nodes, which are not folded
        return cell_averages(density.edges, Bumps(rest, mass, h(rest)))[0]
    return smoothed(density.edges, Pieces(rest, rest, mass), h, [Interval(float(rest[0]), float(rest[-1]))])


def smoothed(edges: Floats, pieces: Pieces, h: Width, bands: Sequence[Interval]) -> Floats:
    """Return the cell averages of pieces, each point smoothed by a Gaussian of width h(x) that is folded at the ends.

    An exact spectrum is smoothed alike with ``Pieces(eigenvalues, eigenvalues, masses)``. Every piece lies in one band.
    """
    x, mass = split(pieces, h((pieces.lo + pieces.hi) / 2))
    owner = np.clip(np.searchsorted([band.lo for band in bands], x, side="right") - 1, 0, None)
    values: Floats = np.zeros(edges.size - 1)
    for i, band in enumerate(bands):
        own = owner == i
        values += folded_averages(edges, Bumps(x[own], mass[own], h(x[own])), band)[0]
    return values


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
