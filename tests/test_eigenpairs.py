"""Laws of `subspace_iteration` and `top_eigenpairs`, against dense linear algebra and ARPACK."""

from __future__ import annotations

import dataclasses

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from hypothesis import given, settings
from hypothesis import strategies as st

from specdens import Counted, SpecdensWarning, as_operator, deflate, subspace_iteration, top_eigenpairs
from specdens._top_eigenpairs import preference

WHICH = ("magnitude", "largest", "smallest", "both")
BOTH = pytest.mark.parametrize("method", [subspace_iteration, top_eigenpairs])


def with_spectrum(eigenvalues, seed=0, dtype="float64"):
    """Return a dense Hermitian matrix with the given eigenvalues and random eigenvectors."""
    rng = np.random.default_rng(seed)
    n = len(eigenvalues)
    G = rng.standard_normal((n, n))
    if dtype.startswith("complex"):
        G = G + 1j * rng.standard_normal((n, n))
    Q = np.linalg.qr(G)[0]
    A = (Q * np.asarray(eigenvalues, dtype=float)) @ Q.conj().T
    return ((A + A.conj().T) / 2).astype(dtype)


def outliers(n=300, values=(-12.0, 9.0, 7.0, 5.0)):
    return np.concatenate([values, np.linspace(-1, 1, n - len(values))])


def expected(eigenvalues, rank, which):
    eigenvalues = np.sort(np.asarray(eigenvalues))
    chosen = eigenvalues[preference(eigenvalues, which)[:rank]]
    return -np.sort(-chosen) if which == "both" else chosen


def true_residuals(A, pairs):
    V = np.asarray(pairs.vectors)
    return np.linalg.norm(A @ V - V * pairs.values, axis=0) / np.abs(pairs.values)


def assert_orthonormal(pairs, atol=1e-12):
    V = np.asarray(pairs.vectors)
    np.testing.assert_allclose(V.conj().T @ V, np.eye(pairs.rank), atol=atol)


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


# -- array libraries -----------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_torch_operators_give_torch_vectors(method, dtype):
    torch = pytest.importorskip("torch")
    A = torch.from_numpy(with_spectrum(outliers(), dtype=dtype))
    pairs = method(A, rank=4)
    assert isinstance(pairs.vectors, torch.Tensor)
    assert pairs.vectors.dtype == A.dtype
    assert tuple(pairs.vectors.shape) == (300, 4)
    np.testing.assert_allclose(pairs.values, [-12, 9, 7, 5], rtol=1e-5)


@BOTH
def test_jax_operators_give_jax_vectors(method):
    jax = pytest.importorskip("jax")
    pairs = method(jax.numpy.asarray(with_spectrum(outliers(), dtype="float32")), rank=4)
    assert isinstance(pairs.vectors, jax.Array)
    assert pairs.vectors.dtype == np.float32
    np.testing.assert_allclose(pairs.values, [-12, 9, 7, 5], rtol=1e-5)
    assert_orthonormal(pairs, atol=1e-5)


@BOTH
def test_nothing_but_the_array_api_standard_is_needed(method):
    pairs = method(array_api_strict.asarray(with_spectrum(outliers(100))), rank=4)
    assert type(pairs.vectors) is type(array_api_strict.asarray(0.0))
    np.testing.assert_allclose(pairs.values, [-12, 9, 7, 5], rtol=1e-5)


@pytest.mark.parametrize("library", ["torch", "jax", "strict"])
def test_restarts_and_trials_work_in_every_library(library):
    A = with_spectrum(np.repeat(np.linspace(-1, 1, 40) ** 3, 2), dtype="float64" if library != "jax" else "float32")
    convert = {
        "torch": lambda: pytest.importorskip("torch").from_numpy(A),
        "jax": lambda: pytest.importorskip("jax").numpy.asarray(A),
        "strict": lambda: array_api_strict.asarray(A),
    }[library]
    pairs = top_eigenpairs(convert(), rank=4, basis_size=9, which="largest")
    np.testing.assert_allclose(pairs.values, expected(np.linalg.eigvalsh(A), 4, "largest"), rtol=1e-5)


# -- the result ----------------------------------------------------------------------------------------------------


