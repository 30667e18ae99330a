"""Laws of the kernel polynomial method."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import exact_moments, probe_weights
from spectra import diagonal, rotated, semicircle

from specdens import Counted, EigenPairs, as_operator, deflate, fast_lanczos, kpm
from specdens._chebyshev.moments import moments_of_tridiagonal

pytestmark = pytest.mark.usefixtures("_both_paths")

# zero, or large enough for its square to be a float
numbers = st.floats(-10, 10).map(lambda x: x if abs(x) > 1e-100 else 0.0)
spectra = st.lists(numbers, min_size=1, max_size=30).map(np.array)


def pairs_of(eigenvalues, vectors):
    rank = len(eigenvalues)
    return EigenPairs(np.array(eigenvalues), vectors, np.zeros(rank), np.ones(rank, dtype=bool), 0, 0.0)


# -- the moments -------------------------------------------------------------------------------------------------


@given(spectra, st.integers(2, 60), st.booleans())
def test_moments_are_those_of_the_probe(eigenvalues, num_moments, automatic):
    bounds = None if automatic else (-10, 10)
    result = kpm(np.diag(eigenvalues), num_moments=num_moments, num_probes=2, bounds=bounds)
    for j in range(2):
        weights = probe_weights(eigenvalues.size, j)
        expected = exact_moments(eigenvalues, weights, result.interval, num_moments)
        # the condition of A − c is |c|/d; automatic bounds around one eigenvalue are 5 % of it wide
        np.testing.assert_allclose(result.mus[j], expected, atol=1e-9)


@given(st.integers(2, 80), st.booleans())
def test_two_moments_come_from_every_product(num_moments, check):
    A = Counted(diagonal(np.linspace(-1, 1, 100)))
    result = kpm(A, num_moments=num_moments, num_probes=3, bounds=(-1, 1), check=check)
    assert result.mus.shape == (3, num_moments)
    assert A.num_products == result.num_products == 3 * (num_moments // 2) + check * (1 + (num_moments // 2 > 32))


def test_products_for_automatic_bounds_are_counted():
    A = Counted(diagonal(np.linspace(-1, 1, 100)))
    result = kpm(A, num_moments=64)
    assert A.num_products == result.num_products == 32 + 33  # moments; 32 Lanczos steps and the check


def test_lanczos_coefficients_give_the_moments_of_the_same_probe():
    A = diagonal(semicircle(3000))
    result = kpm(A, num_moments=80, bounds=(-2.1, 2.1))
    lanczos = fast_lanczos(A, num_steps=40)
    same = moments_of_tridiagonal(lanczos.alphas[0], lanczos.betas[0], result.interval, 80)
    np.testing.assert_allclose(result.mus[0], same, atol=1e-13)


def test_the_gauss_rule_of_the_moments_is_that_of_lanczos():
    A = diagonal(semicircle(3000))
    gauss, lanczos = kpm(A, num_moments=40, bounds=(-2, 2)).gauss, fast_lanczos(A, num_steps=20)
    np.testing.assert_allclose(gauss.nodes[0], lanczos.nodes[0], atol=1e-9)
    np.testing.assert_allclose(gauss.weights[0], lanczos.weights[0], atol=1e-9)


@pytest.mark.slow
def test_a_complex_hermitian_operator_has_its_moments():
    eigenvalues = np.linspace(-1, 3, 60)
    A = rotated(eigenvalues, is_complex=True)
    result = kpm(A, num_moments=40, num_probes=400)
    expected = exact_moments(eigenvalues, np.full(60, 1 / 60), result.interval, 40)
    # the mean of 400 probes in 60 complex dimensions: a standard error of at most 1/√(400·61)
    np.testing.assert_allclose(result.mus.mean(axis=0), expected, atol=5 / np.sqrt(400 * 61))


@pytest.mark.slow
def test_single_precision_is_close_to_double():
    A = rotated(np.linspace(-1, 3, 200))
    single = kpm(A.astype(np.float32), bounds=(-1, 3))
    double = kpm(A, bounds=single.interval)
    assert single.dtype == "float32"
    # 128 steps, and errors grow with their square at the ends
    np.testing.assert_allclose(single.mus, double.mus, atol=128**2 * 1.2e-7 / 10)


def test_every_array_library_gives_the_same_moments(library):
    A = rotated(np.linspace(-1, 3, 50))
    expected = kpm(A.astype(library.real), num_moments=50, num_probes=3, bounds=(-1, 3)).mus
    found = kpm(library.array(A), num_moments=50, num_probes=3, bounds=(-1, 3)).mus
    np.testing.assert_allclose(found, expected, atol=library.rtol)


def test_probes_in_lockstep_are_the_same_as_one_by_one():
    A = rotated(np.linspace(-1, 3, 100))
    together, apart = (kpm(A, num_moments=64, num_probes=5, block_size=k) for k in (3, 1))
    assert (together.block_size, apart.block_size) == (3, 1)
    np.testing.assert_allclose(together.mus, apart.mus, atol=1e-12)


def test_given_start_vectors_give_their_local_density_of_states():
    A = np.diag([0.0, 1.0, 2.0])
    result = kpm(A, probes=np.array([1.0, 1.0, 0.0]), num_moments=20, bounds=(0, 2))
    np.testing.assert_allclose(
        result.mus[0], exact_moments(np.arange(2), np.full(2, 0.5), result.interval, 20), atol=1e-13
    )
    assert result.density().stderr.max() < 1e-8


def test_a_step_holds_three_vectors():
    n = 2**21
    diagonal_entries = np.linspace(-1, 1, n)
    A = as_operator(lambda x: diagonal_entries * x, shape=n, dtype="float64")
    kpm(A, num_moments=4, bounds=(-1.5, 1))
    tracemalloc.start()
    kpm(A, num_moments=20, bounds=(-1.5, 1), check=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.2 * 8 * n


# -- small and degenerate operators ------------------------------------------------------------------------------


@pytest.mark.parametrize("eigenvalues", [[0.0], [3.0], [0.0] * 5, [-7.0] * 4, [1.0, 2.0], [-1.0, 1.0]])
def test_trivial_operators_have_their_eigenvalues(eigenvalues):
    result = kpm(np.diag(eigenvalues), num_moments=64, num_probes=2)
    lo, hi = min(eigenvalues), max(eigenvalues)
    assert result.quantile(0.01) == pytest.approx(lo, abs=1e-6)
    assert result.quantile(0.99) == pytest.approx(hi, abs=1e-6)
    assert result.count(lo - 0.01, hi + 0.01).value == pytest.approx(len(eigenvalues))


@pytest.mark.parametrize("num_moments", [2, 3, 5, 33])
def test_any_number_of_moments_can_be_read_and_drawn(num_moments):
    result = kpm(diagonal(semicircle(500)), num_moments=num_moments)
    assert result.density(num_points=50).mass() == pytest.approx(1)
    assert result.count(-3, 3).value == pytest.approx(500)


# -- bounds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outlier", [1.001, 1.1, 50.0, -1e6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_spectrum_that_leaves_given_bounds_is_refused(outlier, dtype):
    eigenvalues = np.append(0.95 * semicircle(5000, radius=1), outlier).astype(dtype)
    with pytest.raises(ValueError, match=r"`bounds` must contain the spectrum; got \(-1, 1\), but .*Leave them out"):
        kpm(as_operator(lambda x: eigenvalues * x, shape=5001, dtype=dtype), bounds=(-1, 1))


def test_a_gross_departure_ends_the_run_at_once():
    A = Counted(diagonal(np.linspace(-100, 100, 50)))
    with pytest.raises(ValueError, match=r"\|μ\| = .* > 1 at moment 2 of probe 0"):
        kpm(A, bounds=(-1, 1), num_moments=1000, check=False)
    assert A.num_products == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds_may_end_at_an_eigenvalue(dtype):
    A = np.diag(np.linspace(-3, 7, 30)).astype(dtype)
    assert kpm(A, bounds=(-3, 7), num_moments=512, num_probes=4).mus.shape == (4, 512)


def test_automatic_bounds_recover_from_an_outlier_that_the_first_lanczos_run_missed(monkeypatch):
    # two steps see nothing of an outlier of mass 1e-4
    monkeypatch.setattr("specdens._kpm.kpm._BOUNDS_STEPS", (2, 64))
    eigenvalues = np.append(semicircle(10_000), 5.0)
    result = kpm(diagonal(eigenvalues), num_moments=200)
    assert result.interval.hi > 5
    assert result.num_products > 100 + 2 + 64
    expected = exact_moments(eigenvalues, probe_weights(10_001), result.interval, 200)
    np.testing.assert_allclose(result.mus[0], expected, atol=1e-11)


def test_automatic_bounds_give_up_in_words(monkeypatch):
    monkeypatch.setattr("specdens._kpm.kpm._BOUNDS_STEPS", (1, 1))
    with pytest.raises(ValueError, match=r"no bounds were found that contain the spectrum.*Give `bounds` that do"):
        kpm(diagonal(np.append(semicircle(1000), 50.0)))


# -- deflation ---------------------------------------------------------------------------------------------------


def test_a_deflated_operator_keeps_its_mass_and_its_bulk_keeps_out_of_zero():
    # zero, where the operator acts on the deflated subspace, is far outside the bulk: rounding must not grow there
    eigenvalues = np.concatenate([[100.0, -50.0], np.linspace(5, 6, 98)])
    A = deflate(np.diag(eigenvalues), pairs_of(eigenvalues[:2], np.eye(100)[:, :2]))
    result = kpm(A, num_moments=200, num_probes=3)
    assert result.interval.lo > 4.5
    assert result.interval.hi < 6.5
    density = result.density()
    assert density.atoms.positions.tolist() == [-50.0, 100.0]
    assert density.mass() == pytest.approx(1)
    assert result.count(4, 7).value == pytest.approx(98)


def test_an_operator_deflated_altogether_is_atoms():
    A = deflate(np.diag([1.0, 2.0]), pairs_of([1.0, 2.0], np.eye(2)))
    result = kpm(A)
    assert result.num_products == 0
    assert result.density().mass() == pytest.approx(1)
    assert result.cdf(1.5) == pytest.approx(0.5)


# -- messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_moments": 1}, ValueError, "`num_moments` must be at least 2; got 1"),
        ({"num_moments": 2.5}, TypeError, "`num_moments` must be an integer; got 2.5"),
        ({"num_probes": 0}, ValueError, "`num_probes` must be at least 1; got 0"),
        ({"bounds": (1, 0)}, ValueError, r"`bounds` must be finite and increasing; got \(1, 0\)"),
        ({"bounds": 3}, TypeError, r"`bounds` must be a pair \(lo, hi\); got 3"),
        ({"probes": "sobol"}, ValueError, "`probes` must be gaussian or rademacher"),
        ({"probes": np.zeros(4), "bounds": (0, 9)}, ValueError, "`probes` must be finite and not within the deflated"),
    ],
)
def test_bad_arguments_are_refused_before_the_first_product(arguments, error, message):
    A = Counted(np.diag([1.0, 2.0, 3.0, 4.0]))
    with pytest.raises(error, match=message):
        kpm(A, **arguments)
    assert A.num_products == 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_products_that_are_not_finite_are_reported_with_step_and_probe(value):
    calls = []

    def product(x):
        calls.append(None)
        return x * (value if len(calls) > 4 else 0.5)

    A = as_operator(product, shape=10, dtype="float64")
    with pytest.raises(ValueError, match=r"A @ x returned (nan|inf) at step 5 of probe 0"):
        kpm(A, bounds=(-1, 1), check=False)


def test_an_operator_that_is_not_symmetric_is_refused():
    A = np.diag(np.linspace(0, 1, 500)) + np.diag(np.ones(499), 1)
    with pytest.raises(ValueError, match=r"the operator is not symmetric: ⟨r₀, r₂⟩ = .* but 2⟨r₁, r₁⟩ − 1 = "):
        kpm(A, bounds=(-3, 3))


def test_an_operator_that_is_not_hermitian_is_refused():
    A = np.diag(np.linspace(0, 1, 50) + 0.5j)
    with pytest.raises(ValueError, match=r"the operator is not Hermitian: ⟨v, Av⟩ = .* is not real"):
        kpm(A, bounds=(-3, 3))


def test_an_operator_that_is_not_deterministic_is_refused():
    rng = np.random.default_rng(0)
    A = as_operator(lambda x: x * rng.random(x.shape), shape=50, dtype="float64")
    with pytest.raises(ValueError, match="the operator is not deterministic"):
        kpm(A, bounds=(-3, 3))
