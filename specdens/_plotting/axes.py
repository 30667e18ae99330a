"""Scales, limits and ticks of pictures. Needs matplotlib, which is imported when a picture is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specdens._distributions.cdf import Floats

if TYPE_CHECKING:
    from specdens._density.density import Density

LOG_AXIS = "log(|λ| + ε)"
_ROOM = 0.03  # of the width of the picture, beyond the outermost point
_TICK_ROOM = 0.42  # inches from one power of ten to the next
_OURS = "_specdens_limits"  # the attribute of an Axes that holds the limits that were set here


class Curve(NamedTuple):
    """A density as it is drawn: heights and errors per unit of the horizontal axis of the picture."""

    x: Floats
    height: Floats
    error: Floats


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


# -- the horizontal axis ---------------------------------------------------------------------------------------------


def symlog_width(densities: Sequence[Density]) -> float:
    """Return the width of the linear part of a symmetric-log axis: where most of the mass is told apart from zero.

    It is at least the kernel's width at zero of every density: per unit of a finer axis a single bump of that width
    would have a hole at zero.
    """
    near, kernels = [], []
    for density in densities:
        mass = density.values * np.diff(density.edges)
        order = np.argsort(np.abs(density.grid), kind="stable")
        level = np.cumsum(mass[order])
        if level[-1] > 0:
            near.append(
                abs(float(density.grid[order[min(int(np.searchsorted(level, 0.25 * level[-1])), order.size - 1)]]))
            )
            kernels.append(0.0 if density.resolution is None else float(density.resolution[order[0]]))
    if near:
        return max(min(near), *kernels)
    positions = np.concatenate([np.abs(density.atoms.positions) for density in densities])
    return float(np.min(positions[positions > 0], initial=1.0))


def curve(density: Density, linear_width: float | None) -> Curve:
    """Return the curve of a density, per unit of its axis or of asinh(λ / linear_width): the mass stays the same."""
    if linear_width is None:
        return Curve(density.grid, density.values, density.stderr)
    stretch = np.diff(density.edges) / np.diff(np.arcsinh(density.edges / linear_width))
    return Curve(density.grid, density.values * stretch, density.stderr * stretch)


def error_band(values: Floats, stderr: Floats, *, log: bool) -> tuple[Floats, Floats]:
    """Return two standard errors below and above the values; for a logarithmic axis as far down as up on it."""
    upper = values + 2 * stderr
    if not log:
        return np.maximum(values - 2 * stderr, 0.0), upper
    return np.divide(np.maximum(values, 0.0) ** 2, upper, out=np.zeros_like(upper), where=upper > 0), upper


def scale_axes(ax: Any, densities: Sequence[Density], *, log_y: bool, linear_width: float | None = None) -> None:
    """Name the axes and set their scales and limits; limits that the caller has set stay."""
    axis = densities[0].axis
    unit = {LOG_AXIS: "log|λ|"}.get(axis, axis)
    if linear_width is not None:
        ax.set_xscale("asinh", linear_width=linear_width)
    ax.set_ylabel(f"density per unit {unit}" if linear_width is None else "density per unit of the axis (area = mass)")
    ax.set_xlabel("eigenvalue λ" if axis == "λ" else axis)
    if axis == LOG_AXIS:
        _ticks_of_powers(ax, densities)
    if axis == "|λ|":
        ax.set_xscale("log")
    if log_y or axis == "|λ|":
        _set_log_y(ax)
    _set_limits(ax, densities, linear_width)
    if linear_width is not None:
        _symlog_ticks(ax, linear_width)


def _set_log_y(ax: Any) -> None:
    """Make the vertical axis logarithmic; matplotlib warns where it scales it to a curve that is zero everywhere."""
    automatic = ax.get_autoscaley_on()
    if automatic:
        ax.set_ylim(0.1, 1.0)
    ax.set_yscale("log")
    ax.set_autoscaley_on(automatic)


# -- limits ----------------------------------------------------------------------------------------------------------


def _set_limits(ax: Any, densities: Sequence[Density], linear_width: float | None) -> None:
    """Fix the limits to all that was drawn here, so that whatever is added later does not change them."""
    before = getattr(ax, _OURS, None)
    x, y = _reach_across(ax, densities), _reach_up(ax, densities, linear_width)
    if before is not None:
        x = min(x[0], before[0][0]), max(x[1], before[0][1])
        y = min(y[0], before[1][0]), max(y[1], before[1][1])
    ours = [None, None] if before is None else list(before)
    if ax.get_autoscalex_on() or ours[0] == ax.get_xlim():
        ax.set_xlim(*x)
    if ax.get_autoscaley_on() or ours[1] == ax.get_ylim():
        ax.set_ylim(*y)
    setattr(ax, _OURS, (ax.get_xlim(), ax.get_ylim()))


def _reach_across(ax: Any, densities: Sequence[Density]) -> tuple[float, float]:
    """Return the horizontal limits: grids and atoms, with some room in the scale of the axis."""
    x = np.concatenate([part for d in densities for part in ([d.edges[0], d.edges[-1]], d.atoms.positions)])
    if ax.get_xscale() == "log":
        x = np.concatenate([[d.grid[d.grid > 0][0], d.edges[-1]] for d in densities if np.any(d.grid > 0)])
    scale = ax.xaxis.get_transform()
    lo, hi = (float(v) for v in scale.transform(np.array([np.min(x), np.max(x)])))
    room = _ROOM * (hi - lo)
    ends = scale.inverted().transform(np.array([lo - room, hi + room]))
    return float(ends[0]), float(ends[1])


def _reach_up(ax: Any, densities: Sequence[Density], linear_width: float | None) -> tuple[float, float]:
    curves = [curve(density, linear_width) for density in densities]
    top = max(float(np.max(each.height, initial=0.0)) for each in curves) or 1.0
    band = max(float(np.max(each.height + 2 * each.error, initial=0.0)) for each in curves)
    if ax.get_yscale() != "log":
        return 0.0, 1.05 * min(max(band, top), 2 * top)
    return min(_floor(density, linear_width) for density in densities), 2 * top


def _floor(density: Density, linear_width: float | None) -> float:
    """Return the least density to show on a logarithm: half the height of a single eigenvalue at the resolution."""
    shown = curve(density, linear_width).height
    peak = float(np.max(shown, initial=0.0)) or 1.0
    drawn = density.values > 0
    if density.resolution is None or density.measure.probes == "given" or not np.any(drawn):
        sure = shown[density.values > 2 * density.stderr]
        return float(np.clip(np.min(sure, initial=peak) / 2, 1e-9 * peak, 0.1 * peak))
    stretch = np.divide(shown, density.values, out=np.ones_like(shown), where=drawn)[drawn]
    single = stretch / (density.measure.dimension * np.sqrt(2 * np.pi) * density.resolution[drawn])
    return float(np.clip(np.min(single) / 2, 1e-12 * peak, 0.1 * peak))


# -- ticks -----------------------------------------------------------------------------------------------------------


def _symlog_ticks(ax: Any, linear_width: float) -> None:
    """Write zero and the powers of ten of either sign that lie beyond the linear part, as many as have room."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    first = int(np.ceil(np.log10(linear_width) + 0.3))
    reach = max(abs(end) for end in ax.get_xlim())
    powers = np.arange(first, max(first, int(np.floor(np.log10(reach)))) + 1)
    inches = ax.get_window_extent().width / ax.figure.dpi
    lo, hi = sorted(ax.get_xlim())
    scale = inches / (np.arcsinh(hi / linear_width) - np.arcsinh(lo / linear_width))
    kept = _spaced(powers, np.arcsinh(10.0**powers / linear_width) * scale)
    positions = np.concatenate([-(10.0 ** kept[::-1]), [0.0], 10.0**kept])
    names = {0.0: "0"} | {s * 10.0**k: f"${'-' * (s < 0)}10^{{{k}}}$" for k in kept.tolist() for s in (-1, 1)}
    if np.sum((positions >= lo) & (positions <= hi)) < 3:  # within a decade: 1, 2 and 5 times its powers
        decades = np.arange(int(np.floor(np.log10(linear_width))) - 1, int(np.ceil(np.log10(reach))) + 1)
        steps = np.outer(10.0**decades, [1.0, 2.0, 5.0]).ravel()
        steps = steps[steps >= linear_width / 2]
        positions, names = np.concatenate([-steps[::-1], [0.0], steps]), {}
    ax.xaxis.set_major_locator(FixedLocator(positions.tolist()))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: names.get(x, f"{x:g}")))
    ax.xaxis.set_minor_locator(NullLocator())


