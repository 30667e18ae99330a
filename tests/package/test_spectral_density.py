"""The front door."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from spectra import diagonal, exact_w1, rotated, semicircle
from strategies import seeds, separated_spectra

import specdens as sd

METHODS = ("fast_lanczos", "slow_lanczos", "kpm")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("function", [None, "log", np.tanh])
@pytest.mark.parametrize("rank", [0, 3])
def test_every_method_function_and_rank_draws_mass_one(method, function, rank):
    A = diagonal(np.concatenate([semicircle(297), [5.0, -7.0, 9.0]]))
    density = sd.spectral_density(A, method=method, function=function, rank=rank, num_steps=40, num_probes=2)
    assert density.mass() + density.mass_outside == pytest.approx(1, rel=1e-9)
    assert density.axis == {None: "λ", "log": "log(|λ| + ε)"}.get(function, "f(λ)")
    assert density.measure.num_probes == 2
    if rank:
        images = {None: [-7.0, 5.0, 9.0], "log": np.log([5.0, 7.0, 9.0])}.get(function, np.tanh([-7.0, 5.0, 9.0]))
        assert np.allclose(density.atoms.positions, images, rtol=1e-5)
        assert np.allclose(density.atoms.masses, 1 / 300)
        assert density.outliers.values.size == 3
    else:
        assert density.outliers is None
    assert density.notes == ()


def test_the_front_door_is_the_methods_own_call():
    A = diagonal(semicircle(500))
    density = sd.spectral_density(A, method="fast_lanczos", num_steps=30, num_probes=2, seed=7)
    direct = sd.fast_lanczos(A, num_steps=30, num_probes=2, seed=7).density()
    assert np.array_equal(density.values, direct.values)
    assert np.array_equal(density.grid, direct.grid)
    assert sd.spectral_density(A, method="kpm", num_steps=30).measure.num_moments == 60


@pytest.mark.slow
def test_default_steps_are_128_and_2048_for_log_and_the_dimension_at_most():
    large, small = diagonal(semicircle(2500)), diagonal(semicircle(60))
    assert sd.spectral_density(large).measure.num_steps == 128
    assert sd.spectral_density(large, function="log").measure.num_steps == 2048
    assert sd.spectral_density(large, function=np.exp).measure.num_steps == 128
    assert sd.spectral_density(small).measure.num_steps == 60
    assert sd.spectral_density(small, function="log").measure.num_steps == 60
    assert sd.spectral_density(small, rank=10).measure.num_steps <= 50


@given(eigenvalues=separated_spectra(max_distinct=5, max_multiplicity=3), seed=seeds, data=st.data())
def test_deflation_of_any_rank_keeps_mass_one_with_atoms_of_1_over_n(eigenvalues, seed, data):
    n = eigenvalues.size
    rank = data.draw(st.integers(1, n))
    A = rotated(eigenvalues, seed)
    pairs = sd.top_eigenpairs(A, rank=rank, seed=seed + 1)
    density = sd.fast_lanczos(sd.deflate(A, pairs), seed=seed).density()
    assert density.mass() + density.mass_outside == pytest.approx(1, rel=1e-9)
    assert density.measure.known_atoms.mass() == pytest.approx(rank / n)
    distance = np.min(np.abs(pairs.values[:, None] - eigenvalues), axis=1)
    assert np.all(distance <= 1e-6 * np.max(np.abs(eigenvalues)))


@pytest.mark.parametrize("method", ["fast_lanczos", "slow_lanczos"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_matrix_of_low_rank_deflated_by_it_is_zero_to_rounding(method, dtype):
    A = rotated(np.concatenate([[5.0, -3.0], np.zeros(58)])).astype(dtype)
    density = sd.spectral_density(A, rank=2, method=method)
    assert np.allclose(density.measure.known_atoms.positions, [-3, 5], rtol=1e-5)
    assert density.measure.count(-1e-3, 1e-3).value == pytest.approx(58, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_outliers_far_above_the_bulk_do_not_hide_it(dtype):
    eigenvalues = np.concatenate([[1e4, 2e4], semicircle(300)])
    density = sd.spectral_density(diagonal(eigenvalues).astype(dtype), rank=2, num_steps=40)
    assert density.measure.num_steps == 40
    assert density.measure.bounds() == pytest.approx((-2, 2), abs=0.05)


def test_a_given_vector_within_the_deflated_subspace_is_refused():
    A = rotated(np.array([5.0, 1.0, 2.0, 3.0]))
    pairs = sd.top_eigenpairs(A, rank=1)
    with pytest.raises(ValueError, match=r"`probes` must be finite and not within the deflated subspace; got norms"):
        sd.fast_lanczos(sd.deflate(A, pairs), probes=pairs.vectors[:, 0])


def test_deflating_one_of_many_copies_leaves_the_others():
    A = diagonal(np.concatenate([np.full(50, 10.0), np.linspace(-1, 1, 950)]))
    value, stderr = sd.spectral_density(A, rank=1).measure.count(9, 11)
    assert value == pytest.approx(50, abs=4 * stderr)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("function", [None, "log", np.exp])
def test_rank_n_leaves_atoms_alone(method, function):
    density = sd.spectral_density(np.diag([1.0, 2.0, 2.0, 5.0]), rank=4, method=method, function=function)
    assert np.all(density.values == 0)
    assert density.atoms.mass() == pytest.approx(1)
    assert density.measure.count(2, 2).value == pytest.approx(2)
    assert density.measure.trace(np.square).value == pytest.approx(34)
    assert density.measure.quantile(0.5) == pytest.approx(2)


# -- tolerance ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [0.02, 0.005, 0.002])
def test_a_tolerance_is_reached_and_the_note_says_so(tol):
    eigenvalues = semicircle(4000)
    density = sd.spectral_density(diagonal(eigenvalues), tol=tol, num_steps=8, max_products=20_000)
    (note,) = density.notes
    assert f"tol = {tol:g} reached in {density.measure.num_products} of 20000 products" in note
    assert note in repr(density)
    # the estimate is an expectation: twice it is rarely passed
    assert exact_w1(density.measure.bulk_cdf, eigenvalues) <= 2 * tol * 4


def test_a_budget_is_kept_and_the_note_says_that_it_was_spent():
    A = sd.Counted(diagonal(semicircle(4000)))
    density = sd.spectral_density(A, tol=1e-6, max_products=300, num_probes=2)
    (note,) = density.notes
    assert A.num_products == density.measure.num_products <= 300
    assert f"tol = 1e-06 not reached; {A.num_products} of 300 products were spent" in note
    assert "would help most" in note


def test_a_spectrum_that_is_found_exactly_needs_no_budget():
    density = sd.spectral_density(np.diag(np.repeat([1.0, 2.0], 500)), tol=0.1, method="fast_lanczos")
    assert "reached" in density.notes[0]
    assert density.measure.num_products < 10


def test_a_smaller_tolerance_takes_more_products():
    A = diagonal(semicircle(4000))
    used = [sd.spectral_density(A, tol=tol, num_steps=8).measure.num_products for tol in (0.05, 0.01, 0.004)]
    assert used == sorted(used)
    assert used[0] < used[-1]


@pytest.mark.parametrize(("rank", "budget"), [(0, 400), (3, 600)])
def test_a_budget_alone_is_split_between_steps_and_probes(rank, budget):
    A = sd.Counted(diagonal(np.append(semicircle(3997), [9.0, 12.0, 20.0])))
    density = sd.spectral_density(A, max_products=budget, rank=rank)
    assert 0.8 * budget <= A.num_products <= budget
    assert f"{A.num_products} of {budget} products were spent" in density.notes[0]
    assert density.measure.num_probes > 4
    assert density.measure.num_steps >= 10


@pytest.mark.slow
def test_the_tolerance_takes_products_where_the_error_is():
    eigenvalues = semicircle(4000)
    met = []
    for seed in range(6):
        density = sd.spectral_density(diagonal(eigenvalues), tol=0.003, seed=seed)
        assert density.measure.num_products <= 700  # steps first: 1,500
        met.append(exact_w1(density.measure.bulk_cdf, eigenvalues) <= 0.003 * 4)
    assert np.mean(met) >= 0.8


# -- known moments -----------------------------------------------------------------------------------------------------


def test_explicit_matrices_have_their_exact_trace_and_norm():
    eigenvalues = np.append(semicircle(2995), [4.0, 5.0, 6.0, 7.0, 8.0])
    A = diagonal(eigenvalues).tocsr()
    for options in ({}, {"rank": 2}, {"tol": 0.01}):
        measure = sd.spectral_density(A, num_steps=32, num_probes=2, **options).measure
        assert measure.moments(3)[1:] == pytest.approx([np.mean(eigenvalues), np.mean(eigenvalues**2)], rel=1e-3)
    named = sd.spectral_density(A, num_steps=32, num_probes=2, method="fast_lanczos").measure
    assert abs(named.moments(3)[2] / np.mean(eigenvalues**2) - 1) > 1e-3


def test_moments_that_are_known_reduce_errors_and_products():
    eigenvalues = semicircle(4000)
    A = sd.as_operator(lambda x: (eigenvalues * x.T).T, shape=(4000, 4000), dtype="float64")
    moments = [np.mean(eigenvalues), np.mean(eigenvalues**2)]
    plain, known = (sd.spectral_density(A, tol=0.005, known_moments=m).measure for m in (None, moments))
    assert known.num_products < 0.7 * plain.num_products


@pytest.mark.parametrize(
    ("moments", "message"),
    [
        ([1.0, 0.5], r"`known_moments` must have a mean of λ² of at least the squared mean of λ, 1; got 0\.5"),
        ([np.nan], r"`known_moments` must be one to 7 finite numbers, .*; got \[nan\]"),
        (np.ones(8), "`known_moments` must be one to 7 finite numbers"),
    ],
)
def test_what_cannot_be_moments_is_refused(moments, message):
    with pytest.raises(ValueError, match=message):
        sd.spectral_density(np.eye(3), known_moments=moments)


# -- small operators ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 30, 400])
@pytest.mark.parametrize("kind", ["dense", "sparse", "complex"])
def test_small_matrices_are_exact(n, kind):
    rng = np.random.default_rng(n)
    A = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if kind == "complex" else 0)
    A = (A + A.conj().T) / 2
    exact = np.linalg.eigvalsh(A)
    density = sd.spectral_density(scipy.sparse.csr_array(A) if kind == "sparse" else A)
    measure = density.measure
    assert f"all {n} eigenvalues were computed" in density.notes[0]
    assert measure.num_products == 0
    assert np.allclose(measure.cdf(exact), np.arange(1, n + 1) / n)
    value, stderr = measure.trace(np.exp)
    assert value == pytest.approx(np.sum(np.exp(exact)), rel=1e-9)
    assert stderr <= 1e-6 * value
    assert density.mass() + density.mass_outside == pytest.approx(1)
    assert (density.atoms.positions.size == n) == (n <= 32)


def test_the_smallest_example_has_two_equal_atoms():
    density = sd.spectral_density([[1.0, 2.0], [2.0, 1.0]])
    assert np.allclose(density.atoms.positions, [-1, 3])
    assert np.allclose(density.atoms.masses, [0.5, 0.5])


def test_a_function_is_exact_where_that_takes_no_more_products_than_asked_for():
    d = np.linspace(-1, 1, 100)
    for n_products, options in ((100, {}), (61, {"num_steps": 30, "num_probes": 2})):
        A = sd.Counted(sd.as_operator(lambda x: (d * x.T).T, shape=(100, 100), dtype="float64"))
        density = sd.spectral_density(A, **options)
        assert A.num_products == density.measure.num_products == n_products
        assert (density.measure.method == "exact") == (n_products == 100)


def test_a_method_asked_for_by_name_does_what_it_says():
    density = sd.spectral_density(np.diag(np.linspace(-1, 1, 50)), method="fast_lanczos", num_probes=1)
    assert density.measure.method == "fast_lanczos"
    assert density.measure.num_products == 52  # two of them checks


def test_multiplicities_are_exact_too():
    density = sd.spectral_density(rotated(np.repeat([1.0, 2.0, 5.0], [10, 20, 30])))
    assert np.allclose(density.atoms.masses, [1 / 6, 1 / 3, 1 / 2])


def test_a_small_matrix_that_is_not_symmetric_is_refused():
    with pytest.raises(ValueError, match="not symmetric"):
        sd.spectral_density(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.5], [3.0, 0.0, 2.0]]))


def test_probes_are_chosen_by_size_and_said():
    density = sd.spectral_density(diagonal(semicircle(2000)), num_steps=20)
    assert density.measure.num_probes == 4
    assert "4 probes of 20 steps were chosen for 2000 eigenvalues" in density.notes
    assert sd.spectral_density(diagonal(semicircle(9000)), num_steps=10).measure.num_probes == 1


def test_a_matrix_of_low_rank_is_deflated_with_several_probes():
    A = rotated(np.concatenate([[5.0, -3.0], np.zeros(58)]))
    assert sd.spectral_density(A, rank=2, num_probes=8).measure.count(-1e-3, 1e-3).value == pytest.approx(58, rel=1e-6)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "arnoldi"}, ValueError, r"`method` must be one of fast_lanczos, slow_lanczos, kpm; got 'arnoldi'"),
        ({"rank": 4}, ValueError, r"`rank` must be at most the dimension \(3\); got 4"),
        ({"rank": -1}, ValueError, r"`rank` must be at least 0; got -1"),
        ({"rank": 1.5}, TypeError, r"`rank` must be an integer; got 1\.5"),
        ({"function": "exp"}, ValueError, r'`function` must be None, "log" or a function; got \'exp\''),
        ({"function": 3}, ValueError, r'`function` must be None, "log" or a function; got 3'),
        ({"tol": 0.0}, ValueError, r"`tol` must be positive and finite; got 0"),
        ({"tol": "small"}, TypeError, r"`tol` must be a number; got 'small'"),
        ({"tol": 0.1, "method": "kpm"}, ValueError, r'`tol` needs method="fast_lanczos", .*; got \'kpm\''),
        ({"max_products": 9, "method": "kpm"}, ValueError, r'`max_products` needs method="fast_lanczos", .*; got'),
        ({"tol": 0.1, "max_products": 0}, ValueError, r"`max_products` must be at least 1; got 0"),
        ({"tol": 0.1, "max_products": 3, "num_probes": 3}, ValueError, r"`max_products` must allow 4, .*; got 3"),
        ({"num_steps": 0}, ValueError, r"`num_steps` must be at least 1; got 0"),
        ({"seed": None}, TypeError, r"`seed` must be an integer; got None\. The same seed gives the same result"),
        ({"seed": None, "rank": 1}, TypeError, r"`seed` must be an integer; got None"),
        ({"seed": "a"}, TypeError, r"`seed` must be an integer; got 'a'"),
        ({"function": math.exp}, TypeError, r"`function` must take arrays: np\.exp .* do, math\.exp .* do not"),
        ({"num_probes": 0}, ValueError, r"`num_probes` must be at least 1; got 0"),
        ({"tol": 0.1, "num_probes": 0}, ValueError, r"`num_probes` must be at least 1; got 0"),
    ],
)
def test_bad_input_is_refused_before_the_first_product(options, error, message):
    A = sd.Counted(np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(error, match=message):
        sd.spectral_density(A, **options)
    assert A.num_products == 0


def test_more_pairs_than_dimensions_cannot_be_deflated():
    A = np.diag([1.0, 2.0, 3.0])
    pairs = sd.top_eigenpairs(A, rank=2)
    with pytest.raises(ValueError, match=r"`pairs` must have at most 1 eigenpairs, the dimension; got 2"):
        sd.deflate(sd.deflate(A, pairs), pairs)


@pytest.mark.parametrize("options", [{}, {"rank": 2}, {"tol": 0.1}, {"method": "kpm"}, {"method": "slow_lanczos"}])
def test_more_steps_than_eigenvalues_are_cut_with_a_note(options):
    A = np.diag(np.arange(1.0, 51.0))
    density = sd.spectral_density(A, num_steps=500, **options)
    most = 50 - options.get("rank", 0)
    assert density.measure.num_steps <= most
    assert density.notes[0].startswith(f"{most} steps instead of 500: no more than the 50 eigenvalues")
    assert not any("instead of" in note for note in sd.spectral_density(A, num_steps=20, **options).notes)


def test_an_array_is_not_a_function():
    with pytest.raises(ValueError, match='`function` must be None, "log" or a function'):
        sd.spectral_density(np.eye(3), function=np.ones(3))


def test_a_cheap_sparse_matrix_takes_more_probes_counted_or_not():
    A = sp.diags_array(np.linspace(0.0, 1.0, 20_000)).tocsr()
    density, counted = sd.spectral_density(A, num_steps=8), sd.spectral_density(sd.Counted(A), num_steps=8)
    assert density.measure.num_probes == counted.measure.num_probes == 4
    assert any("4 probes" in note for note in density.notes)
