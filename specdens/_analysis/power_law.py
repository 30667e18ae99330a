"""Power laws: a straight line through the spectrum in logarithmic bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtrit

from specdens._analysis.log_bins import LogBins, Part, log_bins
from specdens._analysis.outliers import measure_of
from specdens._density.density import Density
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._measure.base import Measure
from specdens._validate import as_choice

Per = Literal["log", "lambda"]

_MIN_BINS = 5
_STRAIGHT = 0.2  # how far a bin may lie off the line, as a share of the density,
_SIGMAS = 3.0  # or in standard errors
_BENT = 1.0  # standard errors of curvature that a line may hide: the widest range is chosen, and hides what it can
_NEWTON_STEPS, _CONVERGED = 100, 1e-10
_CONVENTIONS: dict[str, Per] = {"log(|λ| + ε)": "log", "|λ|": "lambda", "λ": "lambda"}


@dataclass(frozen=True, repr=False)
class PowerLaw:
    """A power law, density ≈ amplitude · |λ|^exponent, with the range it was fitted on.

    Attributes
    ----------
    exponent : float
        The slope on doubly logarithmic axes, in the convention that `per` names.
    stderr : float
        Its standard error: the probes, the number of eigenvalues per bin, and the scatter around the line.
    r_squared : float
        The share of the (weighted) variance of the log density that the line explains; small where it is flat.
    range : Interval
        The |λ| between which it was fitted.
    amplitude : float
        The density at |λ| = 1, as a share of all eigenvalues.
    per : {"lambda", "log"}
        "lambda": the density is per unit |λ|; "log": per unit log|λ|. Exponents differ by exactly 1.
    part : {"both", "positive", "negative"}
        Which eigenvalues were counted; "both" counts them by magnitude.
    num_bins : int
        How many bins the line was fitted to.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> tail = (np.arange(1, 5001) / 5000) ** -1.0  # density ∝ λ⁻²
    >>> law = sd.analysis.fit_power_law(sd.fast_lanczos(np.diag(tail), num_steps=200, num_probes=4), range=(2, 200))
    >>> bool(abs(law.exponent + 2) < 3 * law.stderr)
    True
    """

    exponent: float
    stderr: float
    r_squared: float
    range: Interval
    amplitude: float
    per: Per
    part: Part
    num_bins: int

    def density(self, x: ArrayLike) -> Floats:
        """Return the fitted density at |λ| = x, in the convention `per`.

        Parameters
        ----------
        x : array_like
            Magnitudes of eigenvalues.

        Returns
        -------
        ndarray
            The density, of the shape of x.
        """
        return np.asarray(self.amplitude * np.abs(np.asarray(x, dtype=np.float64)) ** self.exponent)

    def __repr__(self) -> str:
        unit = "|λ|" if self.per == "lambda" else "log|λ|"
        return (
            f"PowerLaw(density per unit {unit} ∝ |λ|^({self.exponent:.3f} ± {self.stderr:.2g}), "
            f"R² = {self.r_squared:.4f}, |λ| in [{self.range.lo:.3g}, {self.range.hi:.3g}], {self.part} part, "
            f"{self.num_bins} bins)"
        )


def fit_power_law(
    measure: Measure | Density,
    *,
    range: tuple[float, float] | None = None,
    per: Per | None = None,
    part: Part = "both",
    tail: bool = False,
) -> PowerLaw:
    """Fit a power law to the density of the eigenvalues.

    The best estimate of the distribution is cut into bins of log|λ|, each with at least 5 eigenvalues and 2 nodes per
    probe, so that nothing between the nodes is taken for data. A power law is fitted to their numbers by the largest
    quasi-likelihood, with the variances of the probes and of the number of eigenvalues in a bin (as if independent).

    Parameters
    ----------
    measure : Measure or Density
        What to read: a measure, or a density, whose measure is used.
    range : (float, float), optional
        The |λ| between which to fit. By default the widest range, in log|λ|, in which no bin deviates from the line by
        more than 20 % or 3 standard errors, the whole is not bent by more than 5 % or 1 standard error, and which
        spans at least half a decade.
    per : {"lambda", "log"}, optional
        "lambda" for the density per unit |λ|, "log" for that per unit log|λ|: exponents differ by exactly 1. By
        default as the density is drawn, "lambda" for a measure.
    part : {"both", "positive", "negative"}, default "both"
        "positive" or "negative" eigenvalues, or "both" by magnitude.
    tail : bool, default False
        Whether the range must end at the largest |λ|: the power law of a heavy tail, where there is one.

    Returns
    -------
    PowerLaw
        The fitted law with its standard error and range.

    Raises
    ------
    ValueError
        If fewer than 5 bins are resolved, or no range of half a decade is straight and none is given, or `tail` comes
        with a `range`.

    Notes
    -----
    The standard error holds for the range. A spectrum that bends into its power law slowly has another exponent on
    another range: for the tail alone, give one, or ``tail=True``.

    Examples
    --------
    Eigenvalues 1/u with u uniform have a density λ⁻² per unit λ, λ⁻¹ per unit log λ:

    >>> import numpy as np, specdens as sd
    >>> measure = sd.fast_lanczos(np.diag(1000 / np.arange(1.0, 1001)), num_steps=200)
    >>> fit = sd.analysis.fit_power_law(measure)
    >>> bool(abs(fit.exponent + 2) < 3 * fit.stderr < 0.5)
    True
    >>> round(sd.analysis.fit_power_law(measure, per="log").exponent - fit.exponent, 12)
    1.0
    """
    as_choice("part", part, ("both", "positive", "negative"))
    if tail and range is not None:
        raise ValueError(f"`tail` must come without a `range`, which it chooses; got {tuple(range)}")
    chosen = _convention(measure, per)
    measure = measure_of(measure)
    bins = log_bins(measure, part, range)
    if bins.counts.size < _MIN_BINS:
        raise ValueError(
            f"`measure` must resolve at least {_MIN_BINS} bins of log|λ| to fit a line; got {bins.counts.size} for "
            f"the {part} part{'' if range is None else f' on {tuple(range)}'}. More steps or a wider range give more."
        )
    first, last = (0, bins.counts.size) if range is not None else _straight_window(bins, tail=tail)
    used = LogBins(*(column[first:last] for column in bins))
    line = _line(used)
    return PowerLaw(
        exponent=line.slope - (1.0 if chosen == "lambda" else 0.0),
        stderr=line.stderr,
        r_squared=line.r_squared(chosen),
        range=Interval(float(used.edges[0, 0]), float(used.edges[-1, 1])),
        amplitude=float(np.exp(line.intercept)) / measure.dimension,
        per=chosen,
        part=part,
        num_bins=used.counts.size,
    )


def _convention(measure: Measure | Density, per: Per | None) -> Per:
    if isinstance(measure, Density) and measure.axis not in _CONVENTIONS:
        raise ValueError(
            f"`measure` must be a density of λ, |λ| or log|λ|; got one of {measure.axis}. Pass density.measure."
        )
    if per is None:
        return _CONVENTIONS[measure.axis] if isinstance(measure, Density) else "lambda"
    as_choice("per", per, ("log", "lambda"))
    return per


class _Line(NamedTuple):
    """A line through the log density per unit log|λ|, fitted to the numbers of eigenvalues in bins."""

    slope: float
    intercept: float
    information: float
    """The inverse of the variance of the slope, if the counts scatter as they should."""
    x: Floats
    residuals: Floats
    """Data minus line, in units of log density."""
    weights: Floats
    """Inverse variances of the residuals."""
    scatter: float
    """Pearson's χ²: the squares of counts minus line, divided by their variances."""

    def r_squared(self, per: Per) -> float:
        """Return the share of the variance that the line explains; per unit |λ| it is steeper by one."""
        y = self.residuals + (self.slope - (1.0 if per == "lambda" else 0.0)) * self.x
        total, left = (
            float(np.sum(self.weights * (part - np.average(part, weights=self.weights)) ** 2))
            for part in (y, self.residuals)
        )
        return 1.0 - left / total if total > 0 else 1.0

    @property
    def stderr(self) -> float:
        """The standard error of the slope, scaled up if the scatter is larger than the weights say.

        A scatter of few bins is itself uncertain: as many standard errors then cover as Student's distribution says.
        """
        freedom = max(self.x.size - 2, 1)
        student = float(stdtrit(freedom, ndtr(2.0))) / 2
        return max(1.0, student * float(np.sqrt(self.scatter / freedom))) / float(np.sqrt(self.information))


