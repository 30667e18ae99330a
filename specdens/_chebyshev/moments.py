"""Chebyshev moments: from tridiagonal matrices, to distribution functions and to Gauss rules.

For a measure on an interval [c − d, c + d] the moments are μ_i = ∫ T_i((λ − c)/d), i = 0, 1, …, with μ_0 = 1. They are
also the Fourier coefficients of the measure as seen on the circle, λ = c + d cos φ: the Toeplitz matrix [μ_|i−j|] is
positive semi-definite if and only if a measure on that interval has these moments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval

_ENTRIES = 2**20  # of a matrix that is made at once
# Rounding moves the smallest eigenvalue of the Toeplitz matrix by at most this many eps·num_moments²; half as much is
# the most that was seen, with an eigenvalue at an end of the interval.
_NOISE = 2.0


# -- moments -----------------------------------------------------------------------------------------------------


def moments_of_tridiagonal(alphas: Floats, betas: Floats, interval: Interval, num_moments: int) -> Floats:
    """Return the Chebyshev moments e₁ᵀ T_i((T − c)/d) e₁ of a tridiagonal T.

    For the k × k matrix T of a Lanczos run they are the probe's own up to i = 2k − 1: its kernel polynomial drawing, on
    an interval that can be chosen afterwards. Two moments per step of the recurrence, each of which costs O(k).

    Parameters
    ----------
    alphas, betas
        The diagonal of T, of length k, and its off-diagonal, of length k − 1.
    interval
        The interval [c − d, c + d]; it must contain the eigenvalues of T.
    num_moments
        How many moments, μ_0 included.

    Examples
    --------
    >>> import numpy as np
    >>> moments_of_tridiagonal(np.array([0.5]), np.empty(0), Interval(-1, 1), 4)  # T_i(1/2)
    array([ 1. ,  0.5, -0.5, -1. ])
    """
    half = interval.width / 2
    diagonal, side = (alphas - interval.center) / half, betas / half

    def product(x: Floats) -> Floats:
        y = diagonal * x
        y[:-1] += side * x[1:]
        y[1:] += side * x[:-1]
        return y

    previous = np.zeros(alphas.size)
    previous[0] = 1.0
    current = product(previous)
    moments = np.ones(num_moments + 2)
    moments[1], moments[2] = previous @ current, 2 * (current @ current) - 1
    for j in range(2, num_moments // 2 + 1):
        previous, current = current, 2 * product(current) - previous
        # T_m T_n = (T_{m+n} + T_{m−n}) / 2
        moments[2 * j - 1] = 2 * (previous @ current) - moments[1]
        moments[2 * j] = 2 * (current @ current) - 1
    return moments[:num_moments]


def chebyshev_cdf(moments: Floats, interval: Interval, x: Floats) -> Floats:
    """Return the distribution function of the density with the given (damped) moments, exactly, at any points.

    F(x) = 1 − φ/π − (2/π) Σ μ_i sin(iφ)/i with cos φ = (x − c)/d; 0 and 1 beyond the interval.

    Examples
    --------
    >>> import numpy as np
    >>> chebyshev_cdf(np.array([1.0]), Interval(-1, 1), np.array([-2, 0, 1, 2]))  # no moment: the arcsine law
    array([0. , 0.5, 1. , 1. ])
    """
    phi = angles(x, interval)
    i = np.arange(1, moments.size)
    out = 1 - phi / np.pi
    step = max(1, _ENTRIES // max(i.size, 1))
    for start in range(0, phi.size, step):
        rows = slice(start, start + step)
        out[rows] -= 2 / np.pi * (np.sin(np.outer(phi[rows], i)) @ (moments[1:] / i))
    return np.where(phi == np.pi, 0.0, out)  # sin(iπ) is not quite zero


def angles(x: Floats, interval: Interval) -> Floats:
    return np.arccos(np.clip((np.asarray(x, dtype=np.float64) - interval.center) / (interval.width / 2), -1.0, 1.0))


# -- what moments tell -------------------------------------------------------------------------------------------


def noise_of_moments(num_moments: int, eps: float) -> float:
    """Return by how much rounding may lower the smallest eigenvalue of the Toeplitz matrix of the moments."""
    return _NOISE * eps * (num_moments + 8) ** 2


def leaves_interval(moments: Floats, *, eps: float) -> NDArray[np.bool_]:
    """Return for every row of moments whether they belong to no measure on the interval: the spectrum leaves it.

    One eigenvalue at 1.001 leaves every moment small for a long time, but makes the Toeplitz matrix indefinite.
    O(num_moments²) for each row.

    Parameters
    ----------
    moments
        One row per probe.
    eps
        The unit of rounding of the run that made them.

    Examples
    --------
    >>> import numpy as np
    >>> i, rest = np.arange(64), np.cos(np.outer(np.arange(64), np.linspace(0.2, 2.9, 999))).mean(axis=1)
    >>> outlier = np.cosh(i * np.arccosh(1.001))
    >>> moments = np.array([rest, 0.999 * rest + 0.001 * outlier])
    >>> leaves_interval(moments, eps=2.2e-16)
    array([False,  True])
    """
    _, positive = _reflections(moments, np.full(moments.shape[0], noise_of_moments(moments.shape[1], eps)))
    return ~positive


def jacobi_of_moments(moments: Floats, interval: Interval, *, eps: float) -> tuple[Floats, Floats]:
    """Return α_1, …, α_k and β_1, …, β_k of the Gauss rules with the given 2k moments, one row per probe.

    The moments of a spectrum with gaps determine T only up to rounding: the least multiple of the identity is added to
    the Toeplitz matrix that makes it positive, from eps upwards, in steps of four. That mixes as much of an arcsine
    law into the measure, which is what the rule is then exact for. β_k, which would take one more moment, is that of
    the extension of maximum entropy.

    [Golub and Meurant 2010, section 5] has the modified Chebyshev algorithm, which breaks down where the spectrum has
    gaps; Schur's algorithm on the Toeplitz matrix is backward stable [Bojanczyk et al. 1995].
    """
    if not np.all(np.isfinite(moments)):
        raise ValueError("moments must be finite")
    k = moments.shape[1] // 2
    shifts = np.full(moments.shape[0], eps)
    reflections, positive = _reflections(moments[:, : 2 * k], shifts)
    while not np.all(positive):
        failed = np.flatnonzero(~positive)
        shifts[failed] *= 4
        reflections[failed], positive[failed] = _reflections(moments[failed, : 2 * k], shifts[failed])
    # Geronimus' relations from the circle to the interval, with γ_{−1} = −1 before the first and γ_{2k−1} = 0 after
    # the last; what multiplies γ_{−2} is zero
    even = reflections[:, ::2]
    odd = np.pad(reflections[:, 1::2], ((0, 0), (1, 1)))
    odd[:, 0] = -1.0
    before, after, even_before = odd[:, :-1], odd[:, 1:], np.pad(even[:, :-1], ((0, 0), (1, 0)))
    alphas = (1 - before) * even - (1 + before) * even_before
    betas = np.sqrt((1 - before) * (1 - even) * (1 + even) * (1 + after))
    return interval.center + interval.width / 4 * alphas, interval.width / 4 * betas


def _reflections(moments: Floats, shifts: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return Schur's reflection coefficients γ_0, γ_1, … of [μ_|i−j|] + shift·I, and which of these are positive."""
    num_rows, num_moments = moments.shape
    u = moments.copy()
    u[:, 0] += shifts
    u /= np.sqrt(u[:, :1])
    v = u.copy()
    gammas = np.zeros((num_rows, num_moments - 1))
    positive = np.ones(num_rows, dtype=bool)
    for m in range(num_moments - 1):
        u, v = u[:, :-1], v[:, 1:]
        with np.errstate(all="ignore"):  # rows that have ended are set to zero below
            gamma = v[:, :1] / u[:, :1]
        positive &= np.abs(gamma[:, 0]) < 1
        if not positive.any():
            break
        gamma = np.where(positive[:, None], gamma, 0.0)
        c = np.sqrt((1 - gamma) * (1 + gamma))
        # a hyperbolic rotation in the mixed form, which is the stable one
        u = (u - gamma * v) / c
        v = c * v - gamma * u
        gammas[:, m] = gamma[:, 0]
    return gammas, positive
