"""What several figures draw alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import specdens as sd

Floats = NDArray[np.float64]
COLORS = {"Hess": "#d55e00", "G": "#009e73", "H": "#2a8fd0"}


def draw_exact(ax: Any, values: Floats, edges: Floats, *, dimension: int, color: str, label: str) -> None:
    """Draw exact eigenvalues as a histogram, as shares of `dimension` eigenvalues per unit of the axis."""
    counts, _ = np.histogram(values, edges)
    ax.stairs(counts / np.diff(edges) / dimension, edges, color=color, linewidth=1.2, label=label)


def draw_measure(ax: Any, measure: sd.SpectralMeasure, edges: Floats, *, color: str, label: str) -> None:
    """Draw the density of a measure in given cells, with a band of two standard errors.

    Eigenvalues that stand alone are not part of the density: each is a bar of its share per width of a cell, as it
    would be in a histogram. Those that were deflated are left out.
    """
    density = measure.density(grid=(edges[1:] + edges[:-1]) / 2)
    ax.plot(density.grid, density.values, color=color, linewidth=1.2, label=label)
    ax.fill_between(density.grid, *density.band(log=True), color=color, alpha=0.25, linewidth=0)
    alone = (density.atoms.positions > edges[0]) & (density.atoms.positions < edges[-1])
    alone &= ~np.isin(density.atoms.positions, measure.known_atoms.positions)
    places, masses = density.atoms.positions[alone], density.atoms.masses[alone]
    cells = np.diff(edges)[np.searchsorted(edges, places) - 1]
    ax.vlines(places, 1e-6 * masses / cells, masses / cells, color=color, linewidth=1.2)


def draw_stems(ax: Any, values: Floats, *, color: str, height: float = 0.45, label: str = "_nolegend_") -> None:
    """Mark single eigenvalues by stems that reach a share of the panel's height."""
    at = np.full(len(values), height)
    transform = ax.get_xaxis_transform()
    ax.vlines(values, 0, at, color=color, linewidth=0.9, transform=transform)
    ax.plot(values, at, "o", color=color, markersize=3.5, transform=transform, linestyle="none", label=label)


def outermost(measure: sd.SpectralMeasure) -> tuple[float, float]:
    """Return the least and the largest eigenvalue that a measure has seen, known ones included."""
    seen = np.concatenate([*measure.nodes, measure.known_atoms.positions])
    return float(seen.min()), float(seen.max())
