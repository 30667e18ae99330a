"""Signed and complex densities in a picture. Needs matplotlib, which is imported when a picture is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from specdens._plotting.axes import new_axes
from specdens._plotting.single import BAND

if TYPE_CHECKING:
    from specdens._cross.density import CrossDensity


def plot_signed(density: CrossDensity, ax: Any, *, label: str | None, color: Any, band: bool) -> Any:
    """Draw a signed density around a line at zero, with a band of two standard errors; see `CrossDensity.plot`."""
    own = ax is None
    ax = new_axes() if own else ax
    name = density.measure.form if label is None else label
    parts = [(name, density.values.real, "-")]
    if np.iscomplexobj(density.values):
        parts = [(f"Re {name}", density.values.real, "-"), (f"Im {name}", density.values.imag, "--")]
    ax.axhline(0.0, color="0.5", linewidth=0.8, zorder=0)
    for words, values, linestyle in parts:
        (line,) = ax.plot(density.grid, values, linestyle, color=color, linewidth=1.4, label=words)
        if band and density.measure.is_trace:  # between two vectors there is no sampling error
            lower, upper = values - 2 * density.stderr, values + 2 * density.stderr
            ax.fill_between(density.grid, lower, upper, color=line.get_color(), alpha=0.25, linewidth=0, label=BAND)
    ax.set_xlabel("eigenvalue λ")
    ax.set_ylabel(f"{density.measure.form} per unit λ")
    if own:
        ax.legend(loc="best", fontsize="small")
    return ax