def _line(bins: LogBins) -> _Line:
    """Return the line of the largest quasi-likelihood: counts like Poisson's, with the dispersion that probes add.

    Unlike least squares on logarithms it has no bias from the noise of small counts, and Newton's method on it cannot
    run away: the likelihood is nearly concave, and steps that reduce it are halved.
    """
    x, h, counts = np.log(bins.centers), bins.widths, bins.counts
    shares = counts / (counts + bins.stderr**2)  # how much a count weighs beside one without sampling error
    center = float(np.average(x, weights=shares * counts))
    parameters = np.array([np.log(np.sum(shares * counts) / np.sum(shares * h)), 0.0])

    def model(parameters: Floats) -> tuple[Floats, float]:
        expected = h * np.exp(parameters[0] + parameters[1] * (x - center) + _bin_mean(parameters[1], h)[0])
        return expected, float(np.sum(shares * (counts * np.log(expected) - expected)))

    expected, likelihood = model(parameters)
    for _ in range(_NEWTON_STEPS):
        slopes = np.vstack([np.ones(x.size), x - center + _bin_mean(parameters[1], h)[1]])
        information = (slopes * (shares * expected)) @ slopes.T
        step = np.linalg.solve(information, slopes @ (shares * (counts - expected)))
        step *= min(1.0, 1.0 / float(np.max(np.abs(slopes.T @ step))))  # no count changes by more than a factor e
        while np.any(np.abs(step) > _CONVERGED) and not model(parameters + step)[1] > likelihood:
            step = step / 2
        parameters = parameters + step
        expected, likelihood = model(parameters)
        if np.all(np.abs(step) <= _CONVERGED):
            break
    slope = float(parameters[1])
    determinant = information[0, 0] * information[1, 1] - information[0, 1] ** 2
    return _Line(
        slope=slope,
        intercept=float(parameters[0]) - slope * center,
        information=float(determinant / information[0, 0]),
        x=x,
        residuals=np.log(counts / expected),
        weights=shares * expected,
        scatter=float(np.sum(shares * (counts - expected) ** 2 / expected)),
    )


