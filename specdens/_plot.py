"""One density in a picture. Needs matplotlib, which is imported when a picture is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from specdens._cdf import Floats

if TYPE_CHECKING:
    from specdens._density import Density

LOG_AXIS = "log(|λ| + ε)"
BAND = "± 2 standard errors"
_MASSES = "specdens: point masses"  # the label by which a picture's axis of masses is found again
_LABELS = 12  # outliers that are named in a picture
_APART = 0.035  # of the width of the picture: labels closer than that would overlap


def plot_density(
    density: Density,
    ax: Any = None,
    *,
    label: str | None = None,
    color: Any = None,
    linestyle: str = "-",
    log: bool = False,
    band: bool = True,
    annotate_outliers: bool = True,
) -> Any:
    """Draw a density with a band of two standard errors, and its atoms as stems on an axis of their own.

    The parameters are those of `Density.plot`.
    """
    own = ax is None
    ax = new_axes() if own else ax
    name = "density" if label is None else label
    (line,) = ax.plot(density.grid, density.values, color=color, linestyle=linestyle, linewidth=1.4, label=name)
    color = line.get_color()
    if band:
        lower, upper = density.values - 2 * density.stderr, density.values + 2 * density.stderr
        name = BAND if label is None else "_nolegend_"
        ax.fill_between(density.grid, np.maximum(lower, 0.0), upper, color=color, alpha=0.25, linewidth=0, label=name)
    if density.axis == "|λ|":
        ax.set_xscale("log")
    if density.atoms.positions.size:
        draw_atoms(ax, density, color, None if label is not None else "point masses (right axis)")
    if annotate_outliers:
        annotate(ax, density, color, "outliers" if label is None else "_nolegend_")
    scale_axes(ax, [density], log=log)
    if own:
        add_legend(ax)
    return ax


def new_axes() -> Any:
    """Return the Axes of a new figure."""
    return pyplot().subplots(layout="constrained")[1]


def pyplot() -> Any:
    """Return matplotlib.pyplot, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('plots need matplotlib: pip install "specdens[plot]"') from None
    return plt


def scale_axes(ax: Any, densities: Sequence[Density], *, log: bool) -> None:
    """Name the axes, start the density at zero or draw it on a logarithm, and write powers of ten on a log axis."""
    axis = densities[0].axis
    unit = {LOG_AXIS: "log|λ|"}.get(axis, axis)
    ax.set_ylabel(f"density per unit {unit}")
    ax.set_xlabel("eigenvalue λ" if axis == "λ" else axis)
    if axis == LOG_AXIS:
        _ticks_of_powers(ax, densities)
    if log or axis == "|λ|":
        ax.set_yscale("log")
    if ax.get_autoscaley_on():  # limits that the caller has set stay
        ax.autoscale_view(scalex=False)
        ax.set_ylim(_floor(densities) if ax.get_yscale() == "log" else 0.0, ax.get_ylim()[1], auto=True)


def _floor(densities: Sequence[Density]) -> float:
    """Return the least density to show on a logarithm: half the least that exceeds its error, or a trace of one.

    A trace is the tenth part of one eigenvalue, spread over a tenth of the axis (on the axis |λ|, at its upper end).
    """
    peak = max(float(np.max(density.values, initial=0.0)) for density in densities) or 1.0
    traces = [1.0 / (density.measure.dimension * (density.edges[-1] - density.edges[0])) for density in densities]
    sure = [float(np.min(d.values[d.values > 2 * d.stderr], initial=peak)) / 2 for d in densities]
    return float(min(max(min(sure), min(traces)), peak / 10))


