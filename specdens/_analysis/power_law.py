"""Power laws: the spectrum in logarithmic bins that the run resolves, and a straight line through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from specdens._analysis.outliers import measure_of
from specdens._density.density import Density
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._measure.base import Measure
from specdens._validate import as_choice

Part = Literal["both", "positive", "negative"]
Per = Literal["log", "lambda"]

_FINE = 20  # the finest bins per decade
_MIN_COUNT = 5.0  # eigenvalues that a bin must hold, or the logarithm of their number means little
_MIN_NODES = 2.0  # nodes per probe that a bin must hold: what lies between nodes is interpolation
_MIN_BINS = 5
_STRAIGHT = 0.2  # how far a bin may lie off the line, as a share of the density,
_SIGMAS = 3.0  # or in standard errors
_BENT = 1.0  # standard errors of curvature that a line may hide: the widest range is chosen, and hides what it can
_CONVENTIONS: dict[str, Per] = {"log(|λ| + ε)": "log", "|λ|": "lambda", "λ": "lambda"}


class LogBins(NamedTuple):
    """The spectrum in bins of log|λ|, from small to large: numbers of eigenvalues and their standard errors."""

    edges: Floats
    """Pairs (lo, hi) of |λ|, one row per bin."""
    counts: Floats
    stderr: Floats

    @property
    def centers(self) -> Floats:
        """The geometric means of the edges."""
        return np.asarray(np.exp(np.mean(np.log(self.edges), axis=1)))

    @property
    def widths(self) -> Floats:
        """The widths in log|λ|."""
        return np.asarray(np.log(self.edges[:, 1] / self.edges[:, 0]))


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
    probe, so that nothing between the nodes is taken for data; a line is fitted to their logarithms by least squares.
    Weights are inverse variances, of the probes and of the number of eigenvalues in a bin (as if independent).

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


def log_bins(measure: Measure, part: Part, limits: tuple[float, float] | None = None) -> LogBins:
    """Return the finest bins of log|λ|, up to 20 per decade, that hold 5 eigenvalues and 2 nodes per probe each."""
    nodes = _magnitudes(measure, part)
    lo, hi = (nodes[0], nodes[-1]) if limits is None and nodes.size else _limits(limits)
    num_fine = max(int(np.ceil(_FINE * np.log10(hi / lo))), 1) if hi > lo else 0
    fine = np.geomspace(lo, hi, num_fine + 1) if num_fine else np.array([lo])
    fine[0], fine[-1] = lo, hi
    share = _share_below(measure, fine, part)
    num_nodes = np.searchsorted(nodes, fine) / max(measure.num_probes, 1)
    counts = measure.dimension * share
    cuts = [fine.size - 1]
    for i in np.arange(fine.size - 2, -1, -1):
        enough = num_nodes[cuts[-1]] - num_nodes[i] >= _MIN_NODES
        if enough and counts[cuts[-1]] - counts[i] >= _MIN_COUNT:
            cuts.append(int(i))
    cuts.reverse()
    edges = np.column_stack([fine[cuts[:-1]], fine[cuts[1:]]])
    ends = [_ends(measure, a, b, part) for a, b in edges]
    stderr = [float(np.linalg.norm([measure.count(*pair).stderr for pair in pairs])) for pairs in ends]
    return LogBins(edges, np.diff(counts[cuts]), np.array(stderr))


def _limits(limits: tuple[float, float] | None) -> tuple[float, float]:
    lo, hi = (1.0, 1.0) if limits is None else (float(end) for end in limits)
    if limits is not None and not 0 < lo < hi < np.inf:
        raise ValueError(f"`range` must be two magnitudes 0 < lo < hi; got ({lo:g}, {hi:g})")
    return lo, hi


def _magnitudes(measure: Measure, part: Part) -> Floats:
    """Return the magnitudes of all nodes and known atoms that are not zero to rounding, increasing."""
    x = np.concatenate([measure.known_atoms.positions, *(rule.nodes for rule in measure.rules)])
    zero = 1e3 * measure.eps * float(np.max(np.abs(x), initial=0.0))
    x = x[np.abs(x) > zero]
    if part != "both":
        x = x[x > 0] if part == "positive" else x[x < 0]
    return np.sort(np.abs(x))


def _ends(measure: Measure, a: float, b: float, part: Part) -> list[tuple[float, float]]:
    positive, negative = (float(a), float(b)), (-float(b), -float(a))
    return {"positive": [positive], "negative": [negative], "both": [positive, negative]}[part]


def _share_below(measure: Measure, x: Floats, part: Part) -> Floats:
    """Return the share of all eigenvalues with magnitude at most x, up to a constant."""
    above, below = measure.cdf(x), -measure.cdf(-x)
    return {"positive": above, "negative": below, "both": above + below}[part]


class _Line(NamedTuple):
    """A weighted least-squares line through the log density per unit log|λ|."""

    slope: float
    intercept: float
    moment: float
    """Σ w (x − x̄)², the inverse of the variance of the slope."""
    x: Floats
    residuals: Floats
    """Data minus line, in units of log density."""
    weights: Floats

    def r_squared(self, per: Per) -> float:
        """Return the share of the variance that the line explains; per unit |λ| it is steeper by one."""
        y = self.residuals + (self.slope - (1.0 if per == "lambda" else 0.0)) * self.x
        total = float(np.sum(self.weights * (y - np.average(y, weights=self.weights)) ** 2))
        return 1.0 - self.squares / total if total > 0 else 1.0

    @property
    def squares(self) -> float:
        """The weighted sum of squared residuals."""
        return float(np.sum(self.weights * self.residuals**2))

    @property
    def stderr(self) -> float:
        """The standard error of the slope, scaled up if the scatter is larger than the weights say."""
        return float(np.sqrt(max(1.0, self.squares / max(self.x.size - 2, 1)) / self.moment))


def _line(bins: LogBins) -> _Line:
    x = np.log(bins.centers)
    slope, model = 0.0, bins.counts
    for _ in range(4):
        # a bin's mean of |λ|^s is not its value at the center, and weights must not follow the noise: use the line
        half = np.maximum(np.abs(slope * bins.widths / 2), 1e-9)
        bend = np.log(np.sinh(half) / half)
        sampling = bins.stderr**2 / (bins.counts * model)
        y = np.log(bins.counts / bins.widths) - bend + sampling / 2  # the mean of a logarithm is below that of the mean
        weights = 1.0 / (sampling + 1.0 / model)
        center, height = np.average(x, weights=weights), np.average(y, weights=weights)
        moment = float(np.sum(weights * (x - center) ** 2))
        slope = float(np.sum(weights * (x - center) * y)) / moment
        model = np.exp(height + slope * (x - center) + bend) * bins.widths
    residuals = y - height - slope * (x - center)
    return _Line(slope, float(height - slope * center), moment, x, residuals, weights)


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
    if np.any(np.abs(line.residuals) > np.maximum(_STRAIGHT, _SIGMAS / np.sqrt(line.weights))):
        return False
    # the parabola that is orthogonal to all lines, and how much of it the residuals hold
    basis = np.vander(line.x - np.mean(line.x), 2)
    root = np.sqrt(line.weights)
    z = (line.x - np.mean(line.x)) ** 2
    z = z - basis @ np.linalg.lstsq(basis * root[:, None], z * root, rcond=None)[0]
    norm = float(np.sum(line.weights * z**2))
    bend = float(np.sum(line.weights * z * line.residuals)) / norm
    return abs(bend) * np.sqrt(norm) <= _BENT or float(np.max(np.abs(bend * z))) <= _STRAIGHT / 4
