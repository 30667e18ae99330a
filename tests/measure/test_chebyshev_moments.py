"""Laws of what is drawn and read from Chebyshev moments."""

import numpy as np
import pytest
from moments import exact_moments, probe_weights
from spectra import FAMILIES, diagonal, exact_w1, semicircle

from specdens import fast_lanczos, kpm
from specdens._chebyshev.kernels import kernel_coefficients


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kernel", ["jackson", "lorentz"])
def test_positive_kernels_draw_positive_densities_of_mass_1(family, kernel):
    result = kpm(diagonal(FAMILIES[family](2000)), num_moments=100, num_probes=2)
    density = result.density(kernel=kernel)
    assert np.min(density.values) >= 0
    assert density.mass() == pytest.approx(1, abs=1e-12)
    assert density.mass_outside == pytest.approx(0, abs=1e-12)


def test_what_falls_off_a_given_grid_is_said():
    density = kpm(diagonal(semicircle(2000))).density(grid=np.linspace(0, 3, 100))
    assert density.mass_outside == pytest.approx(0.5, abs=0.05)
    assert density.mass() + density.mass_outside == pytest.approx(1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kernel", ["jackson", "lorentz", "dirichlet"])
def test_the_exact_spectrum_drawn_alike_lies_within_two_standard_errors(family, kernel):
    eigenvalues = FAMILIES[family](4000)
    density = kpm(diagonal(eigenvalues), num_moments=128, num_probes=2).density(num_points=400, kernel=kernel)
    interval = density.measure.interval
    g = kernel_coefficients(kernel, 128)
    mu = exact_moments(eigenvalues, np.full(4000, 1 / 4000), interval, 128) * g
    phi = np.arccos(np.clip((density.edges - interval.center) / (interval.width / 2), -1, 1))
    i = np.arange(1, 128)
    exact = -np.diff(phi + 2 * np.sin(np.outer(phi, i)) @ (mu[1:] / i)) / np.pi / np.diff(density.edges)
    assert np.mean(np.abs(density.values - exact) <= 2 * density.stderr) >= 0.9


def test_the_semicircle_is_drawn():
    density = kpm(diagonal(semicircle(100_000)), num_moments=128).density(num_points=200)
    inside = np.abs(density.grid) < 1.8
    law = np.sqrt(4 - density.grid[inside] ** 2) / (2 * np.pi)
    # sampling: a few percent of the density per cell of the kernel's width
    assert np.max(np.abs(density.values[inside] - law) / law) < 0.08


@pytest.mark.parametrize("family", FAMILIES)
def test_the_distribution_function_is_as_good_as_that_of_lanczos(family):
    eigenvalues = FAMILIES[family](20_000)
    A = diagonal(eigenvalues)
    by_kpm, by_lanczos = (
        exact_w1(result.probes_cdf, eigenvalues) for result in (kpm(A, num_moments=128), fast_lanczos(A, num_steps=64))
    )
    # moments know the narrow core of a heavy tail less well than Lanczos coefficients do: 2.5 times was seen
    assert by_kpm < (3 if "Pareto" in family else 1.2) * by_lanczos


@pytest.mark.parametrize("family", FAMILIES)
def test_the_probes_own_distribution_lies_within_the_bounds(family):
    eigenvalues = np.sort(FAMILIES[family](3000))
    result = kpm(diagonal(eigenvalues), num_moments=100)
    own = np.cumsum(probe_weights(eigenvalues.size))
    x = (eigenvalues[1:] + eigenvalues[:-1]) / 2
    lower, upper = result.cdf_bounds(x)
    split = np.diff(eigenvalues) > 0
    assert np.all((lower <= own[:-1] + 1e-9)[split])
    assert np.all((own[:-1] <= upper + 1e-9)[split])


def test_counts_lie_within_their_errors():
    eigenvalues = semicircle(5000)
    outcomes = []
    for seed in range(20):
        result = kpm(diagonal(eigenvalues), num_moments=64, seed=seed)
        for lo, hi in [(-1, 1), (0, 0.5), (1.5, 3), (-2.5, -0.3)]:
            value, stderr = result.count(lo, hi)
            outcomes.append(abs(value - np.sum((eigenvalues >= lo) & (eigenvalues <= hi))) <= 2 * stderr)
    assert np.mean(outcomes) >= 0.9


def test_traces_of_polynomials_below_the_number_of_moments_are_exact():
    eigenvalues = np.linspace(-1, 2, 100)
    result = kpm(np.diag(eigenvalues), num_moments=12, bounds=(-1, 2))
    weights = probe_weights(100)
    for degree in range(12):
        assert result.trace(lambda x, p=degree: x**p).value == pytest.approx(100 * weights @ eigenvalues**degree)


def test_half_of_the_moments_show_how_far_it_has_converged():
    rough, fine = (kpm(diagonal(semicircle(5000)), num_moments=m).convergence().steps for m in (8, 128))
    assert fine < rough / 5


def test_truncated_moments_are_those_of_a_shorter_run():
    A = diagonal(semicircle(500))
    np.testing.assert_array_equal(
        kpm(A, num_moments=64, bounds=(-2, 2)).truncated(10).mus, kpm(A, num_moments=20, bounds=(-2, 2)).mus
    )


def test_the_logarithmic_density_has_mass_1():
    density = kpm(diagonal(FAMILIES["symmetric Pareto"](2000))).log_density(epsilon=1e-2)
    assert density.mass() + density.mass_outside == pytest.approx(1)


def test_a_result_says_what_it_is():
    result = kpm(np.diag([0.0, 1.0]), num_moments=10, bounds=(0, 1))
    assert repr(result) == (
        "ChebyshevMoments(dimension=2, probes=1 gaussian, moments=10 on [-1.77636e-15, 1], products=6, float64)"
    )


def test_unknown_kernels_and_zero_steps_are_refused():
    result = kpm(np.diag([0.0, 1.0]), num_moments=10)
    with pytest.raises(ValueError, match=r"`kernel` must be one of .*; got 'box'"):
        result.density(kernel="box")
    with pytest.raises(ValueError, match=r"`num_steps` must be at least 1; got 0"):
        result.truncated(0)


@pytest.mark.parametrize("kernel", ["gaussian", "adaptive"])
def test_kernels_at_the_nodes_draw_the_gauss_rule_of_the_moments(kernel):
    result = kpm(diagonal(semicircle(500)), num_moments=40)
    density, gauss = result.density(kernel=kernel), result.gauss.density(kernel=kernel)
    np.testing.assert_array_equal(density.values, gauss.values)
    assert density.measure is result
