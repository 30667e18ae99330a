"""`SpectralMeasure.scaled`: a measure in other units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specdens as sd

FACTORS = st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3)


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((300, 300)))
    return (Q * np.concatenate([rng.standard_normal(296), [20.0, -15.0, 12.0, 9.0]])) @ Q.T


@given(FACTORS)
def test_a_scaled_measure_is_that_of_the_scaled_operator(factor):
    A = np.diag(np.concatenate([np.linspace(-1, 2, 60), [7.0, 9.0]]))
    pairs = sd.EigenPairs(
        np.array([7.0, 9.0]), np.eye(62)[:, -2:], np.zeros(2), np.ones(2, dtype=bool), num_products=0, seconds=0.0
    )
    scaled = sd.fast_lanczos(sd.deflate(A, pairs), num_steps=12, num_probes=2).scaled(factor)
    other = sd.EigenPairs(
        np.array([7.0, 9.0]) * factor, np.eye(62)[:, -2:], np.zeros(2), np.ones(2, dtype=bool), num_products=0,
        seconds=0.0,
    )  # fmt: skip
    direct = sd.fast_lanczos(sd.deflate(factor * A, other), num_steps=12, num_probes=2)
    assert scaled.known_atoms.positions == pytest.approx(direct.known_atoms.positions)
    assert np.all(np.diff(scaled.known_atoms.positions) > 0)
    for a, b in zip(scaled.nodes, direct.nodes, strict=True):
        assert a == pytest.approx(b, rel=1e-7, abs=1e-7 * abs(factor))
    for a, b in zip(scaled.weights, direct.weights, strict=True):
        assert a == pytest.approx(b, abs=1e-7)
    assert scaled.last_betas == pytest.approx(direct.last_betas, rel=1e-6)


def test_known_moments_are_scaled_along(matrix):
    moments = [np.trace(np.linalg.matrix_power(matrix, k)) / 300 for k in (1, 2, 3)]
    measure = sd.fast_lanczos(matrix, num_steps=20).with_moments(moments).scaled(-0.5)
    direct = [np.trace(np.linalg.matrix_power(-0.5 * matrix, k)) / 300 for k in (1, 2, 3)]
    assert measure.known_moments == pytest.approx(direct)


def test_a_measure_in_units_of_its_bulk_edge_has_that_edge_at_one(matrix):
    measure = sd.fast_lanczos(matrix, num_steps=60)
    unit = measure.scaled(1 / sd.analysis.outliers(measure).bulk.hi)
    assert sd.analysis.outliers(unit).bulk.hi == pytest.approx(1)
    assert len(sd.analysis.outliers(unit)) == len(sd.analysis.outliers(measure))


def test_a_scaled_measure_cannot_be_extended(matrix):
    measure = sd.fast_lanczos(matrix, num_steps=5, keep_vectors=True)
    with pytest.raises(ValueError, match="keep_vectors"):
        sd.extend(measure.scaled(2.0), matrix, num_steps=8)


@pytest.mark.parametrize("factor", [0.0, np.inf, np.nan])
def test_factors_that_lose_the_spectrum_are_refused(matrix, factor):
    with pytest.raises(ValueError, match="`factor` must be finite and not zero"):
        sd.fast_lanczos(matrix, num_steps=5).scaled(factor)
