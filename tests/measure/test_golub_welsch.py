"""Long runs: two rows of the eigenvectors of T, against all of them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

import specdens as sd
from specdens._measure import golub_welsch, ritz
from specdens._vectors import dispatch

pytest.importorskip("numba")


def full(alphas, betas):
    """Return nodes, and the first and last components of all eigenvectors."""
    nodes, vectors = scipy.linalg.eigh_tridiagonal(alphas, betas)
    return nodes, vectors[0], vectors[-1]


def mass_below(nodes, components, x):
    """Return the sums of squared components of the nodes up to x."""
    total = np.concatenate([[0.0], np.cumsum(components**2)])
    return total[np.searchsorted(nodes, x, side="right")]


def check(alphas, betas):
    """Compare two rows with the full decomposition, where nodes are apart: ghosts share their weight as they like."""
    found, expected = golub_welsch.two_rows(alphas, betas), full(alphas, betas)
    scale = max(np.abs(alphas).max(), np.max(np.abs(betas), initial=0.0))
    rounding = 1e-15 * max(30, len(alphas)) * scale
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=rounding)
    gaps = np.diff(expected[0])
    middle = (expected[0][1:] + expected[0][:-1])[gaps > 1e4 * rounding] / 2
    for one, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(
            mass_below(found[0], one, middle), mass_below(expected[0], other, middle), rtol=0, atol=1e-10
        )
        assert one @ one == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(2, 60), st.sampled_from([1e-150, 1e-3, 1.0, 1e150]))
def test_two_rows_are_those_of_the_full_decomposition(seed, size, scale):
    rng = np.random.default_rng(seed)
    alphas, betas = scale * rng.standard_normal(size), scale * np.abs(rng.standard_normal(size - 1))
    betas[rng.random(size - 1) < 0.1] = 0.0
    check(alphas, betas)


@pytest.mark.parametrize("diagonal", [np.zeros(400), np.linspace(-1, 1, 400), np.logspace(-12, 0, 400)])
def test_two_rows_of_special_matrices(diagonal):
    check(diagonal, np.ones(399))
    check(diagonal, np.logspace(-8, 0, 399))


def test_ghosts_keep_their_summed_weight():
    eigenvalues = np.concatenate([[30.0, 20.0, -9.0], np.linspace(-1, 1, 797)])
    measure = sd.fast_lanczos(np.diag(eigenvalues), num_steps=700)
    alphas, betas = measure.alphas[0], measure.betas[0]
    check(alphas, betas)
    nodes, first, _ = golub_welsch.two_rows(alphas, betas)
    for eigenvalue in (30.0, 20.0, -9.0):  # many copies each
        near = np.abs(nodes - eigenvalue) < 1e-6
        assert near.sum() > 3
        exact = measure.weights[0][np.abs(measure.nodes[0] - eigenvalue) < 1e-6].sum()
        assert np.sum(first[near] ** 2) == pytest.approx(exact, rel=1e-9)


@pytest.mark.slow
def test_a_long_run_is_read_in_memory_proportional_to_its_steps():
    rng = np.random.default_rng(0)
    k = 4000
    alphas, betas = 0.1 * rng.standard_normal(k), 1 + 0.1 * rng.standard_normal(k - 1)
    golub_welsch.two_rows(alphas[:10], betas[:9])  # compile
    tracemalloc.start()
    nodes, weights, residuals = ritz.decompose(alphas, np.abs(betas), 0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 8 * k
    np.testing.assert_allclose(nodes, scipy.linalg.eigvalsh_tridiagonal(alphas, np.abs(betas)), atol=1e-12)
    assert weights.sum() == pytest.approx(1.0)
    assert residuals.shape == (k,)


def test_without_compiled_code_memory_is_checked_first(monkeypatch):
    k = golub_welsch.MIN_STEPS
    monkeypatch.setattr(ritz, "available_bytes", lambda: 10**6)
    with (
        dispatch.without(),
        pytest.raises(MemoryError, match=r"reading 2049 steps .*pip install .specdens\[fast\]"),
    ):
        ritz.decompose(np.ones(k), np.ones(k - 1), 1.0)