def _bin_mean(slope: float, widths: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of a bin's mean of |λ|^slope over the value at its center, and its derivative by slope."""
    half = np.maximum(np.abs(slope * widths / 2), 1e-4)
    mean = half + np.log1p(-np.exp(-2 * half)) - np.log(2 * half)
    return mean, np.sign(slope) * widths / 2 * (1 / np.tanh(half) - 1 / half)


def _straight_window(bins: LogBins, *, tail: bool) -> tuple[int, int]:
    """Return the widest run of bins that lie on a line; of the runs that end at the last bin for a tail."""
    size, best, widest = bins.counts.size, None, 0.5 * np.log(10)
    ends = np.log(bins.edges)
    for first in np.arange(size - _MIN_BINS + 1):
        for last in np.arange(size, size - 1 if tail else first + _MIN_BINS - 1, -1):
            width = ends[last - 1, 1] - ends[first, 0]
            if width <= widest:
                break
            if _is_straight(LogBins(*(column[first:last] for column in bins))):
                best, widest = (int(first), int(last)), width
                break
    if best is None:
        raise ValueError(
            f"no range of half a decade {'at the end ' if tail else ''}follows a power law: everywhere some bin lies "
            "more than 20 % and 3 standard errors off the line. Give a `range` to fit one nevertheless."
        )
    return best


def _is_straight(bins: LogBins) -> bool:
    """Return whether no bin lies off the line, and the whole is not bent."""
    line = _line(bins)
    # of a bin that should hold half an eigenvalue and holds five the logarithm says 2 standard errors, the deviance 4
    deviance = 2 * line.weights * ((line.residuals - 1) * np.exp(line.residuals) + 1)
    if np.any((np.abs(line.residuals) > _STRAIGHT) & (deviance > _SIGMAS**2)):
        return False
    # the parabola that is orthogonal to all lines, and how much of it the residuals hold
    basis = np.vander(line.x - np.mean(line.x), 2)
    root = np.sqrt(line.weights)
    z = (line.x - np.mean(line.x)) ** 2
    z = z - basis @ np.linalg.lstsq(basis * root[:, None], z * root, rcond=None)[0]
    norm = float(np.sum(line.weights * z**2))
    bend = float(np.sum(line.weights * z * line.residuals)) / norm
    return abs(bend) * np.sqrt(norm) <= _BENT or float(np.max(np.abs(bend * z))) <= _STRAIGHT / 4
