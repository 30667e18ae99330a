"""One density in a picture. Needs matplotlib, which is imported when a picture is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from specdens._distributions.cdf import Floats
from specdens._plotting.axes import curve, error_band, new_axes, resolution_entry, scale_axes, symlog_width
from specdens._plotting.stems import PLACES, STEMS, annotate, draw_atoms, masses_axis
from specdens._validate import as_choice

if TYPE_CHECKING:
    from specdens._density.density import Density

BAND = "± 2 standard errors"
SCALES = ("linear", "symlog")


def plot_density(
    density: Density,
    ax: Any = None,
    *,
    label: str | None = None,
    color: Any = None,
    linestyle: str = "-",
    log_y: bool = False,
    linear_width: float | None = None,
    band: bool = True,
    outliers: Floats | None = None,
) -> Any:
    """Draw a density with a band of two standard errors, and its atoms as stems on an axis of their own.

    The parameters are those of `Density.plot`; `linear_width` makes the axis symmetric-log, and `outliers` are the
    eigenvalues to name.
    """
    own = ax is None
    ax = new_axes() if own else ax
    name = "density" if label is None else label
    x, height, error = curve(density, linear_width)
    is_smooth = bool(np.any(density.values)) or not density.atoms.positions.size
    if not is_smooth:  # stems alone
        x, height, name = np.empty(0), np.empty(0), "_nolegend_" if label is None else label
    (line,) = ax.plot(x, height, color=color, linestyle=linestyle, linewidth=1.4, label=name)
    color = line.get_color()
    if band and is_smooth:
        name = BAND if label is None else "_nolegend_"
        lower, upper = error_band(height, error, log=log_y or density.axis == "|λ|")
        ax.fill_between(x, lower, upper, color=color, alpha=0.25, linewidth=0, label=name)
    if density.atoms.positions.size:
        name = "_nolegend_" if label is not None else "eigenvalues (right axis)" if not is_smooth else STEMS
        draw_atoms(ax, density, color, name, linestyle=linestyle)
    scale_axes(ax, [density], log_y=log_y, linear_width=linear_width)
    if own and not is_smooth:
        ax.set(yticks=[], ylabel="")
    if outliers is not None and density.axis in PLACES:
        annotate(ax, density, outliers, color, "outliers, smoothed" if label is None else "_nolegend_")
    if own:
        add_legend(ax, [density])
    return ax


def linear_width_of(x: str, densities: Sequence[Density]) -> float | None:
    """Return the width of the linear part of a symmetric-log axis for densities, or None for a linear one."""
    as_choice("x", x, SCALES)
    if x == "linear":
        return None
    if any(density.axis != "λ" for density in densities):
        raise ValueError(f'`x` must be "linear" for a density of {densities[0].axis}; "symlog" is for densities of λ')
    return symlog_width(densities)


def add_legend(ax: Any, densities: Sequence[Density] = ()) -> None:
    """Add one legend for the curves, the point masses and the resolution of densities."""
    handles, labels = ax.get_legend_handles_labels()
    twin = masses_axis(ax)
    if twin is not None:
        more, names = twin.get_legend_handles_labels()
        handles, labels = handles + more, labels + names
    entry = resolution_entry(ax, densities)
    if entry is not None:
        handles, labels = [*handles, entry[0]], [*labels, entry[1]]
    if handles:
        ax.legend(handles, labels, loc="best", fontsize="small")
