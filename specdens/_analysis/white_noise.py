"""A test whether the part of a spectrum below an edge looks like white noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from specdens._analysis.moment_test import moment_test
from specdens._analysis.random_matrix_laws import MarchenkoPastur
from specdens._distributions.cdf import Cdf, Floats, wasserstein
from specdens._measure.base import Measure

_LEVEL = 1e-3
_TINY = 1e-100  # p-values below this are not worth their digits
_ZERO = 1e-9  # relative: further zeros, of centred data or constant columns, are no noise either
_SPACINGS = 2.0  # eigenvalues of noise lie within about one spacing of the law's quantiles, 1.1 in trials


class NoiseTest(NamedTuple):
    """How far the eigenvalues below an edge are from the law of white noise.

    Attributes
    ----------
    p_value : float
        The probability of moments as far from the law's; nan if nothing lies below the edge.
    distance : float
        The W1 distance to the law, divided by its width.
    num_eigenvalues : float
        How many were compared.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> X = np.random.default_rng(0).standard_normal((400, 100))
    >>> X[:, :2] *= 10
    >>> covariance = sd.gram(X, divisor=400)
    >>> test = sd.analysis.significant_components(sd.fast_lanczos(covariance), gamma=0.25).rest
    >>> round(test.num_eigenvalues), test.is_white
    (98, True)
    """

    p_value: float
    distance: float
    num_eigenvalues: float

    @property
    def probability(self) -> str:
        """The p-value in words."""
        return f"p = {self.p_value:.2g}" if self.p_value > _TINY else f"p < {_TINY:g}"

    @property
    def is_white(self) -> bool:
        """Whether noise explains them: both tests fail at once only for eigenvalues that are not those of noise."""
        return not (self.p_value < _LEVEL and self.distance * self.num_eigenvalues > _SPACINGS)


def noise_test(measure: Measure, edge: float, gamma: float) -> NoiseTest:
    """Compare the eigenvalues below an edge with the law of Marchenko and Pastur of their mean.

    Where the data have more columns than rows, the zeros are left out: they would hide the rest. What is not zero then
    has the law of the transposed data.

    Parameters
    ----------
    measure
        The spectrum of a covariance matrix.
    edge
        Where to cut.
    gamma
        The number of columns divided by that of rows.
    """
    zeros = max(0.0, 1.0 - 1.0 / gamma)
    x, mass = _between(measure, zeros, edge)
    total = float(np.sum(mass))
    number = total * measure.dimension
    if number < 1 or not float(mass @ x) > 0:
        return NoiseTest(float("nan"), float("nan"), number)
    ratio = min(gamma, 1.0 / gamma) * total / (1.0 - zeros)  # every component takes a column or a row

    def law_of(mean: float, _: float) -> MarchenkoPastur:
        return MarchenkoPastur(ratio, mean)

    found = moment_test(
        x, mass / total, law_of, variance=measure.sampling_variance / total, dimension=number,
        degree=2 * min((rule.nodes.size for rule in measure.smooth_rules), default=measure.dimension) - 1,
    )  # fmt: skip
    law = law_of(float(mass @ x) / total, 0.0)
    rest = _cut(measure.whole_cdf, float(x[0]), edge, zeros)
    return NoiseTest(found.p_value, wasserstein(rest, law.distribution()) / law.support.width, number)


def _between(measure: Measure, zeros: float, edge: float) -> tuple[Floats, Floats]:
    """Return nodes below an edge and their masses, without the zeros."""
    atoms = measure.known_atoms
    x = np.concatenate([atoms.positions, *(rule.nodes for rule in measure.rules)])
    mass = np.concatenate([atoms.masses, *(measure.probe_mass * rule.weights for rule in measure.rules)])
    order = np.argsort(x)
    x, mass = x[order], mass[order]
    mass = np.diff(np.maximum(np.cumsum(mass) - zeros, 0.0), prepend=0.0)
    kept = (mass > 0) & (x < edge) & (x > _ZERO * edge)
    return x[kept], mass[kept]


def _cut(whole: Cdf, lo: float, hi: float, zeros: float) -> Cdf:
    """Return the distribution between two points, of mass 1, without the lowest mass, that of the zeros."""
    x = np.unique(np.concatenate([whole.positions, [lo, hi]]))
    x = x[(x >= lo) & (x <= hi)]
    values = np.column_stack([whole(x, side="left"), whole(x, side="right")]).ravel()
    values = np.maximum(values - max(float(values[0]), zeros), 0.0)
    return Cdf(np.repeat(x, 2), values / values[-1])
