"""Pictures of densities. Needs matplotlib, which is imported when a picture is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from specdens._density import Density

LINE, ATOM = "#1f77b4", "#d1495b"


def plot_density(density: Density, ax: Any = None) -> Any:
    """Draw a density with a band of two standard errors, and its atoms as stems on an axis of their own."""
    ax = _axes() if ax is None else ax
    ax.stairs(density.values, density.edges, color=LINE, linewidth=1.4, label="density")
    lower = np.maximum(density.values - 2 * density.stderr, 0.0)
    upper = density.values + 2 * density.stderr
    ax.fill_between(
        np.repeat(density.edges, 2)[1:-1], np.repeat(lower, 2), np.repeat(upper, 2),
        color=LINE, alpha=0.25, linewidth=0, label="± 2 standard errors",
    )  # fmt: skip
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel(density.axis)
    ax.set_ylabel(f"density per unit {density.axis}")
    if density.atoms.positions.size:
        _stems(density, ax)
    ax.margins(x=0.02)
    return ax


def _stems(density: Density, ax: Any) -> None:
    """Draw the atoms against a second vertical axis: a mass is not a density."""
    positions, masses = density.atoms
    masses_axis = ax.twinx()
    masses_axis.vlines(positions, 0.0, masses, color=ATOM, linewidth=1.4)
    masses_axis.plot(positions, masses, "o", color=ATOM, markersize=4)
    masses_axis.set_ylim(0.0, 1.5 * float(np.max(masses)))
    masses_axis.set_ylabel("mass of an atom", color=ATOM)
    masses_axis.tick_params(axis="y", colors=ATOM)


def _axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('plots need matplotlib: pip install "specdens[plot]"') from None
    return plt.subplots(layout="constrained")[1]
