"""The average of several densities on one grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from specdens._density.density import Density
from specdens._distributions.atoms import Atoms, merge_atoms
from specdens._distributions.cdf import Floats
from specdens._distributions.weighted import combine_errors

if TYPE_CHECKING:
    from specdens._measure.base import Measure


def common_grid(densities: Sequence[Density], num_points: int) -> Floats:
    """Return a grid over all densities: points at the quantiles of all their grids together."""
    points = np.sort(np.concatenate([density.grid for density in densities]))
    levels = np.linspace(0.0, points.size - 1.0, num_points)
    grid = np.interp(levels, np.arange(points.size), points)
    apart = np.concatenate([[True], np.diff(grid) > 1e-12 * (grid[-1] - grid[0])])
    return np.asarray(grid[apart], dtype=np.float64)


def average_densities(densities: Sequence[Density], shares: Floats, measure: Measure) -> Density:
    """Return the weighted average of densities on the same cells.

    The standard error is the larger of the members' own, combined as independent, and that of the mean by the spread
    between them.
    """
    first = densities[0]
    values, errors = (np.array([getattr(each, name) for each in densities]) for name in ("values", "stderr"))
    scale = float(np.max(np.abs(first.edges)))
    atoms = merge_atoms(
        [each.atoms.scaled(float(w)) for each, w in zip(densities, shares, strict=True)], tolerance=1e-9 * scale
    )
    resolutions = [each.resolution for each in densities if each.resolution is not None]
    return Density(
        grid=first.grid,
        values=np.asarray(shares @ values),
        stderr=combine_errors(shares, values, errors),
        edges=first.edges,
        axis=first.axis,
        atoms=atoms,
        mass_outside=float(shares @ np.array([each.mass_outside for each in densities])),
        kernel=f"average of {len(densities)}: {first.kernel}",
        measure=measure,
        epsilon=first.epsilon,
        resolution=np.asarray(np.mean(resolutions, axis=0)) if len(resolutions) == len(densities) else None,
        atom_stderr=_atom_errors(densities, shares, atoms, 1e-9 * scale),
    )


def _atom_errors(densities: Sequence[Density], shares: Floats, atoms: Atoms, tolerance: float) -> Floats:
    """Return the standard errors of the averaged masses."""
    masses, errors = np.zeros((2, len(densities), atoms.positions.size))
    for i, each in enumerate(densities):
        near = np.abs(each.atoms.positions[:, None] - atoms.positions) <= 2 * tolerance
        own = np.zeros(each.atoms.positions.size) if each.atom_stderr is None else each.atom_stderr
        masses[i], errors[i] = each.atoms.masses @ near, own @ near
    return combine_errors(shares, masses, errors)
