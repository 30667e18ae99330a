"""Rounding in the subspace of known eigenvectors does not grow into Ritz values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specdens as sd


def deflated(bulk, *, dtype="float64", seed=0):
    """Return an operator with three large known eigenvalues and a bulk, and the ends of the bulk."""
    eigenvalues = np.concatenate([[90.0, -80.0, 70.0], bulk])
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((eigenvalues.size,) * 2))[0]
    vectors = np.ascontiguousarray(Q[:, :3]).astype(dtype)
    pairs = sd.EigenPairs(eigenvalues[:3], vectors, np.zeros(3), np.ones(3, dtype=bool), num_products=0, seconds=0.0)
    return sd.deflate(((Q * eigenvalues) @ Q.T).astype(dtype), pairs)


@pytest.mark.slow
@pytest.mark.parametrize("lanczos", [sd.fast_lanczos, sd.slow_lanczos])
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-9), ("float32", 1e-3)])
@pytest.mark.parametrize("ends", [(5.0, 6.0), (-6.0, -5.0), (0.5, 3.0), (-1.0, 1.0)])
def test_ritz_values_of_a_deflated_operator_stay_within_its_bulk(lanczos, dtype, rtol, ends):
    bulk = np.linspace(*ends, 200)
    measure = lanczos(deflated(bulk, dtype=dtype), num_steps=150, num_probes=2)
    room = rtol * 90
    for nodes in measure.nodes:
        assert nodes[0] > ends[0] - room
        assert nodes[-1] < ends[1] + room


def test_a_shift_of_a_deflated_operator_has_its_whole_spectrum():
    bulk = np.linspace(-1, 2, 21)
    shifted = sd.Combination([(0.5, deflated(bulk))], shift=-3.0)
    measure = sd.slow_lanczos(shifted, num_steps=21)
    np.testing.assert_allclose(measure.nodes[0], 0.5 * bulk - 3.0, atol=1e-12)


@given(seed=st.integers(0, 2**31), method=st.sampled_from(["fast_lanczos", "slow_lanczos"]))
def test_a_deflated_run_past_its_invariant_subspace_raises_nothing(seed, method):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 40))
    eigenvalues = rng.integers(0, 8, n).astype(float)  # few distinct values: β falls to rounding
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    density = sd.spectral_density((Q * eigenvalues) @ Q.T, method=method, rank=1, num_probes=2, seed=seed % 1000)
    assert density.mass() + density.mass_outside == pytest.approx(1.0)
    for nodes in density.measure.nodes:
        assert nodes[0] > eigenvalues.min() - 1e-6
        assert nodes[-1] < eigenvalues.max() + 1e-6


@pytest.mark.parametrize("num_steps", [10, 25, 40])
def test_a_resumed_run_projects_where_the_whole_run_does(num_steps, tmp_path):
    A = deflated(np.linspace(5, 6, 200))
    whole = sd.fast_lanczos(A, num_steps=60, num_probes=2)
    for steps in (num_steps, 60):
        monitor = sd.Monitor(progress=False, checkpoint=tmp_path / "run.npz")
        resumed = sd.fast_lanczos(A, num_steps=steps, num_probes=2, monitor=monitor)
    np.testing.assert_array_equal(resumed.alphas, whole.alphas)
