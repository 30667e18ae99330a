"""A law of random-matrix theory over a density. Needs matplotlib, which is imported when a picture is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._plotting.axes import new_axes, scale_axes
from specdens._plotting.single import add_legend, linear_width_of, plot_density

if TYPE_CHECKING:
    from specdens._density.density import Density

_POINTS = 2001


def plot_law(
    density: Density,
    law: Callable[[Floats], Floats],
    support: Interval,
    ax: Any = None,
    *,
    label: str,
    share: float = 1.0,
    edge: float | None = None,
    x: Literal["linear", "symlog"] = "linear",
    log_y: bool = False,
) -> Any:
    """Draw a density, and the density of a law with the given mass over it, dashed.

    `edge` is marked by a dotted line: what lies beyond it does not belong to the law.
    """
    width = linear_width_of(x, [density])
    own = ax is None
    if np.any(density.values):
        ax = plot_density(density, ax, log_y=log_y, linear_width=width, outliers=density.named_eigenvalues())
    else:
        ax = _plot_histogram(density, new_axes() if own else ax, support, width, log_y=log_y)
    # denser towards the ends, where the law has its square roots
    points = support.center - support.width / 2 * np.cos(np.linspace(0, np.pi, _POINTS))
    stretch = 1.0 if width is None else np.hypot(points, width)  # per unit of asinh(λ/width), as the density is
    ax.plot(points, share * law(points) * stretch, "--", color="black", linewidth=1.2, label=label)
    if edge is not None:
        ax.axvline(edge, color="black", linestyle=":", linewidth=1.0, label=f"edge of the noise, {edge:.3g}")
    if own:
        add_legend(ax, [density])
    return ax


def _plot_histogram(density: Density, ax: Any, support: Interval, width: float | None, *, log_y: bool) -> Any:
    """Draw eigenvalues that are all known as a histogram, in the unit of the law: stems have no density."""
    scale_axes(ax, [density], log_y=log_y, linear_width=width)
    x, masses = density.atoms
    place = x if width is None else np.arcsinh(x / width)
    ends = support if width is None else np.arcsinh(np.array(support) / width)
    # so many cells within the law that each holds a few eigenvalues
    cell = (ends[1] - ends[0]) / np.clip(np.sqrt(x.size), 6, 60)
    edges = np.arange(np.min(place) - cell / 2, np.max(place) + cell, cell)
    heights = np.histogram(place, edges, weights=masses)[0] / cell
    ax.stairs(
        heights,
        edges if width is None else width * np.sinh(edges),
        fill=True,
        alpha=0.4,
        label=f"all {density.measure.dimension} eigenvalues",
    )
    top = float(np.max(heights))
    ax.set_ylim(*((0.3 / density.measure.dimension / cell, 2 * top) if log_y else (0.0, 1.1 * top)))
    return ax
