"""Does a spectrum follow a law? The χ² test of its first moments, in polynomials that are orthonormal under the law.

The mean of a polynomial of degree at most 2k − 1 over k steps of Lanczos has no quadrature error. Over random probes
the means of orthonormal polynomials are independent, each of the same sampling variance, so that their squares add up
to χ². The parameters of the law are those that make the sum smallest, and each takes one degree of freedom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import chdtrc, chdtri, chndtr

from specdens._analysis.random_matrix_laws import Law
from specdens._distributions.cdf import Floats

LEVEL = 0.01
"""The probability with which a spectrum that follows the law is said not to."""

_DEGREE = 10
_POINTS = 512  # of the rule that integrates over a law: exact to rounding for the degrees here
_STEPS, _SMALL = 30, 1e-9
_CERTAIN = 1e3  # noncentrality from which on a test never fails


class MomentTest(NamedTuple):
    """The outcome of a test."""

    p_value: float
    power: float


def moment_test(
    x: Floats, masses: Floats, law_of: Callable[[float, float], Law], *, variance: float, dimension: float, degree: int
) -> MomentTest:
    """Return how likely moments as far from the law's are, and how likely the test finds out a flat spectrum.

    Parameters
    ----------
    x, masses
        Positions and masses, of sum 1, that have the moments of the spectrum.
    law_of
        The law with a given mean and variance.
    variance
        The sampling variance of the mean of a function of variance 1.
    dimension
        The number of eigenvalues.
    degree
        The highest degree whose moments are exact.
    """
    k = np.arange(1, min(_DEGREE, degree) + 1)
    # eigenvalues of a finite random matrix have means that differ from the law's by about k/(2n) (GOE: bias k/(2n) for
    # even k, variance about (k + 1)/n²)
    variances = variance + (k**2 / 4 + k + 1) / dimension**2
    statistic, num_parameters = _smallest(x, masses, law_of, variances)
    freedom = k.size - num_parameters
    if freedom < 1:
        return MomentTest(1.0, LEVEL)
    mean = float(masses @ x)
    flat = _flat(law_of(mean, float(masses @ (x - mean) ** 2)))
    noncentrality = min(_smallest(*flat, law_of, variances)[0], _CERTAIN)
    power = 1.0 - float(chndtr(chdtri(freedom, LEVEL), freedom, noncentrality))
    return MomentTest(float(chdtrc(freedom, statistic)), power)


def _smallest(x: Floats, masses: Floats, law_of: Callable[[float, float], Law], variances: Floats) -> tuple[float, int]:
    """Return the smallest χ² over the parameters of the law, and how many parameters it has (Gauss–Newton)."""
    mean = float(masses @ x)
    spread = float(np.sqrt(masses @ (x - mean) ** 2))
    start = np.zeros(2)

    def deviations(parameters: Floats) -> Floats:
        """Return the deviations in standard errors, for mean and logarithm of the variance in units of the spread."""
        law = law_of(mean + spread * parameters[0], spread**2 * float(np.exp(parameters[1])))
        return _means(law, x, masses, variances.size) / np.sqrt(variances)

    parameters, z = start, deviations(start)
    rank = 0
    for _ in range(_STEPS):
        h = 1e-6 * np.eye(2)
        slopes = np.column_stack([(deviations(parameters + step) - deviations(parameters - step)) / 2e-6 for step in h])
        move, _, found, _ = np.linalg.lstsq(slopes, -z, rcond=1e-6)
        rank = int(found)
        move *= min(1.0, 0.5 / float(np.max(np.abs(move), initial=1e-300)))
        before = float(z @ z)
        while np.max(np.abs(move)) > _SMALL:
            try:
                moved = deviations(parameters + move)
            except ValueError:  # no such law, for instance of a negative mean
                moved = np.full(z.size, np.inf)
            if moved @ moved < before:
                parameters, z = parameters + move, moved
                break
            move = move / 2
        if not float(z @ z) < before * (1 - 1e-6):
            break
    return float(z @ z), rank


def _means(law: Law, x: Floats, masses: Floats, degree: int) -> Floats:
    """Return the means of the law's orthonormal polynomials of degree 1, 2, …; all are zero for the law itself."""
    points, weights = law_points(law)
    support = law.support
    center, half = support.center, support.width / 2
    _, triangle = np.linalg.qr(np.sqrt(weights)[:, None] * chebyshev.chebvander((points - center) / half, degree))
    plain = masses @ chebyshev.chebvander((x - center) / half, degree)
    return np.asarray(np.linalg.solve(triangle.T, plain))[1:]


def law_points(law: Law) -> tuple[Floats, Floats]:
    """Return points and weights that integrate polynomials over a law."""
    angles = (np.arange(_POINTS) + 0.5) * np.pi / _POINTS
    bulk, atom = law.bulk, law.atom
    points = bulk.center - bulk.width / 2 * np.cos(angles)
    weights = law.density(points) * np.sin(angles)
    weights *= (1.0 - atom) / np.sum(weights)
    return (points, weights) if not atom else (np.append(points, 0.0), np.append(weights, atom))


def _flat(law: Law) -> tuple[Floats, Floats]:
    """Return points and weights of a uniform density on the bulk of a law, with the law's mass at zero."""
    x, weights = np.polynomial.legendre.leggauss(_DEGREE + 1)
    points = law.bulk.center + law.bulk.width / 2 * x
    weights = weights / 2 * (1.0 - law.atom)
    return (points, weights) if not law.atom else (np.append(points, 0.0), np.append(weights, law.atom))
