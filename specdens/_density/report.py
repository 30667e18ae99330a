"""What a density says of itself, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specdens._distributions.cdf import Floats
from specdens._plotting.axes import typical_resolution
from specdens._plotting.stems import format_eigenvalue

if TYPE_CHECKING:
    from specdens._density.density import Density

_SHOWN = 5  # atoms that the report names
_DRAWN = 0.01  # share of the peak from which the density is not small


def describe(density: Density) -> str:
    """Return the report of a density."""
    lo, hi = float(density.grid[0]), float(density.grid[-1])
    lines = [
        f"Density per unit {density.axis}: {density.grid.size} points in [{lo:.6g}, {hi:.6g}]",
        f"  kernel        {density.kernel}",
        f"  resolution    {_describe_resolution(density)}",
        f"  mass          {density.mass():.6g} ({density.atoms.mass():.3g} of it in atoms), and "
        f"{max(density.mass_outside, 0.0):.2g} outside this interval",
        f"  atoms         {_describe_atoms(density)}",
        f"  typical error {_typical_error(density)}",
        f"  from          {density.measure!r}",
    ]
    if density.measure.probes == "given":
        lines.append("  masses        weights of the given start vectors: read them with weight(lo, hi) and mean(f)")
    pairs = density.outliers
    if pairs is not None:
        lines.append(f"  eigenpairs    {pairs.rank} deflated, found with {pairs.num_products} products")
    return "\n".join(lines + [f"  note          {note}" for note in density.notes])


def _describe_atoms(density: Density) -> str:
    atoms, errors = density.atoms, density.atom_stderr
    if not atoms.positions.size:
        return "none"
    places = [format_eigenvalue(float(position), density) for position in atoms.positions]
    masses = [f"{mass:.3g}" for mass in atoms.masses]
    # zero first, then the heaviest; those of one mass from left to right
    order = sorted(range(len(places)), key=lambda i: (places[i] != "0", -float(masses[i]), atoms.positions[i]))
    words = []
    for i in order[:_SHOWN]:
        error = f" ± {errors[i]:.1g}" if errors is not None and errors[i] > 1e-4 * atoms.masses[i] else ""
        words.append(f"{masses[i]}{error} at {places[i]}")
    return ", ".join(words) + (f", and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")


def _describe_resolution(density: Density) -> str:
    typical = typical_resolution(density)
    if typical is None or density.resolution is None:
        return "exact: point masses alone" if not np.any(density.values) else "not known"
    drawn = density.resolution[density.values > 0]
    lo, hi = float(np.min(drawn)), float(np.max(drawn))
    spread = f", from {lo:.2g} to {hi:.2g}" if hi > 1.05 * lo else ""
    return f"± {typical:.3g}{spread} (standard deviation of the kernel)"


def _typical_error(density: Density) -> str:
    peak = float(np.max(density.values, initial=0.0))
    if peak <= 0:
        return "no smooth part"
    drawn = density.values > _DRAWN * peak
    total = np.hypot(density.stderr, smoothing_error(density))
    percent = 100 * float(np.median(total[drawn] / density.values[drawn]))
    share = f"{percent:.2g}" if percent < 99.5 else f"{percent:.0f}"
    if density.measure.probes == "exact":
        return f"no sampling error; smoothing moves the curve by about {share} %"
    return f"{share} % where the density is not small, smoothing included"


def smoothing_error(density: Density) -> Floats:
    """Return the leading effect of the kernel on the density, h²ρ″/2, by differences over one resolution."""
    if density.resolution is None:
        return np.zeros(density.grid.size)
    x, h, y = density.grid, density.resolution, density.values
    left, right = (np.interp(x + shift, x, y, left=0.0, right=0.0) for shift in (-h, h))
    return np.abs(left - 2 * y + right) / 2