def test_the_result_is_frozen_and_shows_its_pairs():
    pairs = top_eigenpairs(with_spectrum(outliers()), rank=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        pairs.values = None
    lines = repr(pairs).splitlines()
    assert lines[0].startswith("EigenPairs(2 pairs, 2 converged, ")
    assert lines[2].split()[:2] == ["0", "-12"]
    assert "⋮" in repr(top_eigenpairs(np.eye(30), rank=25))


# -- doubtful results ----------------------------------------------------------------------------------------------


def test_subspace_iteration_names_the_pairs_that_did_not_converge():
    A = with_spectrum(outliers(values=(-12.0, 9.0)))
    with pytest.warns(SpecdensWarning, match=r"1 of 3 eigenpairs .* tol=0.001 in 30 products: pairs 2 \(value"):
        pairs = subspace_iteration(A, rank=3, num_iters=10)
    assert pairs.converged.tolist() == [True, True, False]
    assert "not converged" in repr(pairs)


def test_top_eigenpairs_names_the_pairs_that_did_not_converge_and_the_remedy():
    A = with_spectrum(outliers(values=(-12.0, 9.0)))
    with pytest.warns(SpecdensWarning, match=r"pairs 2 \(value -?[01]\.\d+, residual .*Raise `max_products`") as record:
        pairs = top_eigenpairs(A, rank=3, max_products=20)
    assert pairs.num_products == 20
    assert record[0].filename == __file__
    np.testing.assert_allclose(pairs.residuals, true_residuals(A, pairs), rtol=1e-3, atol=1e-12)


def test_many_unconverged_pairs_are_counted():
    A = with_spectrum(np.linspace(-1, 1, 100))
    with pytest.warns(SpecdensWarning, match=r"of 9 eigenpairs .*, and \d more"):
        top_eigenpairs(A, rank=9, max_products=9)


def test_a_tolerance_below_rounding_is_named_as_such():
    A = with_spectrum(outliers(), dtype="float32")
    with pytest.warns(SpecdensWarning, match=r"Rounding in float32 alone leaves .*raise `tol`, or use float64"):
        top_eigenpairs(A, rank=4, tol=1e-8)


def test_float32_pairs_converge_quietly_and_truly_at_the_default_tolerance():
    A = with_spectrum(outliers(), dtype="float32")
    pairs = top_eigenpairs(A, rank=4)
    assert pairs.converged.all()
    assert true_residuals(A.astype(float), pairs).max() < 4e-4


# -- bad input -----------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 0}, "`rank` must be at least 1; got 0"),
        ({"rank": 5}, r"`rank` must be at most the dimension \(4\); got 5"),
        ({"rank": 1, "tol": 0.0}, "`tol` must be positive and finite; got 0"),
        ({"rank": 1, "tol": float("nan")}, "`tol` must be positive and finite; got nan"),
    ],
)
def test_values_out_of_range_are_refused(method, arguments, message):
    with pytest.raises(ValueError, match=message):
        method(np.eye(4), **arguments)


@BOTH
def test_a_rank_that_is_not_an_integer_is_refused(method):
    with pytest.raises(TypeError, match=r"`rank` must be an integer; got 2\.5"):
        method(np.eye(4), rank=2.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"which": "LM"}, "`which` must be one of magnitude, largest, smallest, both; got 'LM'"),
        ({"max_products": 1}, "`max_products` must be at least 2; got 1"),
        ({"basis_size": 5}, "`basis_size` must be at least 6; got 5"),
    ],
)
def test_arguments_of_top_eigenpairs_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        top_eigenpairs(np.eye(40), rank=2, **arguments)


def test_subspace_iteration_needs_an_iteration():
    with pytest.raises(ValueError, match="`num_iters` must be at least 1; got 0"):
        subspace_iteration(np.eye(4), rank=1, num_iters=0)


@BOTH
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_product_that_is_not_finite_is_named_by_its_number(method, bad):
    A, count = with_spectrum(outliers()), 0

    def matmul(x):
        nonlocal count
        count += 1
        y = A @ x
        if count == 8:
            y[5] = bad
        return y

    with pytest.raises(ValueError, match="A @ x returned nan or inf at product 8: the operator, or the model"):
        method(as_operator(matmul, shape=300, dtype="float64"), rank=3)


@BOTH
def test_an_operator_that_is_not_symmetric_is_refused(method):
    A = np.diag(np.linspace(1, 2, 200)) + np.diag(np.ones(199), 1)
    with pytest.raises(ValueError, match=r"the operator is not symmetric \(Hermitian\): ⟨v, A w⟩ = "):
        method(A, rank=3)
