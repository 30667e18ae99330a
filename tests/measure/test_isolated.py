"""Isolated eigenvalues: exact positions, masses from inferred multiplicities, and doubt in the error bars."""

from __future__ import annotations

import numpy as np
import pytest
from slow_cases import slow_after
from spectra import diagonal, semicircle

import specdens as sd

OUTLIERS = 3.0 * 1.5 ** np.arange(10)


def spectrum(outliers, n=2000):
    return np.append(semicircle(n - len(outliers)), outliers)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_simple_outliers_have_the_mass_of_one_eigenvalue(dtype):
    eigenvalues = spectrum(OUTLIERS)
    for seed in range(5):
        measure = sd.fast_lanczos(diagonal(eigenvalues).astype(dtype), num_steps=64, num_probes=8, seed=seed)
        value, stderr = measure.count(2.5, 200)
        assert value == pytest.approx(10, abs=0.3)  # as χ² variables of one degree each: 10 ± 1.6
        assert stderr < 0.6
        found = measure.isolated.positions
        assert np.allclose(found[found > 2.5], OUTLIERS, rtol=1e-5 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_traces_that_outliers_dominate_are_known_from_one_probe(seed):
    eigenvalues = np.append(1e-3 * semicircle(4960), 10 * np.exp(-np.arange(40) / 8))
    measure = sd.fast_lanczos(diagonal(eigenvalues), seed=seed)
    for f in (lambda x: x, np.square):
        value, stderr = measure.trace(f)
        exact = float(np.sum(f(eigenvalues)))
        assert value == pytest.approx(exact, rel=0.05)  # raw weights: 30 % and 50 %
        assert abs(value - exact) <= 2 * stderr
    assert measure.moments(3)[1:] == pytest.approx([np.mean(eigenvalues), np.mean(eigenvalues**2)], rel=0.05)


@pytest.mark.parametrize("multiplicity", slow_after(1, [2, 3, 5]))
def test_repeated_outliers_are_not_taken_for_simple_ones(multiplicity):
    eigenvalues = spectrum(np.repeat(OUTLIERS, multiplicity))
    counts = np.array(
        [
            sd.fast_lanczos(diagonal(eigenvalues), num_steps=64, num_probes=8, seed=seed).count(2.5, 200)
            for seed in range(10)
        ]
    )
    error, stderr = counts[:, 0] - 10 * multiplicity, counts[:, 1]
    assert (
        np.mean(np.abs(error) <= 2 * stderr + 1e-3) >= 0.8
    )  # two of the seeds drew 2.2 standard deviations too little
    assert np.sqrt(np.mean(error**2)) < 1.2 * np.sqrt(2 * 10 * multiplicity / 8) + 1.5  # raw weights, and some doubt
    assert np.all(stderr < 2.5 * multiplicity)


def test_one_repeated_outlier_among_simple_ones_is_seen_with_enough_probes():
    eigenvalues = spectrum(np.append(OUTLIERS, np.full(5, 250.0)))
    measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=64, num_probes=16)
    value, stderr = measure.count(200, 300)
    assert value == pytest.approx(5, abs=max(2 * stderr, 0.1))
    assert measure.count(2.5, 200).value == pytest.approx(10, abs=0.5)


def test_one_outlier_seen_by_one_probe_stays_in_doubt():
    stderrs = [
        sd.fast_lanczos(diagonal(spectrum([50.0])), num_steps=32, seed=seed).count(40, 60).stderr for seed in range(10)
    ]
    assert 0.1 < np.median(stderrs) < 1.5


def test_assuming_simple_leaves_no_doubt():
    measure = sd.fast_lanczos(diagonal(spectrum([50.0])), num_steps=32)
    value, stderr = measure.assuming_simple().count(40, 60)
    assert (value, stderr) == pytest.approx((1.0, 0.0), abs=1e-3)


def test_raw_readings_stay_raw():
    measure = sd.fast_lanczos(diagonal(spectrum(OUTLIERS)), num_steps=64)
    assert measure.isolated is not None
    top = measure.weights[0][measure.nodes[0] > 2.5].sum()
    lower, upper = measure.cdf_bounds(2.5)
    assert 1 - upper <= top <= 1 - lower
    assert measure.weights[0].sum() == pytest.approx(1)


def test_start_vectors_that_were_given_are_the_question():
    v = np.ones(2000)
    measure = sd.fast_lanczos(diagonal(spectrum(OUTLIERS)), num_steps=64, probes=v)
    assert measure.isolated is None
    assert measure.weight(2.5, 200).value == pytest.approx(10 / 2000, rel=1e-6)


def test_a_bulk_that_is_not_resolved_is_not_an_eigenvalue():
    eigenvalues = np.concatenate([semicircle(1000), np.linspace(9.9, 10.1, 1000)])
    measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=6, num_probes=3)
    assert measure.isolated is None


def test_a_run_that_finds_every_eigenvalue_is_exact():
    eigenvalues = np.sort(np.random.default_rng(0).random(30))
    measure = sd.slow_lanczos(np.diag(eigenvalues), num_steps=30)
    assert np.allclose(measure.cdf(eigenvalues), np.arange(1, 31) / 30)


def test_the_distance_of_a_power_law_shrinks_by_an_order():
    eigenvalues = np.sort(1.0 / np.arange(1, 5001) ** 2)
    levels = (np.arange(1, 5001) - 0.5) / 5000
    for seed in range(4):
        measure = sd.fast_lanczos(diagonal(eigenvalues), seed=seed)
        assert np.mean(np.abs(measure.quantile(levels) - eigenvalues)) < 5e-5  # raw weights: 2e-4 in the median


def test_outliers_are_named_with_their_inferred_multiplicities():
    places = np.arange(20.0, 120.0, 10.0)
    found = sd.analysis.outliers(sd.fast_lanczos(diagonal(spectrum(places)), num_probes=8))
    assert np.allclose(found.positions, places, rtol=1e-8)
    assert np.allclose(found.multiplicities, 1, atol=0.1)  # raw weights: ± 0.5
    assert np.all(found.multiplicity_errors < 0.2)
