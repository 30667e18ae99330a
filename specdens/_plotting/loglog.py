"""The spectrum on a logarithmic axis: positive and negative part, and a power law through each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from specdens._analysis.log_bins import LogBins, Part, log_bins
from specdens._analysis.outliers import measure_of
from specdens._analysis.power_law import Per, PowerLaw, fit_power_law
from specdens._density.density import Density
from specdens._measure.base import Measure
from specdens._plotting.axes import new_axes
from specdens._validate import as_choice

# red and blue as in the paper, in shades that keep their contrast on white and on black
COLORS: dict[Part, str] = {"positive": "#e0484d", "negative": "#2a8fd0"}
_CLEAR = 0.95  # R² of a line that nobody asked for
MARKS: dict[Part, str] = {"positive": "o", "negative": "s"}


def plot_loglog(
    measure: Measure | Density,
    ax: Any = None,
    *,
    fit: Literal["auto", "positive", "negative", "each", "none"] | PowerLaw | Iterable[PowerLaw] = "auto",
    range: tuple[float, float] | None = None,
    per: Per = "lambda",
    band: bool = True,
) -> Any:
    """Draw the density against |λ| on doubly logarithmic axes, with power laws where there are any.

    The positive part of the spectrum is red, the negative part blue. Points are the bins of `analysis.fit_power_law`,
    with two standard errors; lines are solid on the range they were fitted on and dotted beyond it.

    Parameters
    ----------
    measure : Measure or Density
        What to draw: a measure, or a density, whose measure is used.
    ax : matplotlib.axes.Axes, optional
        The Axes to draw in; by default those of a new figure.
    fit : {"auto", "each", "positive", "negative", "none"}, PowerLaw or iterable of PowerLaw, default "auto"
        Which part to fit a power law to, or fits from `analysis.fit_power_law` to draw. "auto" fits each part and draws
        the line only where it spans a decade of |λ| with R² of 0.95 or more; "each", "positive" and "negative" ask for
        a line wherever a part is straight over half a decade.
    range : (float, float), optional
        The |λ| between which to fit; by default the widest straight range. With a range, "auto" is "each".
    per : {"lambda", "log"}, default "lambda"
        "lambda" for the density per unit |λ|, "log" for that per unit log|λ|: exponents differ by exactly 1.
    band : bool, default True
        Whether to draw two standard errors.

    Returns
    -------
    matplotlib.axes.Axes
        The Axes.

    Raises
    ------
    ValueError
        If the measure resolves no eigenvalues of different magnitude, or a given fit has another `per`.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> u = np.arange(1.0, 1001) / 1000
    >>> measure = sd.fast_lanczos(np.diag(np.concatenate([1 / u, -0.1 / u])))
    >>> ax = sd.plot_loglog(measure)
    >>> ax.get_xscale(), ax.get_yscale()
    ('log', 'log')
    >>> law = sd.analysis.fit_power_law(measure, part="positive")
    >>> ax = sd.plot_loglog(measure, fit=law)
    """
    as_choice("per", per, ("log", "lambda"))
    given = _given_fits(fit, per)
    measure = measure_of(measure)
    parts: tuple[Part, ...] = ("positive", "negative")
    bins: dict[Part, LogBins] = {part: log_bins(measure, part) for part in parts}
    if not any(each.counts.size for each in bins.values()):
        raise ValueError(
            "`measure` must resolve eigenvalues of different magnitudes for a logarithmic axis; got too few nodes"
        )
    laws = given
    if laws is None:
        found = (_fit(measure, part, per, range) for part in parts if fit in ("auto", "each", part))
        laws = [law for law in found if law and (fit != "auto" or range is not None or _is_clear(law))]
    ax = new_axes() if ax is None else ax
    for part in parts:
        if bins[part].counts.size:
            _draw_part(ax, bins[part], part, per, measure.dimension, band=band)
    for law in laws:
        _draw_law(ax, law, bins[law.part if law.part != "both" else "positive"])
    ax.set(
        xscale="log", yscale="log", xlabel="|λ|", ylabel=f"density per unit {'|λ|' if per == 'lambda' else 'log|λ|'}"
    )
    ax.legend(loc="best", fontsize="small")
    return ax


def _given_fits(fit: Any, per: Per) -> list[PowerLaw] | None:
    """Return the power laws that were passed as `fit`, or None where it names what to fit."""
    if isinstance(fit, str):
        as_choice("fit", fit, ("auto", "positive", "negative", "each", "none"))
        return None
    laws = [fit] if isinstance(fit, PowerLaw) else list(fit)
    if any(not isinstance(law, PowerLaw) or law.per != per for law in laws):
        raise ValueError(f"`fit` must be power laws with per={per!r}, as the picture; got {laws!r}")
    return laws


def _draw_part(ax: Any, bins: LogBins, part: Part, per: Per, dimension: int, *, band: bool) -> None:
    widths = np.diff(bins.edges, axis=1)[:, 0] if per == "lambda" else bins.widths
    height, error = bins.counts / widths / dimension, 2 * bins.stderr / widths / dimension
    lower = np.minimum(error, 0.9 * height)  # a bar that reached zero would reach down for ever
    sign = "λ > 0" if part == "positive" else "λ < 0"
    ax.errorbar(
        bins.centers, height, yerr=[lower, error] if band else None, fmt=MARKS[part], color=COLORS[part],
        markersize=4, linewidth=0.9, alpha=0.85, label=f"{sign}{', ± 2 standard errors' if band else ''}",
    )  # fmt: skip


def _fit(measure: Measure, part: Part, per: Per, limits: tuple[float, float] | None) -> PowerLaw | None:
    """Return the power law of one part, or None where it follows none."""
    try:
        return fit_power_law(measure, range=limits, per=per, part=part)
    except ValueError:
        if limits is not None:
            raise
        return None


def _is_clear(law: PowerLaw) -> bool:
    """Return whether a law may be drawn unasked."""
    return law.r_squared >= _CLEAR and law.range.hi >= 10 * law.range.lo


def _draw_law(ax: Any, law: PowerLaw, bins: LogBins) -> None:
    """Draw the line of a power law and write what it is."""
    color = COLORS.get(law.part, "#606060")
    words = (
        f"∝ |λ|^({law.exponent:.2f} ± {law.stderr:.2g}), R² = {law.r_squared:.3f}, "
        f"fitted on [{law.range.lo:.2g}, {law.range.hi:.2g}]"
    )
    x = np.array(law.range)
    ax.plot(x, law.density(x), "-", color=color, linewidth=2.0, label=words)
    everywhere = np.array([bins.edges[0, 0], bins.edges[-1, 1]]) if bins.counts.size else x
    ax.plot(everywhere, law.density(everywhere), ":", color=color, linewidth=1.2)
    for end in x:
        ax.plot([end], law.density(end), "|", color=color, markersize=12, markeredgewidth=2.0)
