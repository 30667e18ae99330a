"""Several densities on shared axes, and grids of such panels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from specdens._deprecation import resolve_renamed, warn_deprecated
from specdens._plotting.axes import new_axes, pyplot, scale_axes
from specdens._plotting.single import add_legend, linear_width_of, plot_density
from specdens._plotting.stems import masses_axis, name_stems

if TYPE_CHECKING:
    from specdens._density.density import Density
    from specdens._measure.base import Measure

    Drawable: TypeAlias = Density | Measure

# The paper's red, green and blue, in the shades of Okabe and Ito: distinct for the colour-blind, on white and on black.
PAPER = {"Hess": "#d55e00", "G": "#009e73", "H": "#2a8fd0"}
CYCLE = ("#d55e00", "#009e73", "#2a8fd0", "#cc79a7", "#e69f00", "#8c8c8c")
STYLES = ("-", "--", "-.", ":")  # so that they can be told apart in grey, and where one covers another


def plot_densities(
    *densities: Drawable | Mapping[str, Drawable] | Iterable[Drawable],
    ax: Any = None,
    x: Literal["linear", "symlog"] = "linear",
    colors: Mapping[str, Any] | None = None,
    log_y: bool = False,
    band: bool = True,
    annotate_outliers: bool = False,
    legend: bool = True,
    log: bool | None = None,
) -> Any:
    """Draw several densities on shared axes.

    Parameters
    ----------
    *densities : Density, Measure, mapping or iterable of these
        What to draw, all of the same axis: by name in a mapping, or one after another. A measure is drawn as by
        `Measure.density`. "Hess", "G" and "H" have the colours of the paper.
    ax : matplotlib.axes.Axes, optional
        The Axes to draw in; by default those of a new figure.
    x : {"linear", "symlog"}, default "linear"
        As in `Density.plot`; the densities share one linear part.
    colors : mapping, optional
        Colours by name, for some or all.
    log_y : bool, default False
        Whether the density is on a logarithmic axis.
    band, annotate_outliers : bool
        As in `Density.plot`.
    legend : bool, default True
        Whether to add a legend.
    log : bool, optional
        Deprecated name of `log_y`.

    Returns
    -------
    matplotlib.axes.Axes
        The Axes.

    Raises
    ------
    TypeError
        If something is neither a density nor a measure.
    ValueError
        If there is none, or their axes differ.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> G, H = np.diag(np.linspace(0, 2, 500)), np.diag(np.linspace(-1, 1, 500))
    >>> named = {name: sd.spectral_density(A) for name, A in [("Hess", G + H), ("G", G), ("H", H)]}
    >>> ax = sd.plot_densities(named, log_y=True)
    >>> [text.get_text() for text in ax.get_legend().get_texts()][:3]
    ['Hess', 'G', 'H']
    >>> ax = sd.plot_densities(named["G"], named["H"])
    """
    log_y = resolve_renamed("log", log, "log_y", log_y)
    drawables: list[Any] = list(densities)
    if len(drawables) == 2 and hasattr(drawables[1], "get_legend_handles_labels"):
        warn_deprecated("pass `ax` by keyword")
        ax = drawables.pop()
    named = _by_name(drawables)
    width = linear_width_of(x, list(named.values()))
    return _draw_named(
        named, ax, width, colors=colors, log_y=log_y, band=band, annotate_outliers=annotate_outliers, legend=legend
    )


def _draw_named(
    named: Mapping[str, Density],
    ax: Any,
    linear_width: float | None,
    *,
    colors: Mapping[str, Any] | None,
    log_y: bool,
    band: bool,
    annotate_outliers: bool = False,
    legend: bool = True,
) -> Any:
    """Draw densities of one axis by name."""
    ax = new_axes() if ax is None else ax
    for (name, density), color, style in zip(named.items(), _colors(named, colors), _styles(), strict=False):
        outliers = density.named_eigenvalues() if annotate_outliers else None
        plot_density(
            density, ax, label=name, color=color, linestyle=style, log_y=log_y, linear_width=linear_width, band=band,
            outliers=outliers,
        )  # fmt: skip
    scale_axes(ax, list(named.values()), log_y=log_y, linear_width=linear_width)
    if legend:
        if len(named) > 1 and masses_axis(ax) is not None:
            name_stems(ax)
        add_legend(ax, list(named.values()))
    return ax


def _by_name(densities: Iterable[Any]) -> dict[str, Density]:
    """Return the densities of all arguments by name; those without a name are numbered."""
    named: dict[str, Density] = {}
    for each in densities:
        if isinstance(each, Mapping):
            named |= {str(name): as_density(value) for name, value in each.items()}
        else:
            group = each if isinstance(each, Iterable) else [each]
            named |= {str(number): as_density(value) for number, value in enumerate(group, start=len(named) + 1)}
    if not named:
        raise ValueError("`densities` must name at least one density; got none")
    axes = {name: density.axis for name, density in named.items()}
    if len(set(axes.values())) > 1:
        pairs = ", ".join(f"{name}: {axis}" for name, axis in axes.items())
        raise ValueError(f"`densities` must have the same axis; got {pairs}. Draw them alike from their measures.")
    return named


def as_density(drawable: Any) -> Density:
    """Return a density itself, or that of a measure."""
    if hasattr(drawable, "find_outliers"):  # densities and measures; neither can be imported here, they draw themselves
        density: Density = drawable.density() if hasattr(drawable, "density") else drawable
        return density
    raise TypeError(f"`densities` must be densities or measures; got {type(drawable).__name__}")


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
    rows: Mapping[str, Drawable | Mapping[str, Drawable | Mapping[str, Drawable]]],
    *,
    x: Literal["linear", "symlog"] = "linear",
    colors: Mapping[str, Any] | None = None,
    log_y: bool = True,
    band: bool = True,
    panel_size: tuple[float, float] = (2.6, 1.8),
    log: bool | None = None,
) -> Any:
    """Draw a grid of panels with shared axes, for instance epochs × sample sizes.

    Parameters
    ----------
    rows : mapping
        Per row title a mapping from column title to what the panel shows: a density or measure, or several by name.
        Panels that are missing stay empty. Densities or measures by name, without rows, become panels with these
        names, wrapped into a grid.
    x, colors, band
        As in `plot_densities`.
    log_y : bool, default True
        Whether the densities are on a logarithmic axis, as the axis then says. Unlike `Density.plot` and
        `plot_densities`, which are linear by default: panels that share an axis differ by orders of magnitude.
    panel_size : (float, float), default (2.6, 1.8)
        Width and height of a panel in inches.
    log : bool, optional
        Deprecated name of `log_y`.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        One Axes per row and column.

    Raises
    ------
    ValueError
        If there is no panel, or the densities are of different axes.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> H = sd.spectral_density(np.diag(np.linspace(-1, 1, 500)))
    >>> axes = sd.plot_grid({"epoch 1": {"n = 10": {"H": H}, "n = 100": {"H": H}}, "epoch 2": {"n = 10": {"H": H}}})
    >>> axes.shape
    (2, 2)
    """
    log_y = resolve_renamed("log", log, "log_y", log_y)
    if rows and not any(isinstance(row, Mapping) for row in rows.values()):
        return _wrapped(rows, x=x, colors=colors, log_y=log_y, band=band, panel_size=panel_size)
    whole: dict[str, Mapping[str, Any]] = {title: _as_row(row) for title, row in rows.items()}
    columns = list(dict.fromkeys(column for panels in whole.values() for column in panels))
    if not columns:
        raise ValueError("`rows` must hold at least one panel; got none")
    panels = {
        (i, columns.index(column)): _panel(panel)
        for i, row in enumerate(whole.values())
        for column, panel in row.items()
    }
    return _draw_panels(
        panels, (len(rows), len(columns)), list(rows), columns, x=x, colors=colors, log_y=log_y, band=band,
        panel_size=panel_size,
    )  # fmt: skip


def _as_row(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise TypeError(f"`rows` must hold rows of panels, or panels alone; got both, {type(row).__name__} among rows")
    return row


def _wrapped(rows: Mapping[str, Any], **options: Any) -> Any:
    """Draw panels with a title each, in a grid about half as high as it is wide."""
    width = min(len(rows), int(np.ceil(np.sqrt(1.5 * len(rows)))))
    panels = {divmod(i, width): _panel(each) for i, each in enumerate(rows.values())}
    axes = _draw_panels(panels, (-(-len(rows) // width), width), [], [], **options)
    for place, title in zip(panels, rows, strict=True):
        axes[place].set_title(title, fontsize="medium")
    for j in range(width):  # the lowest panel of a column has the ticks
        lowest = max(i for i, other in panels if other == j)
        axes[lowest, j].tick_params(labelbottom=True)
    return axes


def _draw_panels(
    panels: Mapping[tuple[int, int], dict[str, Density]],
    shape: tuple[int, int],
    rows: list[str],
    columns: list[str],
    *,
    x: str,
    colors: Mapping[str, Any] | None,
    log_y: bool,
    band: bool,
    panel_size: tuple[float, float],
) -> Any:
    """Draw panels at their places on shared axes."""
    drawn = [density for named in panels.values() for density in named.values()]
    if len({density.axis for density in drawn}) > 1:
        raise ValueError("`rows` must hold densities of the same axis, because all panels share theirs")
    size = (panel_size[0] * shape[1] + 0.8, panel_size[1] * shape[0] + 0.8)
    figure, axes = pyplot().subplots(
        *shape, sharex=True, sharey=True, squeeze=False, figsize=size, layout="constrained"
    )
    width = linear_width_of(x, drawn)
    for place, named in panels.items():
        _draw_named(named, axes[place], width, colors=colors, log_y=log_y, band=band, legend=False)
    _dress(figure, axes, rows, columns, set(panels))
    scale_axes(axes[0, 0], drawn, log_y=log_y, linear_width=width)
    figure.supylabel(axes[0, 0].get_ylabel() + (", log scale" if log_y else ""), fontsize="medium")
    figure.supxlabel(axes[0, 0].get_xlabel(), fontsize="medium")
    for ax in axes.ravel():
        ax.set(xlabel="", ylabel="")
    return axes


def _panel(panel: Any) -> dict[str, Density]:
    named = panel if isinstance(panel, Mapping) else {"density": panel}
    return {name: as_density(value) for name, value in named.items()}


def _shared_masses(twins: list[Any]) -> tuple[float, float, bool]:
    """Return limits for the point masses of all panels, and whether they are logarithmic: 1 beside 2000 must show."""
    heights = [float(y) for twin in twins for line in twin.lines for y in np.atleast_1d(line.get_ydata())]
    if heights and max(heights) > 30 * min(heights):
        return min(heights) / 3, 30 * max(heights), True
    return 0.0, max((twin.get_ylim()[1] for twin in twins), default=1.0), False


def _dress(figure: Any, axes: Any, rows: list[str], columns: list[str], filled: set[tuple[int, int]]) -> None:
    """Write the titles of rows and columns and one legend; give all point masses one scale."""
    for j, title in enumerate(columns):
        axes[min(i for i, other in filled if other == j), j].set_title(title, fontsize="medium")
    for ax, title in zip(axes[:, 0], rows, strict=False):
        ax.annotate(
            title, (0, 0.5), xytext=(-ax.yaxis.labelpad - 34, 0), xycoords="axes fraction", textcoords="offset points",
            rotation=90, ha="right", va="center",
        )  # fmt: skip
    for place in np.ndindex(axes.shape):
        if place not in filled:
            axes[place].set_visible(False)
    twins = [(place, masses_axis(axes[place])) for place in sorted(filled)]
    twins = [(place, twin) for place, twin in twins if twin is not None]
    bottom, top, log = _shared_masses([twin for _, twin in twins])
    for (_, j), twin in twins:
        if log:
            twin.set_yscale("log")
        twin.set_ylim(bottom, top)
        last = j == axes.shape[1] - 1
        twin.set_ylabel("eigenvalues (stems)" if last else "", fontsize="small")
        twin.tick_params(labelright=last)
    handles: dict[str, Any] = {}
    for place in sorted(filled):
        for handle, label in zip(*axes[place].get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=len(handles))
