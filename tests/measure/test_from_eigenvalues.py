"""The exact measure of known eigenvalues."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specdens as sd

spectra = st.lists(st.integers(-50, 50), min_size=1, max_size=40).map(lambda x: np.array(x) / 7.0)


@given(spectra, st.integers(-55, 55).map(lambda x: (x + 0.5) / 7.0))
def test_every_reading_of_known_eigenvalues_is_exact(values, x):
    measure = sd.SpectralMeasure.from_eigenvalues(values)
    assert measure.dimension == len(values)
    assert measure.cdf(x) == pytest.approx(np.mean(values <= x), abs=1e-10)
    count = measure.count(-100, x)
    assert count.value == pytest.approx(np.sum(values <= x), abs=1e-8)
    assert count.stderr == pytest.approx(0, abs=1e-8)
    trace = measure.trace(np.cos)
    assert trace.value == pytest.approx(np.sum(np.cos(values)), abs=1e-8)
    assert measure.density().mass() + measure.density().mass_outside == pytest.approx(1)


@given(spectra, st.integers(0, 10**6))
def test_zeros_need_not_be_listed(values, num_zeros):
    measure = sd.SpectralMeasure.from_eigenvalues(values, num_zeros=num_zeros)
    assert measure.dimension == len(values) + num_zeros
    assert measure.trace(np.square).value == pytest.approx(np.sum(values**2), abs=1e-6)
    assert measure.count(0.1, 100).value == pytest.approx(np.sum(values > 0.1), abs=1e-6)


def test_eigenvalues_over_nine_decades_beside_millions_of_zeros_keep_their_weights():
    values = np.geomspace(1e-9, 1, 300)
    measure = sd.SpectralMeasure.from_eigenvalues(values, num_zeros=28_156_254)
    for k in range(-8, 0):
        assert measure.count(10.0**k, 2).value == pytest.approx(np.sum(values > 10.0**k), abs=1e-4)


def test_copies_become_one_atom_to_the_rounding_of_their_precision():
    values = np.array([1.0, 1.0 + 1e-6, 2.0])
    assert sd.SpectralMeasure.from_eigenvalues(values).nodes[0].size == 3
    assert sd.SpectralMeasure.from_eigenvalues(values, dtype="float32").nodes[0].size == 2


def test_the_exact_measure_is_saved_and_loaded(tmp_path):
    measure = sd.SpectralMeasure.from_eigenvalues([1.0, 2.0, 2.0, 5.0])
    sd.save(tmp_path / "m.npz", measure)
    assert sd.load(tmp_path / "m.npz").count(1.5, 3).value == pytest.approx(2)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, r"`eigenvalues` must be a vector of at least one real number; got float64 of shape \(0,\)"),
        ([[1.0]], {}, r"got float64 of shape \(1, 1\)"),
        ([1j], {}, r"got complex128 of shape \(1,\)"),
        ([1.0, np.nan], {}, "`eigenvalues` must be finite; got nan"),
        ([1.0], {"num_zeros": -1}, "`num_zeros` must be"),
        ([1.0], {"dtype": "int64"}, "`dtype` must be a floating-point type; got 'int64'"),
    ],
)
def test_what_are_no_eigenvalues_is_refused(values, options, message):
    with pytest.raises(ValueError, match=message):
        sd.SpectralMeasure.from_eigenvalues(values, **options)


def test_chains_of_close_eigenvalues_do_not_become_one():
    eigenvalues = np.append(np.linspace(0.1, 1, 500), 1e4)  # in float32 neighbours are within rounding of the largest
    measure = sd.SpectralMeasure.from_eigenvalues(eigenvalues, dtype="float32")
    assert measure.count(0, 0.5).value == pytest.approx(222, abs=40)
    data = (np.random.default_rng(0).standard_normal((900, 300)) + 1).astype(np.float32)
    covariance = data.T @ data / np.float32(900)
    covariance = (covariance + covariance.T) / 2
    exact = np.linalg.eigvalsh(covariance.astype(np.float64))
    assert sd.spectral_density(covariance).measure.count(0, 1).value == pytest.approx(np.sum(exact <= 1))
