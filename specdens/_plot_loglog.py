"""The spectrum on a logarithmic axis: positive and negative part, and a power law through each."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from specdens._density import Density
from specdens._errors import as_choice
from specdens._outliers import readings_of
from specdens._plot import new_axes
from specdens._power_law import LogBins, Part, Per, PowerLaw, fit_power_law, log_bins
from specdens._readings import Readings

# red and blue as in the paper, in shades that keep their contrast on white and on black
COLORS: dict[Part, str] = {"positive": "#e0484d", "negative": "#2a8fd0"}
MARKS: dict[Part, str] = {"positive": "o", "negative": "s"}


def plot_loglog(
    measure: Readings | Density,
    ax: Any = None,
    *,
    fit: Literal["positive", "negative", "each", "none"] = "each",
    range: tuple[float, float] | None = None,
    per: Per = "lambda",
    band: bool = True,
) -> Any:
    """Draw the density against |λ| on doubly logarithmic axes, with fitted power laws; return the Axes.

    The positive part of the spectrum is red, the negative part blue. Points are the bins of `analysis.fit_power_law`,
    with two standard errors; lines are solid on the range they were fitted on and dotted beyond it.

    Parameters
    ----------
    measure
        What to draw: a measure, or a density, whose measure is used.
    ax
        The Axes to draw in; by default those of a new figure.
    fit
        Which part to fit a power law to. A part that follows none over half a decade is drawn without a line.
    range
        The |λ| between which to fit; by default the widest straight range.
    per
        "lambda" for the density per unit |λ|, "log" for that per unit log|λ|: exponents differ by exactly 1.
    band
        Whether to draw two standard errors.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> u = np.arange(1.0, 1001) / 1000
    >>> ax = sd.plot_loglog(sd.fast_lanczos(np.diag(np.concatenate([1 / u, -0.1 / u]))))
    >>> ax.get_xscale(), ax.get_yscale()
    ('log', 'log')
    """
    as_choice("fit", fit, ("positive", "negative", "each", "none"))
    as_choice("per", per, ("log", "lambda"))
    readings = readings_of(measure)
    parts: tuple[Part, ...] = ("positive", "negative")
    bins: dict[Part, LogBins] = {part: log_bins(readings, part) for part in parts}
    if not any(each.counts.size for each in bins.values()):
        raise ValueError(
            "`measure` must resolve eigenvalues of different magnitudes for a logarithmic axis; got too few nodes"
        )
    ax = new_axes() if ax is None else ax
    for part in parts:
        if bins[part].counts.size:
            _draw_part(ax, bins[part], part, per, readings.dimension, band=band)
        if fit in ("each", part):
            _draw_fit(ax, readings, bins[part], part, per, range)
    ax.set(
        xscale="log", yscale="log", xlabel="|λ|", ylabel=f"density per unit {'|λ|' if per == 'lambda' else 'log|λ|'}"
    )
    ax.legend(loc="best", fontsize="small")
    return ax


def _draw_part(ax: Any, bins: LogBins, part: Part, per: Per, dimension: int, *, band: bool) -> None:
    widths = np.diff(bins.edges, axis=1)[:, 0] if per == "lambda" else bins.widths
    height, error = bins.counts / widths / dimension, 2 * bins.stderr / widths / dimension
    lower = np.minimum(error, 0.9 * height)  # a bar that reached zero would reach down for ever
    sign = "λ > 0" if part == "positive" else "λ < 0"
    ax.errorbar(
        bins.centres, height, yerr=[lower, error] if band else None, fmt=MARKS[part], color=COLORS[part],
        markersize=4, linewidth=0.9, alpha=0.85, label=f"{sign}{', ± 2 standard errors' if band else ''}",
    )  # fmt: skip


def _draw_fit(
    ax: Any, readings: Readings, bins: LogBins, part: Part, per: Per, limits: tuple[float, float] | None
) -> PowerLaw | None:
    """Draw a fitted line and write what it is; return it, or None where the part follows no power law."""
    try:
        law = fit_power_law(readings, range=limits, per=per, part=part)
    except ValueError:
        if limits is not None:
            raise
        return None
    words = (
        f"∝ |λ|^({law.exponent:.2f} ± {law.stderr:.2g}), R² = {law.r_squared:.3f}, "
        f"fitted on [{law.range.lo:.2g}, {law.range.hi:.2g}]"
    )
    x = np.array(law.range)
    ax.plot(x, law.density(x), "-", color=COLORS[part], linewidth=2.0, label=words)
    everywhere = np.array([bins.edges[0, 0], bins.edges[-1, 1]]) if bins.counts.size else x
    ax.plot(everywhere, law.density(everywhere), ":", color=COLORS[part], linewidth=1.2)
    for end in x:
        ax.plot([end], law.density(end), "|", color=COLORS[part], markersize=12, markeredgewidth=2.0)
    return law
