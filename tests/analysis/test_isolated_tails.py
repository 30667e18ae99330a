"""Isolated eigenvalues at the end of a heavy tail: not outliers, but described."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import kstest
from spectra import diagonal

import specdens as sd
from specdens._measure.isolated_tail import isolated_tail


def test_a_heavy_tail_of_independent_eigenvalues_has_hardly_ever_outliers():
    named = 0
    for seed in range(20):
        eigenvalues = np.random.default_rng(1000 + seed).pareto(1.5, 2000)
        named += len(sd.analysis.outliers(sd.fast_lanczos(diagonal(eigenvalues), seed=seed))) > 0
    assert named <= 1


def test_a_heavy_tail_is_described_in_words():
    eigenvalues = np.append(np.arange(1, 2000.0) ** -1.2, -1e-3)
    found = sd.analysis.outliers(sd.fast_lanczos(diagonal(eigenvalues), num_probes=4))
    assert len(found) == 0
    (tail,) = found.tails
    assert tail.positions[0] == pytest.approx(1.0)
    assert tail.positions.size >= 6
    assert 0 <= tail.p_value <= 1
    assert f"{tail.positions.size} isolated eigenvalues in a tail without an edge" in repr(found)
    mirrored = sd.analysis.outliers(sd.fast_lanczos(diagonal(-eigenvalues), num_probes=4))
    np.testing.assert_allclose(mirrored.tails[0].positions, -tail.positions)


def test_a_wide_gap_in_a_tail_has_a_small_p_value():
    tail = np.arange(9, 2000.0) ** -1.2
    eigenvalues = np.concatenate([40 * tail[0] * np.arange(1, 9.0) ** -1.2, tail])
    found = sd.analysis.outliers(sd.fast_lanczos(diagonal(eigenvalues), num_probes=4), separation=30)
    assert found.tails[0].num_beyond == 8
    assert found.tails[0].p_value < 0.05


def test_p_values_of_tails_that_fall_like_a_power_are_uniform():
    rng, p_values = np.random.default_rng(0), []
    for _ in range(400):
        logarithms = np.cumsum((rng.exponential(size=20) / np.arange(1, 21))[::-1])  # Rényi's spacings
        isolated = SimpleNamespace(positions=np.exp(logarithms), rests=())
        measure = SimpleNamespace(isolated=isolated, bulk_dimension=1000, quantile=lambda _: 0.0)
        p_values.append(isolated_tail(measure, sign=1).p_value)
    assert kstest(p_values, "uniform").pvalue > 0.01
