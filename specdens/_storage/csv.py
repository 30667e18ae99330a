"""Densities as CSV files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from specdens._storage.atomic_write import replacing

if TYPE_CHECKING:
    from specdens._density.density import Density


def write_csv(path: str | os.PathLike[str], density: Density) -> None:
    """Write grid, values and standard errors of a density as CSV, with all else in comment lines at the top."""
    lines = [
        f"# specdens: density of eigenvalues per unit {density.axis}, averaged over the cell around each point",
        f"# axis: {density.axis}",
        f"# kernel: {density.kernel}",
        *([] if density.epsilon is None else [f"# epsilon: {density.epsilon!r}"]),
        f"# mass_outside: {density.mass_outside!r}",
        *(f"# atom: {x!r}, {mass!r}" for x, mass in zip(*(part.tolist() for part in density.atoms), strict=True)),
        "grid,values,stderr",
    ]
    columns = (density.grid.tolist(), density.values.tolist(), density.stderr.tolist())
    lines += [f"{x!r},{value!r},{stderr!r}" for x, value, stderr in zip(*columns, strict=True)]
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
