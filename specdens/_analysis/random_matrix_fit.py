"""Does a spectrum follow random-matrix theory? The laws of Wigner and of Marchenko and Pastur, fitted and tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from specdens._analysis.distance import distribution_of
from specdens._analysis.moment_test import LEVEL, MomentTest, moment_test
from specdens._analysis.outliers import measure_of, outliers
from specdens._analysis.random_matrix_laws import Law, MarchenkoPastur, Semicircle
from specdens._density.density import Density
from specdens._distributions.cdf import Cdf, Floats, wasserstein
from specdens._distributions.interval import Interval
from specdens._measure.base import Measure
from specdens._plotting.law import plot_law
from specdens._validate import as_positive

_TRIALS = 400
_QUANTILE = 0.99
_STRONG = 0.5  # power from which on a law that is not rejected means something


LawType = TypeVar("LawType", bound=Law, covariant=True)


@dataclass(frozen=True, repr=False)
class LawFit(Generic[LawType]):
    """How well a spectrum follows a law, as W1 distances divided by the width of the law.

    Attributes
    ----------
    law : Semicircle or MarchenkoPastur
        The law with the parameters that were fitted.
    distance : float
        The distance between the spectrum and the law.
    sampling : float
        The distance that random probes cause on average if the spectrum follows the law exactly.
    quadrature : float
        The distance that the finite number of steps may cause.
    limit : float
        The largest distance that both explain: the 99 % quantile of sampling, and quadrature.
    bulk : Interval
        The part of the axis that was compared.
    num_outliers : int
        How many positions outside it were left out.
    p_value : float
        The probability of moments as far from the law's if the spectrum follows it: a χ² test of the first ten moments.
    power : float
        The probability that this test finds out a flat spectrum, with this dimension and these probes.
    measure : Measure
        What was compared.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> Z = np.random.default_rng(0).standard_normal((600, 600))
    >>> fit = sd.analysis.fit_semicircle(sd.fast_lanczos((Z + Z.T) / np.sqrt(1200), num_probes=4))
    >>> fit.follows, bool(abs(fit.law.radius - 2) < 0.1)
    (True, True)
    """

    law: LawType
    distance: float
    sampling: float
    quadrature: float
    limit: float
    bulk: Interval
    num_outliers: int
    p_value: float
    power: float
    measure: Measure = field(compare=False)

    @property
    def follows(self) -> bool:
        """Whether the p-value is above 1 % and the distance within what sampling and quadrature explain."""
        return self.p_value > LEVEL and self.distance <= self.limit

    def plot(self, ax: Any = None, *, x: Literal["linear", "symlog"] = "linear", log_y: bool = False) -> Any:
        """Draw the density of the measure, and the law over it.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The Axes to draw in; by default those of a new figure.
        x : {"linear", "symlog"}, default "linear"
            The scale of the eigenvalues, as for `Density.plot`.
        log_y : bool, default False
            Whether the density is on a logarithmic axis.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes.
        """
        law: Law = self.law
        support = law.bulk if isinstance(law, MarchenkoPastur) else law.support
        share = self.measure.weight(*self.bulk).value
        return plot_law(
            self.measure.density(), law.density, support, ax, label=str(law), share=share, x=x, log_y=log_y
        )  # fmt: skip

    def __repr__(self) -> str:
        near, likely = self.distance <= self.limit, self.p_value > LEVEL
        reasons = [text for text, good in (("it is too far away", near), ("its moments differ", likely)) if not good]
        verdict = "follows" if self.follows else "does not follow"
        without = f", without {self.num_outliers} outlier{'s'[: self.num_outliers != 1]}" if self.num_outliers else ""
        return (
            f"{verdict} {self.law}{without}{': ' if reasons else ''}{' and '.join(reasons)}\n"
            f"  distance      {self.distance:.2g} of the law's width (W1); errors of the run account for up to "
            f"{self.limit:.2g}\n"
            f"  moments       p = {self.p_value:.2g} for moments this far from the law's; below {LEVEL:g} they differ\n"
            f"  power         {self._power()}"
        )

    def _power(self) -> str:
        """Return in words how much the test can tell."""
        told = f"the test would reject a flat spectrum with probability {self.power:.2g}"
        return told if self.power > _STRONG else f"weak: {told}. More probes tell more, if the matrix is large enough."


def fit_semicircle(measure: Measure | Density, *, exclude_outliers: bool = True) -> LawFit[Semicircle]:
    """Fit Wigner's semicircle by mean and variance, and say whether the spectrum follows it.

    It does not follow if a χ² test of its first ten moments has a p-value below 1 %, or if its distance to the law is
    larger than sampling and quadrature explain.

    Parameters
    ----------
    measure : Measure or Density
        What to read: a measure, or a density, whose measure is used.
    exclude_outliers : bool, default True
        Whether to leave out what `outliers` finds beyond the bulk.

    Returns
    -------
    LawFit
        The fitted law, the distance to it, and whether the spectrum follows it.

    Raises
    ------
    ValueError
        If the bulk is a single eigenvalue, or its mean does not fit the law.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> Z = np.random.default_rng(0).standard_normal((500, 500))
    >>> fit = sd.analysis.fit_semicircle(sd.fast_lanczos((Z + Z.T) / 1000**0.5))
    >>> fit.follows, round(fit.law.radius, 1)
    (True, 2.0)
    """
    return _fit(measure, exclude_outliers, lambda mean, variance: Semicircle(mean, 2 * float(np.sqrt(variance))))


def fit_marchenko_pastur(
    measure: Measure | Density, *, gamma: float | None = None, exclude_outliers: bool = True
) -> LawFit[MarchenkoPastur]:
    """Fit the law of Marchenko and Pastur by mean and variance, and say whether the spectrum follows it.

    The mean of the law is σ² and its variance γσ⁴. Zeros are part of it for γ > 1. The test is that of
    `fit_semicircle`.

    Parameters
    ----------
    measure : Measure or Density
        What to read: a measure, or a density, whose measure is used.
    gamma : float, optional
        The ratio of columns to rows n/m of the data, where it is known; by default fitted.
    exclude_outliers : bool, default True
        Whether to leave out what `outliers` finds beyond the bulk.

    Returns
    -------
    LawFit
        The fitted law, the distance to it, and whether the spectrum follows it.

    Raises
    ------
    ValueError
        If the bulk is a single eigenvalue, or its mean does not fit the law.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> Z = np.random.default_rng(0).standard_normal((500, 1000))
    >>> fit = sd.analysis.fit_marchenko_pastur(sd.fast_lanczos(Z @ Z.T / 1000))
    >>> fit.follows, round(fit.law.gamma, 1)
    (True, 0.5)
    """

    def law(mean: float, variance: float) -> MarchenkoPastur:
        if mean <= 0:
            raise ValueError(
                f"`measure` must have a positive mean for the law of Marchenko and Pastur; got {mean:.4g}. "
                "For a spectrum around zero call fit_semicircle."
            )
        return MarchenkoPastur(variance / mean**2 if gamma is None else gamma, mean)

    if gamma is not None:
        gamma = as_positive("gamma", gamma)
    return _fit(measure, exclude_outliers, law)


def _fit(measure: Measure | Density, exclude: bool, law_of: Callable[[float, float], LawType]) -> LawFit[LawType]:
    measure = measure_of(measure)
    found = outliers(measure)
    num_outliers = len(found) if exclude else 0
    everything = np.concatenate([found.positions, found.bulk])
    bulk = found.bulk if exclude else Interval(float(np.min(everything)), float(np.max(everything)))
    room = 1e-9 * max(abs(bulk.lo), abs(bulk.hi))
    bulk = Interval(bulk.lo - room, bulk.hi + room)
    x, mass = _masses(measure, bulk)
    mean = float(np.average(x, weights=mass))
    variance = float(np.average((x - mean) ** 2, weights=mass))
    if not variance > 0:
        raise ValueError(f"`measure` must have a bulk of positive width; got a single eigenvalue at {mean:.6g}")
    law = law_of(mean, variance)
    width = law.support.hi - law.support.lo
    # the estimate from one and from half of the steps: what the finite number of steps may still change
    here, less = (_restricted(each, bulk) for each in (measure, measure.shortened(lambda k: k // 2)))
    quadrature = wasserstein(here, less) / width / 2 if not _exact(measure) else 0.0
    trials = _sampled_distances(law_of, mean, variance, measure.sampling_variance) / width
    rounding = 1.0 / measure.dimension  # eigenvalues are not quantiles: they may be off by one spacing
    return LawFit(
        law=law,
        distance=wasserstein(here, law.distribution()) / width,
        sampling=float(np.mean(trials)),
        quadrature=quadrature,
        limit=float(np.quantile(trials, _QUANTILE)) + quadrature + rounding,
        bulk=bulk,
        num_outliers=num_outliers,
        **_moment_test(measure, bulk, law_of)._asdict(),
        measure=measure,
    )


def _exact(measure: Measure) -> bool:
    return all(rule.exact for rule in measure.rules)


def _moment_test(measure: Measure, bulk: Interval, law_of: Callable[[float, float], Law]) -> MomentTest:
    x, mass = _masses(measure, bulk)
    share = float(np.sum(mass))
    return moment_test(
        x, mass / share, law_of, variance=measure.sampling_variance / share, dimension=share * measure.dimension,
        degree=2 * min((rule.nodes.size for rule in measure.smooth_rules), default=measure.dimension) - 1,
    )  # fmt: skip


def _masses(measure: Measure, bulk: Interval) -> tuple[Floats, Floats]:
    """Return nodes within an interval and their masses: Gauss' rule makes their moments exact."""
    x = np.concatenate([measure.known_atoms.positions, *(rule.nodes for rule in measure.rules)])
    mass = np.concatenate([measure.known_atoms.masses, *(measure.probe_mass * rule.weights for rule in measure.rules)])
    inside = (x >= bulk.lo) & (x <= bulk.hi)
    return x[inside], mass[inside]


