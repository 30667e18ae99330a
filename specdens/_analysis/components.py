"""How many components of data stand out of the noise."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from specdens._analysis.outliers import measure_of
from specdens._analysis.random_matrix_laws import MarchenkoPastur
from specdens._analysis.white_noise import NoiseTest, noise_test
from specdens._density.density import Density
from specdens._exceptions import SpecdensWarning
from specdens._measure.base import Measure
from specdens._measure.estimate import Estimate
from specdens._plotting.law import plot_law
from specdens._validate import as_positive

# Quantiles of the Tracy–Widom law of real matrices [Johnstone 2001]: how far chance alone lifts the largest eigenvalue.
_TRACY_WIDOM = {0.05: 0.9793, 0.01: 2.0234, 0.001: 3.2724}
_ROUNDS = 20  # of noise level and count, each from the other; a few suffice
_ROUNDING = 1e-6  # negative eigenvalues of a covariance matrix, relative to the largest
_NOT_WHITE = (
    "the eigenvalues below the edge do not look like white noise: columns of unequal variance, or dependent ones, pass "
    "for components. Standardise the columns, or give the `scale` of the noise."
)


@dataclass(frozen=True, repr=False)
class Components:
    """How many eigenvalues of a covariance matrix lie above the edge of its noise.

    Attributes
    ----------
    count : Estimate
        Their number and its standard error: that of the measure, and that of the noise level.
    law : MarchenkoPastur
        The law of the noise.
    edge : float
        The eigenvalue beyond which noise alone reaches with the probability `chance`.
    variance : Estimate
        The share of the trace that they hold.
    chance : float
        That probability.
    rest : NoiseTest
        How far the eigenvalues below the edge are from the law: p-value, distance and `is_white`.
    measure : Measure
        What was read.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> X = np.random.default_rng(0).standard_normal((2000, 500))
    >>> X[:, 0] *= 3  # one column with nine times the variance
    >>> found = sd.analysis.significant_components(sd.fast_lanczos(sd.gram(X, divisor=2000)), gamma=0.25)
    >>> round(found.count.value)
    1
    """

    count: Estimate
    law: MarchenkoPastur
    edge: float
    variance: Estimate
    chance: float
    rest: NoiseTest
    measure: Measure = field(compare=False)

    def plot(self, ax: Any = None, *, x: Literal["linear", "symlog"] = "linear", log_y: bool = False) -> Any:
        """Draw the density, the law of the noise over it, and its edge.

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
        share = 1.0 - self.count.value / self.measure.dimension
        return plot_law(
            self.measure.density(), self.law.density, self.law.bulk, ax, label=str(self.law), share=share,
            edge=self.edge, x=x, log_y=log_y,
        )  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"{self.count} significant components, with "
            f"{100 * self.variance.value:.3g} ± {100 * self.variance.stderr:.2g} % of the variance\n"
            f"  noise         {self.law}\n"
            f"  edge          {self.edge:.6g}, which noise alone exceeds with probability {self.chance:g}\n"
            f"  below it      {self._rest()}"
        )

    def _rest(self) -> str:
        """Return what lies below the edge, in words."""
        if np.isnan(self.rest.p_value):
            return "nothing to compare with noise"
        verdict = "looks" if self.rest.is_white else "does not look"
        return f"{verdict} like white noise ({self.rest.probability}, W1 / width {self.rest.distance:.2g})"


