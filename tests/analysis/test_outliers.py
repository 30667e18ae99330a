"""Outliers, on spectra where they are known."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import spectra
from hypothesis import given, settings
from hypothesis import strategies as st
from spectra import measured

import specdens as sd
from specdens import analysis


@pytest.mark.parametrize("num_probes", [1, 8])
@pytest.mark.parametrize("num_steps", [48, 300])
def test_spikes_are_found_once_each_however_many_ghosts_there_are(num_steps, num_probes):
    found = analysis.outliers(measured(spectra.spiked(5000), num_steps=num_steps, num_probes=num_probes))
    assert len(found) == 10
    np.testing.assert_allclose(found.positions, np.arange(20.0, 201.0, 20.0), atol=1e-6)
    assert abs(found.count.value - 10) < 3 * found.count.stderr
    assert found.bulk.lo == pytest.approx(-2, abs=0.05)
    assert found.bulk.hi == pytest.approx(2, abs=0.05)


def test_errors_of_positions_bound_the_distance_to_an_eigenvalue():
    eigenvalues = np.concatenate([spectra.semicircle(3000), [3.0, 3.4, -4.0]])
    found = analysis.outliers(measured(eigenvalues, num_steps=60))
    assert len(found) == 3
    nearest = np.min(np.abs(found.positions[:, None] - eigenvalues), axis=1)
    assert np.all(nearest <= found.errors)
    assert np.all(found.errors < 1e-2)


def test_a_multiple_outlier_is_one_position_whose_multiplicity_is_estimated():
    eigenvalues = np.concatenate([spectra.semicircle(2000), np.full(7, 5.0), [9.0]])
    found = analysis.outliers(measured(eigenvalues, num_probes=40))
    np.testing.assert_allclose(found.positions, [5.0, 9.0], atol=1e-8)
    assert np.all(np.abs(found.multiplicities - [7, 1]) < 3 * found.multiplicity_errors)
    assert found.multiplicity_errors[0] == pytest.approx(np.sqrt(2 * 7 / 40), rel=0.3)


def test_deflated_outliers_have_exact_multiplicities_and_the_residuals_of_their_pairs():
    density = sd.spectral_density(spectra.diagonal(spectra.spiked(2000)), rank=10)
    found = analysis.outliers(density)
    assert found.count == (pytest.approx(10, rel=1e-12), 0.0)
    assert np.all(np.abs(found.positions - np.arange(20.0, 201.0, 20.0)) <= found.errors)
    np.testing.assert_allclose(analysis.outliers(density.measure).positions, found.positions)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["semicircle", "Marchenko–Pastur 1/2", "Marchenko–Pastur 2"])
@pytest.mark.parametrize("num_steps", [32, 128, 400])
def test_random_matrix_bulks_have_no_outliers(name, num_steps):
    for seed in range(3):
        for n in (400, 5000):
            measure = measured(spectra.FAMILIES[name](n), num_steps=num_steps, num_probes=1 + seed, seed=seed)
            assert len(analysis.outliers(measure)) == 0, (n, seed)


@pytest.mark.slow
def test_sampled_wigner_matrices_have_no_outliers_beyond_a_few_percent_of_them():
    rng = np.random.default_rng(0)
    alarms = 0
    for seed in range(40):
        Z = rng.standard_normal((300, 300))
        eigenvalues = np.linalg.eigvalsh((Z + Z.T) / np.sqrt(600))
        alarms += len(analysis.outliers(measured(eigenvalues, num_steps=64, num_probes=1, seed=seed))) > 0
    assert alarms <= 2


def test_the_non_zero_eigenvalues_of_a_low_rank_matrix_are_its_outliers():
    found = analysis.outliers(measured(np.concatenate([np.zeros(990), np.arange(1.0, 11.0)])))
    np.testing.assert_allclose(found.positions, np.arange(1.0, 11.0), atol=1e-9)


def test_a_continuum_beside_a_null_space_is_not_an_outlier():
    eigenvalues = np.concatenate([np.zeros(50000), np.linspace(0.01, 1, 1000), [5.0, 7.0]])
    found = analysis.outliers(measured(eigenvalues))
    np.testing.assert_allclose(found.positions, [5.0, 7.0], atol=1e-9)


def test_kpm_moments_are_read_too():
    moments = sd.kpm(spectra.diagonal(np.append(spectra.semicircle(2000), 4.0)), num_moments=256)
    np.testing.assert_allclose(analysis.outliers(moments).positions, [4.0], atol=1e-3)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.floats(-50, 50), st.sampled_from([-3.0, -1.0, 1e-3, 1.0, 7.0]))
def test_outliers_move_and_scale_with_the_operator(shift, scale):
    eigenvalues = np.concatenate([spectra.semicircle(600), [4.0, 5.0]])
    plain = analysis.outliers(measured(eigenvalues, num_steps=64))
    moved = analysis.outliers(measured(scale * eigenvalues + shift, num_steps=64))
    size = abs(scale) * 5 + abs(shift)
    np.testing.assert_allclose(np.sort(scale * plain.positions + shift), moved.positions, atol=1e-7 * size)
    edges = sorted(scale * edge + shift for edge in plain.bulk)
    np.testing.assert_allclose(edges, moved.bulk, atol=1e-2 * abs(scale))


@pytest.mark.parametrize("A", [np.zeros((5, 5)), np.eye(3), np.diag([1.0, 2.0]), np.eye(1)])
def test_a_spectrum_without_a_bulk_has_no_outliers(A):
    found = analysis.outliers(sd.fast_lanczos(A))
    assert len(found) == 0
    assert found.bulk == pytest.approx((A.diagonal().min(), A.diagonal().max()))


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_outliers_are_found_in_any_precision(dtype):
    A = spectra.diagonal(np.concatenate([spectra.semicircle(800), [4.0, -5.0]])).astype(dtype)
    found = analysis.outliers(sd.fast_lanczos(A, num_steps=64, num_probes=4))
    np.testing.assert_allclose(found.positions, [-5.0, 4.0], rtol=1e-4)


def test_outliers_say_what_they_are():
    text = repr(analysis.outliers(measured(spectra.spiked(1000))))
    assert text.startswith("Outliers: 10 positions, ")
    assert "multiplicity" in text
    assert repr(analysis.outliers(measured(spectra.semicircle(1000)))).startswith("Outliers: none, bulk [-")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_share": 0.7}, ValueError, "`max_share` must lie between 0 and 0.5; got 0.7"),
        ({"separation": 0.0}, ValueError, "`separation` must be positive"),
    ],
)
def test_outliers_refuse_senseless_options(options, error, message):
    with pytest.raises(error, match=message):
        analysis.outliers(measured(spectra.semicircle(100)), **options)


def test_an_operator_is_refused_with_a_remedy():
    with pytest.raises(TypeError, match=r"must be a measure or a density; got ndarray. For an operator call"):
        analysis.outliers(np.eye(3))


@pytest.mark.slow
def test_analysis_needs_no_plotting_library():
    code = (
        "import sys; sys.modules['matplotlib'] = None; import numpy as np, specdens as sd; "
        "print(len(sd.analysis.outliers(sd.fast_lanczos(np.diag(np.r_[np.linspace(0, 1, 99), 9.0])))))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"
