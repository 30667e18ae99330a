"""Laws of functions of Chebyshev moments."""

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from specdens._chebyshev.kernels import CHEBYSHEV_KERNELS, kernel_coefficients
from specdens._chebyshev.moments import (
    chebyshev_cdf,
    jacobi_of_moments,
    leaves_interval,
    moments_of_tridiagonal,
)
from specdens._distributions.interval import Interval

EPS = 2.2e-16
UNIT = Interval(-1.0, 1.0)
angles = st.lists(st.floats(0, np.pi), min_size=1, max_size=30)


def moments_of_atoms(x, weights, num_moments):
    """Return Σ w T_i(x), for x within [−1, 1] or not."""
    i = np.arange(num_moments)[:, None]
    inside = np.cos(i * np.arccos(np.clip(x, -1, 1)))
    outside = np.sign(x) ** i * np.cosh(i * np.arccosh(np.maximum(np.abs(x), 1)))
    return np.where(np.abs(x) <= 1, inside, outside) @ weights


def random_atoms(phi, seed):
    weights = np.random.default_rng(seed).random(len(phi)) + 1e-3
    return np.cos(np.array(phi)), weights / weights.sum()


# -- moments of T ------------------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_moments_of_a_tridiagonal_matrix_are_those_of_its_eigenvalues(k, num_moments, seed):
    rng = np.random.default_rng(seed)
    alphas, betas = rng.standard_normal(k), rng.random(k - 1)
    theta, vectors = scipy.linalg.eigh(np.diag(alphas) + np.diag(betas, 1) + np.diag(betas, -1))
    interval = Interval(theta[0] - 0.3, theta[-1] + 0.1)
    x = (theta - interval.center) / (interval.width / 2)
    expected = moments_of_atoms(x, vectors[0] ** 2, num_moments)
    np.testing.assert_allclose(moments_of_tridiagonal(alphas, betas, interval, num_moments), expected, atol=1e-11)


# -- kernels and their distribution functions --------------------------------------------------------------------


@pytest.mark.parametrize("kernel", CHEBYSHEV_KERNELS)
def test_kernels_leave_the_mass_and_damp_the_rest(kernel):
    g = kernel_coefficients(kernel, 64)
    assert g[0] == pytest.approx(1.0, abs=1e-14)
    assert np.all(np.diff(g) <= 0)
    assert np.all(g > 0)


def test_an_unknown_kernel_is_refused_by_name():
    with pytest.raises(ValueError, match="`kernel` must be one of jackson, lorentz, dirichlet; got 'fejer'"):
        kernel_coefficients("fejer", 8)


@pytest.mark.parametrize("kernel", ["jackson", "lorentz"])
@given(angles, st.integers(0, 99), st.integers(2, 100))
def test_positive_kernels_give_a_non_decreasing_distribution_function(kernel, phi, seed, num_moments):
    mu = moments_of_atoms(*random_atoms(phi, seed), num_moments) * kernel_coefficients(kernel, num_moments)
    F = chebyshev_cdf(mu, UNIT, np.linspace(-1.1, 1.1, 500))
    assert np.min(np.diff(F)) > -1e-13
    assert F[0] == 0
    assert F[-1] == 1


def test_differences_of_the_distribution_function_integrate_the_density():
    x, weights = random_atoms([0.3, 1.0, 2.5], 0)
    mu = moments_of_atoms(x, weights, 32) * kernel_coefficients("jackson", 32)
    interval = Interval(1.0, 5.0)

    def density(y):
        phi = np.arccos((y - 3.0) / 2.0)
        return (1 + 2 * mu[1:] @ np.cos(np.arange(1, 32) * phi)) / (np.pi * np.sin(phi)) / 2.0

    for lo, hi in [(1.5, 2.0), (2.9, 3.3), (4.0, 4.9)]:
        exact, _ = scipy.integrate.quad(density, lo, hi, epsabs=1e-12)
        assert np.diff(chebyshev_cdf(mu, interval, np.array([lo, hi])))[0] == pytest.approx(exact, abs=1e-10)


def test_many_points_are_the_same_as_few():
    mu = moments_of_atoms(*random_atoms([0.5, 2.0], 1), 2048)
    x = np.linspace(-1, 1, 1500)
    np.testing.assert_allclose(chebyshev_cdf(mu, UNIT, x)[700:703], chebyshev_cdf(mu, UNIT, x[700:703]), atol=1e-14)


# -- what moments tell -------------------------------------------------------------------------------------------


@given(angles, st.integers(0, 99), st.sampled_from([2, 3, 16, 64, 200]))
def test_a_spectrum_within_the_interval_is_never_said_to_leave_it(phi, seed, num_moments):
    assert not leaves_interval(moments_of_atoms(*random_atoms(phi, seed), num_moments)[None], eps=EPS)[0]


@pytest.mark.parametrize("ends", [[0.0], [np.pi], [0.0, np.pi], [0.0, 0.5 * np.pi, np.pi]])
def test_atoms_at_the_ends_are_within(ends):
    mu = moments_of_atoms(*random_atoms(ends, 0), 512)
    assert not leaves_interval(mu[None], eps=EPS)[0]


@pytest.mark.parametrize("sign", [-1, 1])
def test_one_eigenvalue_at_1_001_among_ten_thousand_is_seen_while_all_moments_are_small(sign):
    phi = (np.arange(9999) + 0.5) / 9999 * (np.pi - 0.4) + 0.2
    x = np.append(np.cos(phi), sign * 1.001)
    mu = moments_of_atoms(x, np.full(10000, 1e-4), 128)
    assert np.max(np.abs(mu[1:])) < 0.2
    assert leaves_interval(mu[None], eps=EPS)[0]


def test_probes_are_judged_one_by_one():
    good = moments_of_atoms(np.array([0.1, 0.7]), np.array([0.5, 0.5]), 32)
    bad = moments_of_atoms(np.array([0.1, 1.1]), np.array([0.5, 0.5]), 32)
    assert leaves_interval(np.array([good, bad, good]), eps=EPS).tolist() == [False, True, False]


@given(angles, st.integers(0, 99), st.integers(1, 40))
def test_the_gauss_rule_of_2k_moments_has_these_moments(phi, seed, k):
    mu = moments_of_atoms(*random_atoms(phi, seed), 2 * k)
    interval = Interval(2.0, 10.0)
    alphas, betas = jacobi_of_moments(mu[None], interval, eps=EPS)
    assert alphas.shape == betas.shape == (1, k)
    np.testing.assert_allclose(moments_of_tridiagonal(alphas[0], betas[0, :-1], interval, 2 * k), mu, atol=1e-9)


def test_the_gauss_rule_of_smooth_moments_is_that_of_lanczos():
    rng = np.random.default_rng(0)
    alphas, betas = 0.1 * rng.standard_normal(20), 0.5 + 0.05 * rng.standard_normal(19)
    interval = Interval(-1.6, 1.5)
    mu = moments_of_tridiagonal(alphas, betas, interval, 24)
    found_alphas, found_betas = jacobi_of_moments(mu[None], interval, eps=EPS)
    np.testing.assert_allclose(found_alphas[0], alphas[:12], atol=1e-7)
    np.testing.assert_allclose(found_betas[0, :-1], betas[:11], atol=1e-7)


def test_an_odd_moment_too_many_is_left_out_of_the_gauss_rule():
    mu = moments_of_atoms(np.array([0.0, 0.5]), np.array([0.5, 0.5]), 5)
    even, odd = (jacobi_of_moments(mu[None, :m], UNIT, eps=EPS) for m in (4, 5))
    np.testing.assert_array_equal(even[0], odd[0])
