"""Exact moments as control variates."""

from __future__ import annotations

import numpy as np
import pytest
from slow_cases import slow_after
from spectra import FAMILIES, diagonal, exact_w1, semicircle

import specdens as sd


@pytest.mark.parametrize("family", slow_after(1, [name for name in FAMILIES if "Pareto" not in name][:3]))
def test_two_moments_reduce_the_distance_and_keep_the_coverage(family):
    eigenvalues = np.sort(FAMILIES[family](2000))
    moments = [np.mean(eigenvalues), np.mean(eigenvalues**2)]
    plain, known, within = [], [], []
    x = np.quantile(eigenvalues, [0.2, 0.5, 0.8])
    for seed in range(12):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=64, num_probes=2, seed=seed)
        better = measure.with_moments(moments)
        assert better.moments(3)[1:] == pytest.approx(moments, rel=1e-4, abs=1e-4 * np.max(np.abs(eigenvalues)))
        plain.append(exact_w1(measure.bulk_cdf, eigenvalues))
        known.append(exact_w1(better.bulk_cdf, eigenvalues))
        share = np.searchsorted(eigenvalues, x, side="right") / 2000
        within.append(np.abs(better.cdf(x) - share) <= 2 * better.cdf_stderr(x))
        assert np.all(better.cdf_stderr(x) <= 1.05 * measure.cdf_stderr(x))
    assert np.mean(known) < 0.8 * np.mean(plain)
    assert np.mean(within) >= 0.85


def test_traces_of_smooth_functions_gain_most():
    eigenvalues = semicircle(3000)
    measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=40)
    better = measure.with_moments([np.mean(eigenvalues**k) for k in (1, 2, 3, 4)])
    assert better.trace(np.exp).stderr < 0.3 * measure.trace(np.exp).stderr
    value, stderr = better.trace(np.exp)
    assert value == pytest.approx(np.sum(np.exp(eigenvalues)), abs=3 * stderr)


def test_doubt_about_multiplicities_is_reduced_too():
    eigenvalues = np.append(semicircle(1999), [50.0])
    measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=32, seed=3)
    better = measure.with_moments([np.mean(eigenvalues), np.mean(eigenvalues**2)])
    assert better.count(40, 60).stderr < measure.count(40, 60).stderr
    assert better.count(40, 60).value == pytest.approx(1, abs=0.2)


def test_given_start_vectors_are_left_alone():
    measure = sd.fast_lanczos(diagonal(semicircle(500)), num_steps=20, probes=np.ones(500))
    assert measure.with_moments([0.1, 2.0]).moments(3)[1] == pytest.approx(measure.moments(3)[1])
