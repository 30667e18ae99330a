"""The resolvent, against exact Green's functions."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from spectra import diagonal, rotated, semicircle

import specdens as sd

Z = np.linspace(-3, 3, 13) + 0.05j


def test_without_terminator_it_is_that_of_the_finite_matrix():
    A = rotated(np.linspace(-1, 1, 40))
    v = np.random.default_rng(0).standard_normal(40)
    v /= np.linalg.norm(v)
    found = sd.slow_lanczos(A, probes=v, num_steps=40).resolvent(Z)
    exact = [v @ np.linalg.solve(z * np.eye(40) - A, v) for z in Z]
    np.testing.assert_allclose(found.value, exact, rtol=1e-8)
    assert found.terminated == (False,)


def test_a_chain_ends_in_its_square_root():
    """The middle of an infinite chain has G = 1/(√(z − 2)√(z + 2)): 30 steps never see the ends."""
    n = 401
    chain = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n))
    measure = sd.slow_lanczos(chain, probes=np.eye(n)[n // 2], num_steps=30)
    z = np.linspace(-2.5, 2.5, 21) + 1e-4j
    found = measure.resolvent(z, terminator="sqrt")
    np.testing.assert_allclose(found.value, 1 / (np.sqrt(z - 2) * np.sqrt(z + 2)), rtol=1e-6)
    assert found.terminated == (True,)


def test_the_root_of_a_bethe_lattice():
    """The root of a tree with q children everywhere: G = 1/(z − q t), t = (z − √(z² − 4q))/(2q)."""
    q, depth = 2, 11
    tree = sp.csr_array(nx.to_scipy_sparse_array(nx.balanced_tree(q, depth), dtype=float))
    measure = sd.slow_lanczos(tree, probes=np.eye(1, tree.shape[0])[0], num_steps=depth)
    z = np.linspace(-3.5, 3.5, 15) + 1e-3j
    t = (z - np.sqrt(z - 2 * np.sqrt(q)) * np.sqrt(z + 2 * np.sqrt(q))) / (2 * q)
    np.testing.assert_allclose(measure.resolvent(z, terminator="auto").value, 1 / (z - q * t), rtol=1e-8)


def test_graphene_has_a_local_density_that_vanishes_at_zero():
    m = 40
    shift = sp.csr_array(np.roll(np.eye(m), 1, axis=0))
    hop = sp.eye_array(m * m) + sp.kron(shift, sp.eye_array(m)) + sp.kron(sp.eye_array(m), shift)
    A = sp.csr_array(sp.block_array([[None, hop], [hop.T, None]]))
    k = 2 * np.pi * np.arange(m) / m
    bands = np.abs(1 + np.exp(1j * k)[:, None] + np.exp(1j * k)).ravel()
    measure = sd.slow_lanczos(A, probes=np.eye(1, A.shape[0])[0], num_steps=120)
    z = np.array([0.0, 0.5, 1.0, 2.0]) + 0.2j
    exact = np.mean(0.5 / (z[:, None] - bands) + 0.5 / (z[:, None] + bands), axis=1)
    np.testing.assert_allclose(measure.resolvent(z).value, exact, rtol=1e-5)


def test_random_probes_estimate_the_trace_within_their_error():
    eigenvalues = np.concatenate([semicircle(1000), [5.0]])
    exact = np.mean(1 / (Z[:, None] - eigenvalues), axis=1)
    misses = []
    for seed in range(10):
        found = sd.fast_lanczos(diagonal(eigenvalues), num_steps=120,
                                num_probes=4, seed=seed).resolvent(Z)  # fmt: skip
        misses.append(np.abs(found.value - exact) / found.stderr)
    assert np.mean(np.array(misses) < 2) >= 0.93
    assert np.median(misses) > 0.2


def test_known_atoms_are_poles():
    A = diagonal(np.concatenate([semicircle(300), [7.0]]))
    measure = sd.spectral_density(A, rank=1, method="slow_lanczos", num_steps=60).measure
    near = measure.resolvent(7.0 + 1e-6j).value
    assert near.imag == pytest.approx(-1e6 / 301, rel=1e-3)


def test_gaps_have_no_square_root():
    gapped = sd.slow_lanczos(diagonal(np.concatenate([semicircle(500) - 4, semicircle(500) + 4])), num_steps=60)
    assert gapped.resolvent(Z, terminator="auto").terminated == (False,)
    with pytest.raises(ValueError, match="its coefficients have no limit"):
        gapped.resolvent(Z, terminator="sqrt")
    with pytest.raises(ValueError, match="`terminator` must be one of auto, sqrt; got 'none'"):
        gapped.resolvent(Z, terminator="none")


def test_moments_and_averages_have_resolvents():
    A = diagonal(semicircle(500))
    moments = sd.kpm(A, num_moments=200, num_probes=2)
    lanczos = sd.fast_lanczos(A, num_steps=100, num_probes=2)
    z = Z + 0.25j  # moments resolve less: two per product on an interval with a margin
    np.testing.assert_allclose(moments.resolvent(z).value, lanczos.resolvent(z).value, rtol=1e-4)
    both = sd.average([lanczos, moments])
    np.testing.assert_allclose(both.resolvent(z).value, lanczos.resolvent(z).value, rtol=1e-4)


def test_a_real_point_inside_a_band_is_refused_and_one_in_a_gap_is_not():
    e = np.concatenate([np.linspace(-2, -1, 2000), np.linspace(1, 2, 2000)])
    measure = sd.fast_lanczos(np.diag(e), num_steps=80, num_probes=2)
    for z in (1.5, [0.0, -1.2], 1.02):
        with pytest.raises(ValueError, match=r"real `z` must lie outside the spectrum; got .* Use z = E \+ 1j \* eta"):
            measure.resolvent(z)
    for z in (0.0, 0.5, 3.0, -2.5):
        value, stderr, _ = measure.resolvent(z)
        assert abs(value - np.mean(1 / (z - e))) <= 3 * stderr + 1e-9
    assert np.isfinite(measure.resolvent(1.5 + 0.05j).value)
