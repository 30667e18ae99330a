"""Matrices whose spectra follow a known law, or are known exactly."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ellipkm1
from spectra import at_quantiles, chain, exact_w1, laplacian_2d, marchenko_pastur, semicircle

import specdens as sd

# W1 to the truth is the sampling distance on average, and rarely twice that. A law has finite-n error besides, of the
# order of 1/n of the width for random matrices: eigenvalues are rigid.
SAMPLING = 2.5


def assert_follows(measure: sd.SpectralMeasure, eigenvalues: np.ndarray, *, finite_size: float = 0.0) -> None:
    distance = exact_w1(measure.bulk_cdf, eigenvalues)
    assert distance <= SAMPLING * measure.sampling_distance() + finite_size * np.ptp(eigenvalues)


def goe(n: int, seed: int) -> np.ndarray:
    Z = np.random.default_rng(seed).standard_normal((n, n))
    return (Z + Z.T) / np.sqrt(2 * n)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_random_symmetric_matrix_follows_wigners_semicircle(seed):
    n = 2000
    measure = sd.fast_lanczos(goe(n, seed), num_steps=64, num_probes=4, seed=seed)
    assert_follows(measure, semicircle(n), finite_size=2 / n)
    # fluctuations of the ends are of the order n^(−2/3)
    assert measure.bounds() == pytest.approx((-2, 2), abs=10 * n ** (-2 / 3))


@pytest.mark.parametrize(("p", "n"), [(1000, 2000), (2000, 1000)])
def test_a_covariance_matrix_follows_marchenko_and_pastur(p, n):
    Z = np.random.default_rng(0).standard_normal((p, n))
    A = sd.as_operator(lambda x: Z @ (Z.T @ x) / n, shape=p, dtype="float64")
    measure = sd.fast_lanczos(A, num_steps=64, num_probes=4)
    assert_follows(measure, marchenko_pastur(p, p / n), finite_size=2 / n)
    value, stderr = measure.count(-1e-9, 1e-3)
    if p > n:  # the atom 1 − 1/γ at zero
        assert value == pytest.approx(p - n, abs=4 * stderr)
        assert stderr < 0.02 * p
    else:
        assert value == pytest.approx(0, abs=1e-6 * p)


@pytest.mark.parametrize("degree", [4, 6])
def test_a_random_regular_graph_follows_kesten_and_mckay(degree):
    n = 20_000
    rng = np.random.default_rng(degree)
    shuffles = [sp.csr_array((np.ones(n), (np.arange(n), rng.permutation(n))), (n, n)) for _ in range(degree // 2)]
    A = sum(P + P.T for P in shuffles)
    radius = 2 * np.sqrt(degree - 1)
    law = at_quantiles(lambda x: np.sqrt(radius**2 - x**2) / (degree**2 - x**2), -radius, radius, n)
    measure = sd.fast_lanczos(A, num_steps=64, num_probes=2)
    assert_follows(measure, law, finite_size=5 / n)
    assert measure.bounds().hi == pytest.approx(degree, rel=1e-6)  # the constant vector


def test_a_chain_has_its_exact_eigenvalues():
    n = 20_000
    A = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])
    measure = sd.fast_lanczos(A, num_steps=64, num_probes=2)
    assert_follows(measure, chain(n))
    # 1/(π√(4 − E²)), away from its edges
    density = measure.density(num_points=400)
    inner = np.abs(density.grid) < 1.8
    law = 1 / (np.pi * np.sqrt(4 - density.grid[inner] ** 2))
    assert np.mean(np.abs(density.values[inner] - law) <= 2 * density.stderr[inner]) >= 0.9


def test_the_laplacian_of_a_square_has_its_exact_eigenvalues():
    m = 120
    one = sp.diags_array([-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1])
    A = sp.csr_array(sp.kron(one, sp.eye_array(m)) + sp.kron(sp.eye_array(m), one))
    eigenvalues = laplacian_2d(m)
    measure = sd.fast_lanczos(A, num_steps=64, num_probes=4)
    assert_follows(measure, eigenvalues)
    value, stderr = measure.trace(lambda x: np.exp(-x))
    assert abs(value - np.exp(-eigenvalues).sum()) <= 4 * stderr < 0.05 * value
    value, stderr = measure.count(3, 5)
    assert abs(value - np.sum((eigenvalues >= 3) & (eigenvalues <= 5))) <= 4 * stderr


def test_a_square_lattice_follows_the_elliptic_integral():
    m = 150
    ring = sp.diags_array([np.ones(m - 1), np.ones(m - 1), [1.0], [1.0]], offsets=[-1, 1, m - 1, 1 - m])
    A = sp.csr_array(sp.kron(ring, sp.eye_array(m)) + sp.kron(sp.eye_array(m), ring))
    law = at_quantiles(lambda x: ellipkm1(np.maximum((x / 4) ** 2, 1e-300)), -4, 4, m * m)
    measure = sd.fast_lanczos(A, num_steps=64, num_probes=2)
    # the exact eigenvalues differ from the law by about 1/m in energy where they bunch
    assert_follows(measure, law, finite_size=0.2 / m)


@pytest.mark.slow
@pytest.mark.parametrize("spike", [1.5, 3.0, -2.0])
def test_a_spike_on_a_wigner_matrix_shows_at_spike_plus_inverse(spike):
    n = 2000
    v = np.random.default_rng(5).standard_normal(n)
    A = goe(n, 1) + spike * np.outer(v, v) / (v @ v)
    expected = spike + 1 / spike
    measure = sd.fast_lanczos(A, num_steps=100)
    end = measure.bounds().hi if spike > 0 else measure.bounds().lo
    # Baik, Ben Arous, Péché: Gaussian fluctuations of variance 2(1 − 1/θ²)/n; four of them
    assert end == pytest.approx(expected, abs=4 * np.sqrt(2 * (1 - spike**-2) / n))
    density = sd.spectral_density(A, rank=1)
    assert density.atoms.positions == pytest.approx([end], rel=1e-6)
    assert density.atoms.masses == pytest.approx([1 / n])


def test_a_spike_below_the_threshold_does_not_show():
    n = 2000
    v = np.random.default_rng(5).standard_normal(n)
    A = goe(n, 1) + 0.5 * np.outer(v, v) / (v @ v)
    assert sd.fast_lanczos(A, num_steps=100).bounds().hi == pytest.approx(2, abs=10 * n ** (-2 / 3))
