"""Standard errors where they were wrong: ends of intervals, rough functions, beyond the outermost node, overflow."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from spectra import chain, diagonal, semicircle

import specdens as sd


def normalized_laplacian(n=1200, degree=2.5, seed=1):
    """Return the normalised Laplacian of a sparse random graph: isolated vertices, components and twins."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < degree / n, 1).astype(np.float64)
    adjacency = upper + upper.T
    degrees = adjacency.sum(axis=0)
    scale = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1)), 0.0)
    return np.diag((degrees > 0) * 1.0) - scale[:, None] * adjacency * scale


@pytest.mark.slow
def test_a_count_of_the_whole_spectrum_is_the_dimension():
    A = normalized_laplacian()
    exact = np.linalg.eigvalsh(A)
    zeros = np.sum(np.abs(exact) < 1e-9)
    for seed in range(6):
        measure = sd.fast_lanczos(scipy.sparse.csr_array(A), num_probes=8, seed=seed)
        assert measure.count(0, 2).value == pytest.approx(1200, abs=1e-3)
        value, stderr = measure.count(0, 0)
        assert value == pytest.approx(zeros, abs=3 * stderr)
        assert stderr < 30


@pytest.mark.parametrize(("num_probes", "num_steps"), [(4, 32), (1, 128)])
def test_a_step_function_has_the_error_of_a_count(num_probes, num_steps):
    eigenvalues = np.linspace(-1, 1, 10001)
    for seed in range(5):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=num_steps, num_probes=num_probes, seed=seed)
        value, stderr = measure.trace(lambda x: (x > 0.3) * 1.0)
        assert value == pytest.approx(3500, abs=3 * stderr)
        assert stderr < 2 * measure.count(0.3, 2).stderr


def test_a_function_that_is_constant_on_the_nodes_may_change_below_them():
    eigenvalues = 10.0 ** np.linspace(-14, 2, 2000)
    for seed in range(5):
        value, stderr = sd.fast_lanczos(diagonal(eigenvalues), seed=seed).trace(lambda x: (x > 1e-6) * 1.0)
        assert value == pytest.approx(np.sum(eigenvalues > 1e-6), abs=3 * stderr)
        assert 10 < stderr < 2000


def test_eigenvalues_beyond_the_outermost_node_are_within_the_error():
    eigenvalues = np.sort(chain(5000))
    within = []
    for seed in range(10):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=32, num_probes=8, seed=seed)
        value, stderr = measure.count(eigenvalues[-50] - 1e-12, 3)
        within.append(abs(value - 50) <= 2 * stderr)
        assert stderr < 200
    assert np.mean(within) >= 0.9


@pytest.mark.slow
def test_an_atom_inside_a_bulk_is_within_the_error_of_a_count():
    one = 2 * np.cos(2 * np.pi * np.arange(64) / 64)
    eigenvalues = 4 - np.add.outer(one, one).ravel()
    exact = np.sum(np.abs(eigenvalues - 4) < 0.01)
    within = []
    for seed in range(8):
        value, stderr = sd.fast_lanczos(diagonal(eigenvalues), num_probes=8, seed=seed).count(3.99, 4.01)
        within.append(abs(value - exact) <= 2 * stderr)
        assert stderr < exact
    assert np.mean(within) >= 0.9


def test_the_log_determinant_by_moments_does_not_look_into_the_margin():
    eigenvalues = np.linspace(0.01, 1, 2000)
    value, stderr = sd.kpm(diagonal(eigenvalues)).trace(np.log)
    assert value == pytest.approx(np.sum(np.log(eigenvalues)), abs=3 * stderr)
    assert stderr < 100


def test_counts_of_a_smooth_bulk_are_not_too_cautious_with_many_probes():
    measure = sd.fast_lanczos(diagonal(semicircle(4000)), num_steps=32, num_probes=8)
    # sampling: 4000·√(2/4002/8 · 0.19) = 13.8
    assert measure.count(-0.5, 0.6).stderr < 25


def test_a_trace_that_overflows_is_refused():
    eigenvalues = np.linspace(700, 709.5, 200)
    measure = sd.fast_lanczos(diagonal(eigenvalues))
    value, stderr = measure.trace(lambda x: np.exp(x - 8))
    assert abs(value - np.sum(np.exp(eigenvalues - 8))) < 4 * stderr < np.inf
    with pytest.raises(ValueError, match=r"`f` must have a finite sum over the spectrum; got values up to"):
        measure.trace(np.exp)


def test_quantiles_have_a_standard_error():
    eigenvalues = np.sort(semicircle(3000))
    q = np.array([0.2, 0.5, 0.9])
    within = []
    for seed in range(20):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=64, seed=seed)
        stderr = measure.quantile_stderr(q)
        within.append(np.abs(measure.quantile(q) - np.quantile(eigenvalues, q)) <= 2 * stderr)
        assert np.all(stderr < 0.1)
    assert np.mean(within) >= 0.9
    with pytest.raises(ValueError, match=r"`q` must lie in \[0, 1\]; got 2"):
        measure.quantile_stderr(2)


def test_the_error_at_an_atom_is_that_of_sampling():
    eigenvalues = np.append(np.zeros(1000), np.linspace(1, 3, 1000))
    measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=64, num_probes=2)
    assert measure.cdf_stderr(0.0) < 0.02  # half of the atom is 0.25
    assert measure.cdf(0.0) == pytest.approx(0.5, abs=3 * measure.cdf_stderr(0.0))


def test_an_interval_that_ends_at_a_converged_eigenvalue_has_all_of_it():
    eigenvalues = np.append(np.zeros(500), np.linspace(0.2, 3, 500))
    for seed in range(5):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=32, num_probes=8, seed=seed)
        for value, stderr in (measure.count(-1, 0), measure.count(0, 0.1), measure.count(0, 0)):
            assert value == pytest.approx(500, abs=3 * stderr)
            assert stderr < 15
        assert measure.cdf(0.0) == pytest.approx(0.5, abs=0.03)


def test_a_narrow_cluster_is_not_one_eigenvalue():
    eigenvalues = np.append(np.linspace(0, 1e-3, 800), np.linspace(1, 1.001, 200))
    for seed in range(5):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=32, num_probes=8, seed=seed)
        value, stderr = measure.count(-1, 0.4e-3)
        assert value == pytest.approx(320, abs=3 * stderr)
        assert stderr < 30


def test_multiple_eigenvalues_that_a_run_does_not_resolve_are_within_the_error():
    ring = 2 * np.cos(2 * np.pi * np.arange(13) / 13)
    eigenvalues = np.sort(np.add.outer(np.add.outer(ring, ring), ring).ravel())
    x = np.quantile(eigenvalues, [0.1, 0.3, 0.6, 0.85])
    exact = np.searchsorted(eigenvalues, x + 1e-9, side="right") / eigenvalues.size
    within = []
    for seed in range(8):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=32, num_probes=8, seed=seed)
        within.append(np.abs(measure.cdf(x) - exact) <= 2 * measure.cdf_stderr(x))
    assert np.mean(within) > 0.9


def test_errors_are_no_larger_than_what_the_weights_allow():
    eigenvalues = np.append(10.0 ** np.linspace(-9, -2, 1980), 2.0 ** np.arange(20))
    for seed in range(5):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=32, num_probes=8, seed=seed)
        assert measure.count(1e-7, 1e-5).stderr < 0.65 * 2000
        assert measure.trace(lambda x: (x > 1e-6) * 1.0).stderr < 0.65 * 2000
