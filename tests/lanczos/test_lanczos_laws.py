"""Laws of the Lanczos recurrence: what its measure must be, whatever the spectrum."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spectra import diagonal, rotated, semicircle
from strategies import seeds, separated_spectra, spectra

import specdens as sd
from specdens._distributions.cdf import Cdf, wasserstein
from specdens._vectors.probes import gaussian_probe_block

# Rounding grows slowly with the number of steps: what 50 steps in float64 leave is below this, relative to the scale.
ROUNDING = 1e-11

pytestmark = pytest.mark.usefixtures("_both_paths")

METHODS = (sd.fast_lanczos, sd.slow_lanczos)


def own_measure(eigenvalues: np.ndarray, v: np.ndarray) -> Cdf:
    """Return the measure Σ|vᵀuᵢ|²δ of a start vector of the diagonal matrix with sorted eigenvalues."""
    return Cdf.of_atoms(eigenvalues, np.abs(v) ** 2 / np.sum(np.abs(v) ** 2))


def start_vector(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n)


def staircase(measure: sd.SpectralMeasure, j: int = 0) -> Cdf:
    return Cdf.of_atoms(measure.nodes[j], measure.weights[j])


def chebyshev_moments(nodes: np.ndarray, weights: np.ndarray, scale: float, num_moments: int) -> np.ndarray:
    """Return Σ ω T_i(θ/scale): polynomials bounded by 1 on [−scale, scale]."""
    angles = np.arccos(np.clip(nodes / scale, -1, 1))
    return np.cos(np.outer(np.arange(num_moments), angles)) @ weights


def largest(eigenvalues: np.ndarray) -> float:
    return float(np.max(np.abs(eigenvalues))) or 1.0


# -- the measure of the probe -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@given(eigenvalues=spectra(), seed=seeds, num_steps=st.integers(1, 12))
def test_m_steps_integrate_degree_2m_minus_1_exactly_for_a_given_vector(method, eigenvalues, seed, num_steps):
    v = start_vector(eigenvalues.size, seed)
    m = min(num_steps, eigenvalues.size)
    measure = method(np.diag(eigenvalues), num_steps=m, probes=v)
    scale = largest(eigenvalues)
    seen = chebyshev_moments(measure.nodes[0], measure.weights[0], scale, 2 * m)
    exact = chebyshev_moments(eigenvalues, v**2 / np.sum(v**2), scale, 2 * m)
    assert np.allclose(seen, exact, rtol=0, atol=ROUNDING)


@given(eigenvalues=spectra(max_multiplicity=3), seed=seeds)
def test_m_steps_integrate_degree_2m_minus_1_exactly_for_a_random_probe(eigenvalues, seed):
    n = eigenvalues.size
    A = rotated(eigenvalues, seed)
    m = min(5, n)
    measure = sd.fast_lanczos(A, num_steps=m, seed=seed)
    v = gaussian_probe_block(sd.as_operator(A).vectors, n, (0,), seed)[:, 0]
    values, vectors = np.linalg.eigh(A)
    scale = largest(values)
    exact = chebyshev_moments(values, (vectors.T @ v) ** 2, scale, 2 * m)
    seen = chebyshev_moments(measure.nodes[0], measure.weights[0], scale, 2 * m)
    assert np.allclose(seen, exact, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("method", METHODS)
@given(eigenvalues=spectra(), seed=seeds, num_probes=st.integers(1, 3))
def test_every_probe_has_mass_one_and_positive_weights(method, eigenvalues, seed, num_probes):
    measure = method(np.diag(eigenvalues), num_probes=num_probes, seed=seed)
    for nodes, weights in zip(measure.nodes, measure.weights, strict=True):
        assert np.all(weights >= 0)
        assert np.all(np.diff(nodes) >= 0)
        assert weights.sum() == pytest.approx(1, rel=1e-13)


@pytest.mark.parametrize("method", METHODS)
@given(eigenvalues=separated_spectra(), seed=seeds, num_steps=st.integers(1, 12))
def test_cdf_bounds_hold_for_the_probes_own_measure_at_every_x(method, eigenvalues, seed, num_steps):
    v = start_vector(eigenvalues.size, seed)
    measure = method(np.diag(eigenvalues), num_steps=min(num_steps, eigenvalues.size), probes=v)
    own = own_measure(eigenvalues, v)
    scale = largest(eigenvalues)
    room = 1e-7 * scale  # an eigenvalue and its ghosts are known to rounding only, and so are their masses
    knots = np.sort(np.concatenate([eigenvalues, measure.nodes[0], [-10 * scale, 10 * scale]]))
    x = np.concatenate([knots, (knots[1:] + knots[:-1]) / 2])
    lower, upper = measure.cdf_bounds(x)
    assert np.all(lower <= own(x + room) + 1e-9)
    assert np.all(upper >= own(x - room) - 1e-9)


def test_a_given_vector_gives_its_local_density_of_states():
    A = rotated(np.repeat([-1.0, 0.5, 2.0, 7.0], 10), seed=3)
    values, vectors = np.linalg.eigh(A)
    site = np.zeros(40)
    site[17] = 5.0  # the length does not matter
    measure = sd.fast_lanczos(A, probes=site)
    expected = [np.sum(vectors[17, np.abs(values - x) < 1e-6] ** 2) for x in (-1.0, 0.5, 2.0, 7.0)]
    assert np.allclose(measure.atoms.positions, [-1.0, 0.5, 2.0, 7.0], rtol=1e-12)
    assert np.allclose(measure.atoms.masses, expected, rtol=1e-12)
    assert measure.mean(np.exp).stderr <= 1e-9 * measure.mean(np.exp).value  # no sampling error: it is the question


# -- equivariance --------------------------------------------------------------------------------------------------


# zero, or large enough for its square to be a float
shifts = st.floats(-10, 10).map(lambda x: x if abs(x) > 1e-6 else 0.0)


@given(eigenvalues=spectra(), seed=seeds, power=st.integers(-20, 20))
def test_scaling_by_a_power_of_two_scales_the_recurrence_bit_for_bit(eigenvalues, seed, power):
    one, other = (sd.fast_lanczos(np.diag(x), seed=seed) for x in (eigenvalues, eigenvalues * 2.0**power))
    assert np.array_equal(one.alphas[0] * 2.0**power, other.alphas[0])
    assert np.array_equal(one.betas[0] * 2.0**power, other.betas[0])


@given(eigenvalues=spectra(), seed=seeds, factor=st.floats(0.1, 10), shift=shifts)
def test_shift_and_scale_move_the_moments_along(eigenvalues, seed, factor, shift):
    scale = largest(eigenvalues)
    shift *= scale
    m = min(6, eigenvalues.size)
    one = sd.fast_lanczos(np.diag(eigenvalues), num_steps=m, seed=seed)
    other = sd.fast_lanczos(np.diag(-factor * eigenvalues + shift), num_steps=m, seed=seed)
    moved = chebyshev_moments(-factor * one.nodes[0] + shift, one.weights[0], 20 * scale, 2 * m)
    assert np.allclose(moved, chebyshev_moments(other.nodes[0], other.weights[0], 20 * scale, 2 * m), atol=ROUNDING)


@given(seed=seeds, factor=st.floats(0.1, 10), shift=shifts)
def test_shift_and_scale_move_the_cdf_along(seed, factor, shift):
    # few steps on a wide spectrum: nothing has converged, so that T itself is known to rounding
    eigenvalues = semicircle(300)
    one = sd.fast_lanczos(diagonal(eigenvalues), num_steps=20, num_probes=2, seed=seed)
    other = sd.fast_lanczos(diagonal(factor * eigenvalues + shift), num_steps=20, num_probes=2, seed=seed)
    x = np.linspace(-2.1, 2.1, 101)
    assert np.allclose(one.cdf(x), other.cdf(factor * x + shift), atol=1e-8)


@pytest.mark.slow
@given(seed=seeds, factor=st.floats(0.01, 100))
def test_a_log_density_with_epsilon_scaled_along_is_moved_and_otherwise_the_same(seed, factor):
    eigenvalues = semicircle(300)
    one = sd.fast_lanczos(diagonal(eigenvalues), num_steps=20, seed=seed).log_density(epsilon=1e-3, num_points=200)
    grid = one.grid + np.log(factor)
    other = sd.fast_lanczos(diagonal(factor * eigenvalues), num_steps=20, seed=seed).log_density(
        epsilon=1e-3 * factor, grid=grid
    )
    assert np.allclose(one.values, other.values, atol=1e-7 * one.values.max())


@given(eigenvalues=spectra(max_multiplicity=2), seed=seeds)
def test_a_hermitian_matrix_equals_its_real_embedding(eigenvalues, seed):
    A = rotated(eigenvalues, seed, is_complex=True)
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(eigenvalues.size) + 1j * rng.standard_normal(eigenvalues.size)
    m = min(4, eigenvalues.size)
    one = sd.fast_lanczos(A, num_steps=m, probes=v)
    other = sd.fast_lanczos(
        np.block([[A.real, -A.imag], [A.imag, A.real]]), num_steps=m, probes=np.concatenate([v.real, v.imag])
    )
    scale = 1.001 * largest(eigenvalues)
    seen = [chebyshev_moments(x.nodes[0], x.weights[0], scale, 2 * m) for x in (one, other)]
    assert np.allclose(*seen, rtol=0, atol=ROUNDING)


# -- blocks and precision -------------------------------------------------------------------------------------------


@given(eigenvalues=spectra(), seed=seeds, block_size=st.integers(1, 5))
def test_block_and_one_by_one_runs_give_the_same_measures(eigenvalues, seed, block_size):
    A = rotated(eigenvalues, seed)
    m = min(6, eigenvalues.size)
    one = sd.fast_lanczos(A, num_steps=m, num_probes=5, seed=seed, block_size=1)
    block = sd.fast_lanczos(A, num_steps=m, num_probes=5, seed=seed, block_size=block_size)
    scale = 1.001 * largest(eigenvalues)
    for j in range(5):
        seen = [chebyshev_moments(x.nodes[j], x.weights[j], scale, 2 * m) for x in (one, block)]
        assert np.allclose(*seen, rtol=0, atol=ROUNDING)


def test_block_and_one_by_one_runs_are_the_same_in_w1_after_ghosts_have_come():
    A = rotated(np.concatenate([semicircle(190), np.arange(10.0, 20.0)]))
    one, block = (sd.fast_lanczos(A, num_steps=100, num_probes=4, block_size=k) for k in (1, 4))
    assert one.nodes[0][-1] - one.nodes[0][-2] < 1e-9  # a ghost
    # the coefficients differ wholly by then; the measures differ where they have not converged
    assert wasserstein(one.probes_cdf, block.probes_cdf) < 1e-4 * 22


def test_float32_is_close_to_float64_as_a_measure():
    eigenvalues = np.concatenate([semicircle(1990), np.arange(10.0, 20.0)])
    runs = [sd.fast_lanczos(diagonal(eigenvalues).astype(t), num_steps=100) for t in ("float32", "float64")]
    assert runs[0].dtype == "float32"
    # ghosts come earlier in float32; the sampling error at this n is 3e-3 of the width
    assert wasserstein(*(run.bulk_cdf for run in runs)) < 3e-4 * 22


# -- breakdown -------------------------------------------------------------------------------------------------------


@given(values=st.lists(st.integers(-5, 5), min_size=1, max_size=3, unique=True), copies=st.integers(10, 20), seed=seeds)
def test_few_distinct_eigenvalues_end_with_exact_atoms(values, copies, seed):
    eigenvalues = np.repeat(np.sort(np.array(values, dtype=float)), copies)
    v = np.random.default_rng(seed).choice([-1.0, 1.0], eigenvalues.size)
    measure = sd.fast_lanczos(np.diag(eigenvalues), probes=v)
    assert measure.alphas[0].size == len(values)
    assert np.all(measure.last_betas == 0)
    assert np.allclose(measure.atoms.positions, sorted(values), atol=1e-10)
    assert np.allclose(measure.atoms.masses, 1 / len(values), rtol=1e-9)
    assert np.allclose(measure.cdf(np.array(values) + 0.5), measure.cdf_bounds(np.array(values) + 0.5)[0], atol=1e-12)


@given(values=st.lists(st.integers(-9, 9), min_size=1, max_size=8, unique=True), seed=seeds)
def test_few_distinct_eigenvalues_have_their_masses_even_where_rounding_hides_the_end(values, seed):
    # β at the end is 100 ε of the scale and more from five distinct eigenvalues on: the run goes on, with ghosts
    values = np.sort(np.array(values, dtype=float))
    v = start_vector(20 * values.size, seed)
    measure = sd.fast_lanczos(np.diag(np.repeat(values, 20)), probes=v)
    masses = (v**2).reshape(-1, 20).sum(axis=1) / (v @ v)
    assert np.allclose(measure.cdf(values + 0.5), np.cumsum(masses), atol=1e-9)


def test_every_probe_of_a_block_breaks_down_on_its_own():
    eigenvalues = np.arange(1.0, 9.0)
    starts = np.triu(np.ones((8, 8)))  # vector j lives on the first j + 1 eigenvalues
    measure = sd.fast_lanczos(np.diag(eigenvalues), probes=starts, block_size=8, num_steps=5)
    assert [alphas.size for alphas in measure.alphas] == [1, 2, 3, 4, 5, 5, 5, 5]
    assert [bool(beta == 0) for beta in measure.last_betas] == [True] * 5 + [False] * 3
    for j in range(5):
        assert np.allclose(measure.nodes[j], eigenvalues[: j + 1], rtol=1e-10)
        assert np.allclose(measure.weights[j], 1 / (j + 1), rtol=1e-8)


def kneser(n: int, k: int) -> np.ndarray:
    """Return the adjacency matrix of the k-subsets of n things, joined where they are disjoint."""
    subsets = [frozenset(s) for s in combinations(range(n), k)]
    return np.array([[float(not s & t) for t in subsets] for s in subsets])


@pytest.mark.parametrize(("n", "k"), [(7, 3), (9, 4)])
@pytest.mark.parametrize("method", METHODS)
def test_a_kneser_graph_takes_as_many_steps_as_it_has_distinct_eigenvalues(method, n, k):
    A = kneser(n, k)
    multiplicity = {(-1) ** i * comb(n - k - i, k - i): comb(n, i) - (comb(n, i - 1) if i else 0) for i in range(k + 1)}
    measure = method(A, num_probes=3)
    assert [alphas.size for alphas in measure.alphas] == [k + 1] * 3
    assert np.allclose(measure.atoms.positions, sorted(multiplicity), atol=1e-10)
    everywhere = method(A, probes=np.eye(len(A)))  # the mean over an orthonormal basis is the spectrum itself
    for eigenvalue, count in multiplicity.items():
        assert everywhere.count(eigenvalue, eigenvalue).value == pytest.approx(count, rel=1e-9)


@pytest.mark.parametrize("eigenvalues", [[0.0], [3.0], [1.0, -2.0], [0.0] * 50, [1e-7] * 50, [-4.0] * 50])
@pytest.mark.parametrize("method", ["fast_lanczos", "slow_lanczos", "kpm"])
@pytest.mark.parametrize("function", [None, "log", np.exp])
def test_the_smallest_and_plainest_operators_work_at_the_defaults(eigenvalues, method, function):
    for dtype in (np.float32, np.float64, np.complex128):
        A = np.diag(np.array(eigenvalues, dtype=dtype))
        density = sd.spectral_density(A, method=method, function=function, num_probes=2)
        assert density.mass() + density.mass_outside == pytest.approx(1, rel=1e-9)
        lo, hi = min(eigenvalues), max(eigenvalues)
        room = 1e-3 * (max(abs(lo), abs(hi)) or 1.0)  # kpm knows an eigenvalue to the width of its interval
        assert density.measure.count(lo - room, hi + room).value == pytest.approx(len(eigenvalues), rel=1e-6)


@given(eigenvalues=spectra(max_multiplicity=1), seed=seeds)
def test_n_slow_steps_give_all_eigenvalues_and_agree_with_eigvalsh(eigenvalues, seed):
    n = eigenvalues.size
    A = rotated(eigenvalues, seed)
    measure = sd.slow_lanczos(A, num_steps=n, seed=seed)
    assert np.all(measure.last_betas == 0)
    # an eigenvalue that is seen twice counts once: the measure is right either way
    v = gaussian_probe_block(sd.as_operator(A).vectors, n, (0,), seed)[:, 0]
    values, vectors = np.linalg.eigh(A)
    exact = Cdf.of_atoms(values, (vectors.T @ v) ** 2)
    scale = largest(eigenvalues)
    assert wasserstein(staircase(measure), exact) < 1e-7 * scale
    # without reorthogonalisation a ghost may take the place of an eigenvalue in a tight cluster
    assert wasserstein(staircase(sd.fast_lanczos(A, num_steps=n, seed=seed)), exact) < 1e-3 * scale


def test_n_slow_steps_find_every_simple_eigenvalue():
    eigenvalues = np.sort(np.random.default_rng(0).standard_normal(60))
    measure = sd.slow_lanczos(rotated(eigenvalues), num_steps=60)
    assert np.allclose(measure.nodes[0], eigenvalues, atol=1e-10)