def significant_components(
    measure: Measure | Density, *, gamma: float, scale: float | None = None, chance: float = 0.01
) -> Components:
    """Return how many eigenvalues of a covariance matrix stand out of noise, with an error.

    The noise is white: the law of Marchenko and Pastur with the ratio γ of columns to rows. Its variance is
    the mean of the eigenvalues that do not stand out. The edge is that of the law, lifted by what the largest
    eigenvalue of pure noise exceeds with the probability `chance` [Johnstone 2001].

    Parameters
    ----------
    measure : Measure or Density
        The spectrum of XᵀX/m, for instance of ``sd.gram(X, center=True, divisor=len(X))``.
    gamma : float
        The number of columns of the data divided by that of its rows.
    scale : float, optional
        The variance of the noise, where it is known: 1 for columns that were standardised, if they are otherwise
        independent, or the mean of all eigenvalues to ask what exceeds independent columns of equal variance. By
        default as above.
    chance : {0.05, 0.01, 0.001}, default 0.01
        How often pure noise may show a component.

    Returns
    -------
    Components
        The number with its error, the law of the noise and its edge; it can be drawn.

    Raises
    ------
    TypeError
        If `measure` is neither a measure nor a density.
    ValueError
        If an option is out of range, the matrix is no covariance of this `gamma` (negative eigenvalues, fewer zeros
        than columns beyond the rows), or more than half of the eigenvalues stand out.

    Warns
    -----
    SpecdensWarning
        If the eigenvalues below the edge do not look like white noise, unless `scale` is given. The report says it too.

    Notes
    -----
    Noise must be white for this to mean anything: columns of unequal variance, and sparse data, have eigenvalues beyond
    the edge by the hundred without any component. Standardise the columns first.

    A signal of strength θ in one direction shows above the edge only if θ > σ²√γ [Baik, Ben Arous and Péché 2005]:
    weaker components are lost in the noise for any method.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 500))
    >>> X[:, :3] *= [4.0, 3.0, 2.0]  # three components
    >>> found = sd.analysis.significant_components(sd.fast_lanczos(sd.gram(X, divisor=2000)), gamma=500 / 2000)
    >>> round(found.count.value), round(found.law.scale, 1)
    (3, 1.0)
    """
    measure, gamma = measure_of(measure), as_positive("gamma", gamma)
    if chance not in _TRACY_WIDOM:
        raise ValueError(f"`chance` must be one of {', '.join(map(str, _TRACY_WIDOM))}; got {chance!r}")
    _check_covariance(measure, gamma)
    lift = _lifted_edge(measure.dimension, gamma, _TRACY_WIDOM[chance])
    if scale is None:
        level, doubt = _noise_level(measure, lift)
    else:
        level, doubt = as_positive("scale", scale), 0.0
    edge = level * lift
    here = measure.count(edge, np.inf)
    # how many more or fewer the error of the noise level lets through
    more, fewer = (measure.count((level + sign * doubt) * lift, np.inf).value for sign in (-1, 1))
    count = Estimate(here.value, float(np.hypot(here.stderr, abs(more - fewer) / 2)))
    rest = noise_test(measure, edge, gamma)
    if scale is None and not rest.is_white:
        warnings.warn(f"{_NOT_WHITE} ({rest.probability})", SpecdensWarning, stacklevel=2)
    return Components(count, MarchenkoPastur(gamma, level), edge, _share_above(measure, edge), chance, rest, measure)


def _check_covariance(measure: Measure, gamma: float) -> None:
    """Refuse what is no covariance matrix of data with this ratio of columns to rows."""
    n, nodes = measure.dimension, np.concatenate([[0.0], *(rule.nodes for rule in measure.rules)])
    lo, hi = float(np.min(nodes)), float(np.max(nodes))
    mean = measure.trace(lambda x: x).value / n
    if mean <= 0:
        raise ValueError(f"`measure` must have a positive mean, as a covariance matrix has; got {mean:.4g}")
    if lo < -_ROUNDING * max(hi, -lo):  # nodes lie within the spectrum
        raise ValueError(
            f"`measure` must be that of a covariance matrix, without negative eigenvalues; got {lo:.4g}. "
            "See sd.gram(X, center=True, divisor=len(X))."
        )
    if gamma <= 1:
        return
    # other eigenvalues of noise begin at (√γ − 1)² times the mean; those of data may be smaller
    zeros = measure.count(-np.inf, mean * min((np.sqrt(gamma) - 1) ** 2 / 2, 0.01))
    if zeros.value + 3 * zeros.stderr < n * (1 - 1 / gamma) / 2:
        raise ValueError(
            f"`gamma` must be the number of columns divided by that of rows: with {gamma:g}, "
            f"{100 * (1 - 1 / gamma):.3g} % of the eigenvalues would be zero; got about {100 * zeros.value / n:.3g} %"
        )


def _lifted_edge(n: int, gamma: float, quantile: float) -> float:
    """Return the quantile of the largest eigenvalue of ZᵀZ/m for n columns of white noise [Johnstone 2001]."""
    m = n / gamma
    a, b = np.sqrt(max(m - 1, 1.0)), np.sqrt(n)
    return float((a + b) * (a + b + quantile * (1 / a + 1 / b) ** (1 / 3)) / m)


def _noise_level(measure: Measure, lift: float) -> tuple[float, float]:
    """Return the variance of the noise and its error: the mean of the eigenvalues that do not stand out."""
    n, edge, before = measure.dimension, np.inf, -1.0
    level = doubt = 0.0
    for _ in range(_ROUNDS):
        above = measure.count(edge, np.inf).value if np.isfinite(edge) else 0.0
        if above > n / 2:
            mean = measure.trace(lambda x: x).value / n
            raise ValueError(
                "`measure` must be mostly noise for its level to be found: more than half of its eigenvalues stand "
                f"out. Give `scale`: 1 for standardised columns, or the mean of all eigenvalues, scale={mean:.4g}, to "
                "ask what exceeds independent columns of equal variance."
            )
        below = measure.trace(lambda x, edge=edge: np.where(x < edge, x, 0.0))  # type: ignore[misc]
        level, doubt = below.value / (n - above), below.stderr / (n - above)
        if round(above) == round(before):
            break
        before, edge = above, level * lift
    return level, doubt


def _share_above(measure: Measure, edge: float) -> Estimate:
    """Return the share of the trace above an edge."""
    whole, part = measure.trace(lambda x: x), measure.trace(lambda x: np.where(x > edge, x, 0.0))
    value = part.value / whole.value
    return Estimate(value, float(np.hypot(part.stderr, value * whole.stderr) / whole.value))
