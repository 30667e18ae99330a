"""XTrace: traces that few eigenvalues carry, compared with dense matrices."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import spectra
from slow_cases import slow_after

import specdens as sd


@pytest.mark.parametrize("seed", slow_after(1, range(5)))
def test_the_estrada_index_of_a_network_is_found_within_its_error(seed):
    G = nx.barabasi_albert_graph(600, 3, seed=seed)
    exact = np.sum(np.exp(np.linalg.eigvalsh(nx.to_numpy_array(G))))
    found = sd.xtrace(nx.adjacency_matrix(G).astype(float), np.exp, seed=seed)
    assert abs(found.value - exact) < 3 * found.stderr < 3e-3 * exact


@pytest.mark.slow
def test_errors_are_orders_smaller_than_those_of_probes_with_as_many_products():
    eigenvalues = 12 * (1.0 + np.arange(3000)) ** -0.5
    A, exact = spectra.diagonal(eigenvalues), np.sum(np.exp(eigenvalues))
    for seed in range(6):
        found = sd.xtrace(A, np.exp, num_vectors=10, seed=seed)
        measure = sd.fast_lanczos(A, num_steps=25, num_probes=found.num_products // 25, seed=seed)
        seen = 3000 * np.mean([w @ np.exp(x) for x, w in zip(measure.nodes, measure.weights, strict=True)])
        assert abs(found.value - exact) < 3 * found.stderr < 2e-3 * exact
        assert 50 * abs(found.value - exact) < abs(seen - exact)
        assert found.stderr < measure.trace(np.exp).stderr / 10


@pytest.mark.slow
def test_the_estimate_is_unbiased_and_its_spread_is_its_error():
    eigenvalues = np.linspace(-1, 2, 120) ** 3
    exact = np.sum(eigenvalues**2)
    found = [sd.xtrace(spectra.diagonal(eigenvalues), np.square, num_vectors=5, seed=seed) for seed in range(200)]
    values, errors = np.array([x.value for x in found]), np.array([x.stderr for x in found])
    spread = np.std(values)
    assert abs(np.mean(values) - exact) < 3 * spread / np.sqrt(200)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(spread, rel=0.3)


def test_a_function_of_low_rank_is_exact():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    found = sd.xtrace(X @ X.T, lambda x: x, num_vectors=6)
    assert found.value == pytest.approx(np.sum(X**2), rel=1e-10)


def test_complex_operators_and_known_atoms_count():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((60, 60)) + 1j * rng.standard_normal((60, 60))
    H = (Z + Z.conj().T) / 4
    e = np.linalg.eigvalsh(H)
    found = sd.xtrace(H, np.exp, num_vectors=30)
    assert abs(found.value - np.sum(np.exp(e))) < 3 * found.stderr + 1e-8
    A = spectra.diagonal(np.concatenate([[30.0, 20.0], np.linspace(0, 1, 200)]))
    deflated = sd.deflate(A, sd.top_eigenpairs(A, rank=2))
    assert sd.xtrace(deflated, np.exp, num_vectors=8).value == pytest.approx(np.exp(30) + np.exp(20), rel=1e-6)


def test_every_product_is_counted():
    A = sd.Counted(sp.diags_array(np.linspace(0, 1, 300)).tocsr())
    found = sd.xtrace(A, np.exp, num_vectors=4)
    assert found.num_products == A.num_products
    assert found.num_products <= 2 * 4 * found.num_steps


def test_single_precision_agrees_to_its_rounding():
    eigenvalues = np.linspace(0, 1, 200)
    A = np.diag(np.append(eigenvalues, 5.0)).astype(np.float32)
    found = sd.xtrace(A, np.exp, num_vectors=30)
    assert abs(found.value - np.sum(np.exp(eigenvalues)) - np.exp(5)) < 3 * found.stderr + 1e-3


@pytest.mark.parametrize(
    ("A", "options", "message"),
    [
        (np.triu(np.ones((20, 20))), {}, "not symmetric"),
        (np.eye(20), {"num_vectors": 1}, "`num_vectors` must be"),
        (np.eye(20), {"num_vectors": 21}, "`num_vectors` must be"),
        (np.eye(20), {"tol": -1.0}, "`tol` must be"),
    ],
)
def test_bad_input_is_refused(A, options, message):
    with pytest.raises(ValueError, match=message):
        sd.xtrace(A, np.exp, **({"num_vectors": 4} | options))


def test_a_function_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="`f` must be finite on the spectrum"):
        sd.xtrace(np.diag(np.linspace(0, 1e4, 50)), np.exp)


def test_functions_that_vanish_on_the_first_ritz_values_are_followed_to_where_they_do_not():
    eigenvalues = np.random.default_rng(0).uniform(-1, 1, 400)
    eigenvalues[:5] = [10, 9, 8, 7, 6]
    found = sd.xtrace(np.diag(eigenvalues), lambda x: np.where(x > 5, x, 0.0))
    assert abs(found.value - 40) < 4 * found.stderr < 1e-3
    assert sd.xtrace(np.zeros((50, 50)), lambda x: x).value == 0


def test_the_error_in_float32_allows_for_rounding():
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((200, 5)))[0]
    matrix = ((basis * [5, 4, 3, 2, 1]) @ basis.T).astype(np.float32)
    for seed in range(5):
        found = sd.xtrace(matrix, np.square, seed=seed)
        assert abs(found.value - 55) < 3 * found.stderr < 1e-3