def _ticks_of_powers(ax: Any, densities: Sequence[Density]) -> None:
    """Write powers of ten of |λ| on an axis of log(|λ| + ε), and 0 where it ends at log ε."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    epsilon = max((density.epsilon or 0.0) for density in densities)
    lo, hi = min(density.edges[0] for density in densities), max(density.edges[-1] for density in densities)
    hi = max([hi, *(float(np.max(d.atoms.positions)) for d in densities if d.atoms.positions.size)])
    first = np.log10(epsilon) if epsilon else lo / np.log(10)
    powers = np.arange(int(np.floor(first)) + 1, int(np.floor(hi / np.log(10))) + 1)
    step = max(1, int(np.ceil(powers.size / 9)))
    major = powers[powers % step == 0]
    zero = [float(np.log(epsilon))] if epsilon and lo <= np.log(epsilon) + 1 else []
    positions = np.concatenate([zero, np.log(10.0**major + epsilon)])
    names = [*(["0"] * len(zero)), *(f"$10^{{{k}}}$" for k in major)]
    minor = np.log(np.outer(10.0**powers, np.arange(1, 10)).ravel() + epsilon)
    ax.xaxis.set_major_locator(FixedLocator(positions.tolist()))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: names[int(np.argmin(np.abs(positions - x)))]))
    if step == 1:
        ax.xaxis.set_minor_locator(FixedLocator(minor.tolist()))
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("|λ|, on the axis log(|λ| + ε)" + (f" with ε = {epsilon:g}" if epsilon else ""))


# -- atoms and outliers ---------------------------------------------------------------------------------------------


def masses_axis(ax: Any) -> Any:
    """Return the right-hand axis of point masses that belongs to an Axes, or None."""
    same_place = (other for other in ax.figure.axes if other.get_label() == _MASSES)
    return next((other for other in same_place if ax.get_shared_x_axes().joined(ax, other) and _over(ax, other)), None)


def _over(ax: Any, other: Any) -> bool:
    return ax.get_subplotspec() == other.get_subplotspec() and bool(
        np.allclose(ax.get_position().bounds, other.get_position().bounds)
    )


def draw_atoms(ax: Any, density: Density, color: Any, label: str | None) -> None:
    """Draw the atoms as stems against a second vertical axis: a mass is not a density."""
    positions, heights, name = *_stems(density), _stem_name(density)
    twin = masses_axis(ax)
    if twin is None:
        twin = ax.twinx()
        twin.set_label(_MASSES)
        twin.set_ylabel(name)
    elif twin.get_ylabel() != name:
        twin.set_ylabel("number of eigenvalues (stems)")
    twin.vlines(positions, 0.0, heights, color=color, linewidth=1.2, alpha=0.8)
    twin.plot(positions, heights, "o", color=color, markersize=4.5, fillstyle="none", label=label or "_nolegend_")
    shown = np.concatenate([line.get_ydata() for line in twin.lines])
    lowest, highest = float(np.min(shown)), float(np.max(shown))
    if highest > 30 * lowest:
        twin.set_yscale("log")
        twin.set_ylim(lowest / 3, highest * 30)
    else:
        twin.set_ylim(0.0, 1.6 * highest)
        twin.yaxis.get_major_locator().set_params(integer=density.measure.probes != "given")


def _stems(density: Density) -> tuple[Floats, Floats]:
    counted = density.measure.probes != "given"
    return density.atoms.positions, density.atoms.masses * (density.measure.dimension if counted else 1)


def _stem_name(density: Density) -> str:
    if density.measure.probes == "given":
        return "mass (stems)"
    known = density.atoms.positions.size <= density.measure.known_atoms.positions.size
    return f"{'' if known else 'estimated '}number of eigenvalues, of {density.measure.dimension} (stems)"


def annotate(ax: Any, density: Density, color: Any, label: str) -> None:
    """Write the values of the outliers beside their stems, or over a mark on the axis where they were not deflated."""
    positions = _outlier_positions(density)
    twin = masses_axis(ax)
    ax.get_xlim()  # which brings the limits up to date
    across = ax.get_xaxis_transform()
    named = [text.xy[0] for text in ax.texts if hasattr(text, "xy")]
    room = len(named) + _LABELS
    for x, value in sorted(positions, key=lambda pair: -abs(pair[1])):
        pixels = [abs(np.diff(across.transform([(x, 0.0), (other, 0.0)])[:, 0])[0]) for other in named]
        if len(named) == room or any(distance < _APART * ax.bbox.width for distance in pixels):
            continue
        named.append(x)
        at = np.flatnonzero(density.atoms.positions == x)
        height = float(_stems(density)[1][at[0]]) if at.size else 0.0
        ax.annotate(
            f"{value:.4g}", (x, height if at.size else 0.0), xytext=(0, 7), textcoords="offset points",
            xycoords=twin.transData if at.size and twin is not None else across,
            rotation=90, ha="center", va="bottom", fontsize="small",
        )  # fmt: skip
    free = [x for x, _ in positions if not np.any(density.atoms.positions == x)]
    if free:
        ax.plot(free, np.zeros(len(free)), "^", color=color, markersize=5, transform=across,
                clip_on=False, label=label)  # fmt: skip


def _outlier_positions(density: Density) -> list[tuple[float, float]]:
    """Return pairs of place on the axis and eigenvalue."""
    from specdens._outliers import outliers

    places: dict[str, Callable[[Floats], Floats]] = {
        "λ": lambda x: x,
        "|λ|": np.abs,
        LOG_AXIS: lambda x: np.log(np.abs(x) + (density.epsilon or 0.0)),
    }
    if density.axis not in places:
        return []
    values = outliers(density).positions
    x = np.array(places[density.axis](values))
    for i, place in enumerate(x):  # an atom is where it is drawn, to the last bit
        near = np.isclose(density.atoms.positions, place, rtol=1e-9, atol=1e-9)
        if np.any(near):
            x[i] = density.atoms.positions[near][0]
    return list(zip(x.tolist(), values.tolist(), strict=True))


def add_legend(ax: Any) -> None:
    """Add one legend for the density and its point masses."""
    handles, labels = ax.get_legend_handles_labels()
    twin = masses_axis(ax)
    if twin is not None:
        more, names = twin.get_legend_handles_labels()
        handles, labels = handles + more, labels + names
    if handles:
        ax.legend(handles, labels, loc="best", fontsize="small")
