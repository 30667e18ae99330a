"""Laws of `subspace_iteration` and `top_eigenpairs`, against dense linear algebra and ARPACK."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from eigenproblems import BOTH, WHICH, assert_orthonormal, expected, outliers, true_residuals, with_spectrum
from hypothesis import given, settings
from hypothesis import strategies as st

from specdens import Counted, as_operator, deflate, subspace_iteration, top_eigenpairs
from specdens._eigenpairs.krylov_basis import KrylovBasis
from specdens._eigenpairs.multiplicity_trial import shows_a_copy

# -- agreement with dense linear algebra ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("rank", [1, 4, 7])
def test_every_end_of_a_dense_spectrum_agrees_with_eigvalsh(which, rank, dtype):
    eigenvalues = np.random.default_rng(3).standard_normal(120)
    A = with_spectrum(eigenvalues, dtype=dtype)
    pairs = top_eigenpairs(A, rank=rank, which=which)
    np.testing.assert_allclose(pairs.values, expected(np.linalg.eigvalsh(A), rank, which), rtol=1e-9)
    assert true_residuals(A, pairs).max() <= 1e-6
    assert pairs.vectors.dtype == dtype
    assert_orthonormal(pairs)


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_outliers_are_found_with_their_signs_in_order_of_magnitude(method, dtype):
    A = with_spectrum(outliers(), dtype=dtype)
    pairs = method(A, rank=4)
    np.testing.assert_allclose(pairs.values, [-12, 9, 7, 5], rtol=1e-5)
    assert pairs.values.dtype == pairs.residuals.dtype == np.float64
    assert pairs.converged.all()
    assert_orthonormal(pairs, atol=1e-5 if dtype in ("float32", "complex64") else 1e-12)


@BOTH
@pytest.mark.parametrize("tol", [1e-2, 1e-5])
def test_residuals_are_those_of_fresh_products(method, tol):
    A = with_spectrum(outliers())
    pairs = method(A, rank=4, tol=tol)
    true = true_residuals(A, pairs)
    assert np.all(true <= pairs.residuals * 1.001)
    assert np.all(pairs.residuals <= 1.5 * true + 1e-12)
    assert np.all(pairs.residuals <= tol)


def test_residuals_are_genuine_after_many_restarts_and_trials():
    eigenvalues = np.repeat(np.linspace(0.1, 3.0, 60), 3)
    A = with_spectrum(eigenvalues)
    pairs = top_eigenpairs(A, rank=7, which="smallest", basis_size=14)
    assert pairs.num_products > 60
    np.testing.assert_allclose(pairs.values, expected(eigenvalues, 7, "smallest"), rtol=1e-8)
    true = true_residuals(A, pairs)
    assert np.all(true <= pairs.residuals * 1.001 + 1e-13)
    assert_orthonormal(pairs)


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-14), ("complex128", 1e-14), ("float32", 1e-6)])
def test_the_basis_stays_orthonormal_to_rounding_after_convergence_restarts_and_new_chains(dtype, bound):
    """One pass over the basis is enough, also where eigenvectors have converged and β is small."""
    eigenvalues = np.concatenate([[1e6, 1e3, 1e3, 50.0], np.linspace(-1, 1, 396)])
    basis = KrylovBasis(as_operator(with_spectrum(eigenvalues, dtype=dtype)), 40, seed=1)
    for _ in range(3):
        basis.begin_chain()
        while basis.has_tail and not basis.must_shrink:
            basis.extend()
        theta, Y, _, _ = basis.ritz()
        V = basis.V[: basis.size]
        np.testing.assert_allclose(V.conj() @ V.T, np.eye(basis.size), atol=bound)
        basis.restart(theta[-8:], Y[:, -8:], keep_tail=False)
        V = basis.V[: basis.size]
        np.testing.assert_allclose(V.conj() @ V.T, np.eye(basis.size), atol=2 * bound)


@settings(deadline=None, max_examples=25)
@given(
    eigenvalues=st.lists(st.integers(-6, 6), min_size=1, max_size=14),
    rank=st.integers(1, 14),
    which=st.sampled_from(WHICH),
    seed=st.integers(0, 3),
)
def test_small_spectra_are_found_with_every_multiplicity(eigenvalues, rank, which, seed):
    rank = min(rank, len(eigenvalues))
    A = with_spectrum(eigenvalues, seed)
    pairs = top_eigenpairs(A, rank=rank, which=which, seed=seed)
    size = max(1.0, max(map(abs, eigenvalues)))
    wanted = np.sort(expected(np.asarray(eigenvalues, dtype=float), rank, which))
    values = np.sort(pairs.values)
    if which == "magnitude":  # +5 and −5 tie
        wanted, values = np.sort(np.abs(wanted)), np.sort(np.abs(values))
    np.testing.assert_allclose(values, wanted, atol=1e-8 * size)
    assert_orthonormal(pairs)
    assert pairs.num_products <= 2 * len(eigenvalues)


# -- multiple eigenvalues ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rank", [3, 5])
def test_multiple_outliers_are_found_with_their_multiplicity(rank, seed):
    d = np.concatenate([[10.0] * 3, [5.0] * 2, np.linspace(-1, 1, 2000)])
    pairs = top_eigenpairs(sp.diags_array(d), rank=rank, seed=seed)
    np.testing.assert_allclose(pairs.values, [10, 10, 10, 5, 5][:rank], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2_000, 50_000])
@pytest.mark.parametrize(
    ("planted", "rank", "which"),
    [([10, 10, 5], 2, "magnitude"), ([2, 2, 1.5], 2, "largest"), ([-2, -2, -1.5], 2, "smallest"),
     ([2, 2, 1.7, -1.5, -1.5, -1.3], 4, "both"), ([-3, -3, 2, 1.5], 2, "magnitude"),
     ([3, 2.8, -3, -3, -2.8], 4, "both"), ([3, 3, 2.8, -3, -2.8], 3, "both")],
)  # fmt: skip
def test_copies_are_seldom_missed_where_the_next_eigenvalue_converges_in_their_place(planted, rank, which, size):
    """Twice in twenty at most: the first chain takes few products, and a quarter of them would miss most copies."""
    d = np.concatenate([planted, np.linspace(-1, 1, size)])
    A, wanted = sp.diags_array(d).tocsr(), np.sort(expected(d, rank, which))
    found = [np.sort(top_eigenpairs(A, rank=rank, which=which, seed=seed).values) for seed in range(20)]
    assert sum(np.allclose(values, wanted, rtol=1e-6) for values in found) >= 18


@pytest.mark.parametrize(("value", "residual", "answer"), [(1.2, 0.9, True), (1.2, 0.3, False), (0.9, 0.9, False)])
@pytest.mark.parametrize("which", ["magnitude", "largest", "smallest", "both"])
def test_a_trial_goes_on_while_a_mixture_may_hold_a_wanted_eigenvector(which, value, residual, answer):
    """Beyond an unwanted spectrum up to 1, θ and r of a mixture allow θ + r²/(θ − 1): 5.25, or 1.65, against 3."""
    sign = -1.0 if which == "smallest" else 1.0
    wanted = np.array([3.0, -3.0]) if which == "both" else sign * np.array([4.0, 3.0])
    rest = np.linspace(-1, 1, 5)
    assert shows_a_copy(sign * value, residual, wanted, rest, which, 1e-6) is answer


@pytest.mark.parametrize("which", WHICH)
def test_double_eigenvalues_of_the_laplacian_are_found_twice(which):
    m = 12
    x = 2 - 2 * np.cos(np.arange(1, m + 1) * np.pi / (m + 1))
    T = sp.diags_array([-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1])
    A = sp.kron(T, sp.eye_array(m)) + sp.kron(sp.eye_array(m), T)
    pairs = top_eigenpairs(A, rank=8, which=which)
    np.testing.assert_allclose(pairs.values, expected((x[:, None] + x).ravel(), 8, which), rtol=1e-8)


@pytest.mark.parametrize(
    ("A", "rank", "values", "products"),
    [
        (np.eye(60) + np.ones((60, 60)), 4, [61, 1, 1, 1], 5),
        (np.zeros((40, 40)), 3, [0, 0, 0], 4),
        (5 * np.eye(30), 30, [5] * 30, 30),
        (-2 * np.eye(30), 2, [-2, -2], 3),
        (np.array([[3.0]]), 1, [3], 1),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), 2, None, 2),
        (np.diag([1e-30, 2e-30, 0.0]), 2, [2e-30, 1e-30], 3),
        (np.diag([1e30, 2e30, 0.0]), 2, [2e30, 1e30], 3),
    ],
)
def test_degenerate_operators_take_no_more_products_than_they_have_to(A, rank, values, products):
    pairs = top_eigenpairs(A, rank=rank)
    if values is None:
        np.testing.assert_allclose(np.sort(pairs.values), [-1, 1], rtol=1e-12)
    else:
        np.testing.assert_allclose(pairs.values, values, rtol=1e-12, atol=0)
    assert pairs.num_products == products
    assert pairs.converged.all()
    assert_orthonormal(pairs)


@BOTH
def test_zero_eigenvalues_are_judged_against_the_largest(method):
    B = np.random.default_rng(0).standard_normal((80, 3))
    pairs = method(B @ B.T, rank=6)
    assert pairs.converged.all()
    np.testing.assert_allclose(pairs.values[:3], np.linalg.eigvalsh(B.T @ B)[::-1], rtol=1e-6)
    np.testing.assert_allclose(pairs.values[3:], 0, atol=1e-12)


def test_without_the_trial_products_are_saved_and_copies_are_missed():
    d = np.concatenate([[10.0] * 2, [5.0], np.linspace(-1, 1, 2000)])
    A = sp.diags_array(d)
    full, short = (top_eigenpairs(A, rank=2, trial=trial) for trial in (True, False))
    np.testing.assert_allclose(full.values, [10, 10], rtol=1e-9)
    np.testing.assert_allclose(short.values, [10, 5], rtol=1e-9)
    assert short.converged.all()
    assert true_residuals(A, short).max() <= 1e-6
    assert short.num_products < full.num_products


def test_without_the_trial_an_invariant_subspace_does_not_end_the_search():
    pairs = top_eigenpairs(np.eye(60) + np.ones((60, 60)), rank=4, trial=False)
    np.testing.assert_allclose(pairs.values, [61, 1, 1, 1], rtol=1e-12)


# -- what it costs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("which", "code"), [*zip(WHICH, ("LM", "LA", "SA", "BE"), strict=True)])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_products_on_planted_outliers_are_at_most_1_3_times_those_of_arpack(which, code, tol):
    rng = np.random.default_rng(0)
    d = rng.uniform(-1, 1, 20000)
    d[:10] = np.linspace(2, 20, 10) * ([1, -1] * 5 if which == "both" else [-1 if which == "smallest" else 1] * 10)
    A = sp.diags_array(d).tocsr()
    count = 0

    def counted(x):
        nonlocal count
        count += 1
        return A @ x

    operator = sla.LinearOperator(A.shape, matvec=counted, dtype=np.float64)
    sla.eigsh(operator, k=10, which=code, tol=tol, v0=rng.standard_normal(20000))
    pairs = top_eigenpairs(A, rank=10, which=which, tol=tol)
    assert pairs.num_products <= 1.3 * count
    assert true_residuals(A, pairs).max() <= tol
    np.testing.assert_allclose(pairs.values, expected(d, 10, which), rtol=tol**1.5)


@BOTH
def test_the_number_of_products_is_what_the_operator_counts(method):
    A = Counted(with_spectrum(outliers()))
    pairs = method(A, rank=3)
    assert pairs.num_products == A.num_products
    assert pairs.seconds > 0


def test_subspace_iteration_stops_as_soon_as_it_has_converged():
    A = with_spectrum(outliers())
    loose, tight = (subspace_iteration(A, rank=4, tol=tol) for tol in (1e-1, 1e-6))
    assert loose.num_products < tight.num_products < 128 * 4
    assert loose.num_products % 4 == 0


@BOTH
def test_the_same_seed_gives_the_same_pairs_and_another_seed_the_same_values(method):
    A = with_spectrum(outliers())
    first, again, other = (method(A, rank=3, tol=1e-5, seed=seed) for seed in (0, 0, 7))
    np.testing.assert_array_equal(first.vectors, again.vectors)
    np.testing.assert_allclose(first.values, other.values, rtol=1e-8)


def test_a_small_basis_gives_the_same_values_for_more_products():
    eigenvalues = np.linspace(0, 1, 400) ** 2
    A = sp.diags_array(eigenvalues)
    small, large = (top_eigenpairs(A, rank=4, basis_size=size) for size in (8, 60))
    np.testing.assert_allclose(small.values, large.values, rtol=1e-8)
    assert small.num_products > large.num_products


@BOTH
def test_a_deflated_operator_gives_the_pairs_of_the_rest(method):
    A = with_spectrum(outliers())
    first = method(A, rank=2, tol=1e-8)
    rest = method(deflate(A, first), rank=2, tol=1e-5)
    np.testing.assert_allclose(rest.values, [7, 5], rtol=1e-7)
    np.testing.assert_allclose(first.vectors.T @ rest.vectors, 0, atol=1e-12)


@pytest.mark.parametrize(("rank", "most"), [(10, 400), (6, 400)])
def test_a_rank_that_cuts_a_multiplet_of_both_signs_does_not_run_away(rank, most):
    # a hypercube: ±9 once, ±7 nine times each; before, signs that changed places kept the search going to its limit
    eigenvalues = np.repeat([9.0, -9.0, 7.0, -7.0], [1, 1, 9, 9])
    eigenvalues = np.append(eigenvalues, np.tile(np.linspace(-5, 5, 11), 40))
    for seed in range(4):
        pairs = top_eigenpairs(np.diag(eigenvalues), rank=rank, seed=seed)
        assert np.allclose(np.abs(pairs.values), np.sort(np.abs(eigenvalues))[::-1][:rank])
        assert pairs.num_products <= most