def _restricted(measure: Measure, bulk: Interval) -> Cdf:
    """Return the best estimate of the distribution within an interval, of mass 1."""
    whole = distribution_of(measure)
    x = np.unique(np.concatenate([whole.positions, bulk]))
    x = x[(x >= bulk.lo) & (x <= bulk.hi)]
    values = np.column_stack([whole(x, side="left"), whole(x, side="right")]).ravel()
    values = values - values[0]
    return Cdf(np.repeat(x, 2), values / values[-1])


def _sampled_distances(
    law_of: Callable[[float, float], Law], mean: float, variance: float, sampling_variance: float
) -> Floats:
    """Return W1 distances to the fitted law of spectra that follow it, seen by random probes.

    A probe's distribution function differs from the spectrum's by a Brownian bridge at F(x), of the sampling variance.
    The fit takes the part of it that a change of mean and variance explains.
    """
    F = law_of(mean, variance).distribution()
    middle, dx = (F.positions[1:] + F.positions[:-1]) / 2, np.diff(F.positions)
    level = np.clip(F(middle), 0.0, 1.0)
    steps = np.sqrt(np.maximum(np.diff(level, prepend=0.0, append=1.0), 0.0))
    walk = np.cumsum(np.random.default_rng(0).standard_normal((_TRIALS, steps.size)) * steps, axis=1)
    bridge = np.sqrt(sampling_variance) * (walk[:, :-1] - level * walk[:, -1:])
    shift = -(bridge @ dx)
    stretch = -2 * (bridge @ (dx * (middle - mean)))
    h = 1e-3 * np.sqrt(variance)
    by_mean = (law_of(mean + h, variance).distribution()(middle) - level) / h
    by_variance = (law_of(mean, variance * 1.001).distribution()(middle) - level) / (variance * 1e-3)
    left = bridge - shift[:, None] * by_mean - stretch[:, None] * by_variance
    return np.asarray(np.abs(left) @ dx)