def _spaced(powers: NDArray[Any], inches: Floats) -> NDArray[Any]:
    """Return the powers whose labels, so far from zero, stand apart from it and from one another: the largest first."""
    kept: list[int] = []
    last = np.inf
    for k in reversed(range(powers.size)):
        if min(inches[k], last - inches[k]) >= _TICK_ROOM or (not kept and k == 0):
            kept, last = [k, *kept], float(inches[k])
    return powers[kept]


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


def resolution_entry(ax: Any, densities: Sequence[Density]) -> tuple[Any, str] | None:
    """Return handle and words that name the coarsest resolution in a legend; None where nothing is smoothed."""
    from matplotlib.lines import Line2D

    widths = [width for width in (typical_resolution(density) for density in densities) if width is not None]
    if not widths:
        return None
    mark = Line2D([], [], linestyle="", marker=r"$\vdash\!\dashv$", markersize=13, color=ax.xaxis.label.get_color())
    return mark, f"resolution ± {max(widths):.2g}"


def typical_resolution(density: Density) -> float | None:
    """Return the median over the drawn mass of the kernel width, or None where nothing is smoothed."""
    mass = np.maximum(density.values, 0.0) * np.diff(density.edges)
    if density.resolution is None or not np.sum(mass) > 0:
        return None
    order = np.argsort(density.resolution, kind="stable")
    level = np.cumsum(mass[order])
    return float(density.resolution[order[min(int(np.searchsorted(level, level[-1] / 2)), order.size - 1)]])
