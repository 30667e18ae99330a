"""Several densities on shared axes, and grids of such panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from specdens._plot import add_legend, masses_axis, new_axes, plot_density, pyplot, scale_axes

if TYPE_CHECKING:
    from specdens._density import Density

# The paper's red, green and blue, in the shades of Okabe and Ito: distinct for the colour-blind, on white and on black.
PAPER = {"Hess": "#d55e00", "G": "#009e73", "H": "#2a8fd0"}
CYCLE = ("#d55e00", "#009e73", "#2a8fd0", "#cc79a7", "#e69f00", "#8c8c8c")
STYLES = ("-", "--", "-.", ":")  # so that they can be told apart in grey, and where one covers another


def plot_densities(
    densities: Mapping[str, Density],
    ax: Any = None,
    *,
    colors: Mapping[str, Any] | None = None,
    log: bool = False,
    band: bool = True,
    annotate_outliers: bool = False,
    legend: bool = True,
) -> Any:
    """Draw several densities on shared axes; return the Axes.

    Parameters
    ----------
    densities
        The densities by name, all of the same axis. "Hess", "G" and "H" have the colours of the paper.
    ax
        The Axes to draw in; by default those of a new figure.
    colors
        Colours by name, for some or all.
    log
        Whether the density is on a logarithmic axis.
    band, annotate_outliers
        As in `Density.plot`.
    legend
        Whether to add a legend.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> G, H = np.diag(np.linspace(0, 2, 500)), np.diag(np.linspace(-1, 1, 500))
    >>> named = {name: sd.spectral_density(A) for name, A in [("Hess", G + H), ("G", G), ("H", H)]}
    >>> ax = sd.plot_densities(named, log=True)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['Hess', 'G', 'H']
    """
    if not densities:
        raise ValueError("`densities` must name at least one density; got none")
    axes = {name: density.axis for name, density in densities.items()}
    if len(set(axes.values())) > 1:
        named = ", ".join(f"{name}: {axis}" for name, axis in axes.items())
        raise ValueError(f"`densities` must have the same axis; got {named}. Draw them alike from their measures.")
    ax = new_axes() if ax is None else ax
    for (name, density), color, style in zip(densities.items(), _colors(densities, colors), _styles(), strict=False):
        plot_density(
            density, ax, label=name, color=color, linestyle=style, log=log, band=band,
            annotate_outliers=annotate_outliers,
        )  # fmt: skip
    scale_axes(ax, list(densities.values()), log=log)
    if legend:
        add_legend(ax)
    return ax


def _styles() -> Iterator[str]:
    while True:
        yield from STYLES


def _colors(names: Mapping[str, Any], given: Mapping[str, Any] | None) -> list[Any]:
    chosen = {**PAPER, **(given or {})}
    free = [color for color in CYCLE if color not in {chosen[name] for name in names if name in chosen}]
    unnamed = [name for name in names if name not in chosen]
    chosen.update({name: (free or list(CYCLE))[i % len(free or CYCLE)] for i, name in enumerate(unnamed)})
    return [chosen[name] for name in names]


def plot_grid(
    rows: Mapping[str, Mapping[str, Density | Mapping[str, Density]]],
    *,
    colors: Mapping[str, Any] | None = None,
    log: bool = True,
    band: bool = True,
    panel_size: tuple[float, float] = (2.6, 1.8),
) -> Any:
    """Draw a grid of panels with shared axes, for instance epochs × sample sizes; return the array of Axes.

    Parameters
    ----------
    rows
        Per row title a mapping from column title to what the panel shows: a density, or several by name. Panels that
        are missing stay empty.
    colors, log, band
        As in `plot_densities`.
    panel_size
        Width and height of a panel in inches.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> H = sd.spectral_density(np.diag(np.linspace(-1, 1, 500)))
    >>> axes = sd.plot_grid({"epoch 1": {"n = 10": {"H": H}, "n = 100": {"H": H}}, "epoch 2": {"n = 10": {"H": H}}})
    >>> axes.shape
    (2, 2)
    """
    columns = list(dict.fromkeys(column for panels in rows.values() for column in panels))
    if not columns:
        raise ValueError("`rows` must hold at least one panel; got none")
    panels = {
        (i, columns.index(column)): panel if isinstance(panel, Mapping) else {"density": panel}
        for i, row in enumerate(rows.values())
        for column, panel in row.items()
    }
    drawn = [density for named in panels.values() for density in named.values()]
    if len({density.axis for density in drawn}) > 1:
        raise ValueError("`rows` must hold densities of the same axis, because all panels share theirs")
    shape = (len(rows), len(columns))
    size = (panel_size[0] * shape[1] + 0.8, panel_size[1] * shape[0] + 0.8)
    figure, axes = pyplot().subplots(
        *shape, sharex=True, sharey=True, squeeze=False, figsize=size, layout="constrained"
    )
    for place, named in panels.items():
        plot_densities(named, axes[place], colors=colors, log=log, band=band, legend=False)
    _dress(figure, axes, list(rows), columns, set(panels))
    scale_axes(axes[0, 0], drawn, log=log)
    figure.supylabel(axes[0, 0].get_ylabel(), fontsize="medium")
    figure.supxlabel(axes[0, 0].get_xlabel(), fontsize="medium")
    for ax in axes.ravel():
        ax.set(xlabel="", ylabel="")
    return axes


def _dress(figure: Any, axes: Any, rows: list[str], columns: list[str], filled: set[tuple[int, int]]) -> None:
    """Write the titles of rows and columns and one legend; give all point masses one scale."""
    for ax, title in zip(axes[0], columns, strict=True):
        ax.set_title(title, fontsize="medium")
    for ax, title in zip(axes[:, 0], rows, strict=True):
        ax.annotate(
            title, (0, 0.5), xytext=(-ax.yaxis.labelpad - 34, 0), xycoords="axes fraction", textcoords="offset points",
            rotation=90, ha="right", va="center",
        )  # fmt: skip
    for place in np.ndindex(axes.shape):
        if place not in filled:
            axes[place].set_visible(False)
    twins = [(place, masses_axis(axes[place])) for place in sorted(filled)]
    twins = [(place, twin) for place, twin in twins if twin is not None]
    top = max((twin.get_ylim()[1] for _, twin in twins), default=1.0)
    log = any(twin.get_yscale() == "log" for _, twin in twins)
    bottom = min((twin.get_ylim()[0] for _, twin in twins if twin.get_yscale() == "log"), default=0.0)
    for (_, j), twin in twins:
        if log:
            twin.set_yscale("log")
        twin.set_ylim(bottom, top)
        last = j == len(columns) - 1
        twin.set_ylabel("eigenvalues (stems)" if last else "", fontsize="small")
        twin.tick_params(labelright=last)
    handles: dict[str, Any] = {}
    for place in sorted(filled):
        for handle, label in zip(*axes[place].get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=len(handles))
