"""Distances between spectra: W1, a metric, with its error."""

from __future__ import annotations

import numpy as np
import pytest
import spectra
from hypothesis import given
from hypothesis import strategies as st
from spectra import measured

import specdens as sd
from specdens import analysis


def test_the_distance_to_the_exact_eigenvalues_is_w1():
    eigenvalues = spectra.semicircle(1000)
    measure = measured(eigenvalues)
    expected = spectra.exact_w1(measure.bulk_cdf, eigenvalues)
    assert analysis.distance(measure, eigenvalues) == pytest.approx(expected, rel=1e-9)
    assert analysis.distance(measure, analysis.Semicircle(0.0, 2.0)) == pytest.approx(expected, abs=2e-3)
    relative = analysis.distance(measure, eigenvalues, relative=True)
    assert relative == pytest.approx(expected / np.ptp(eigenvalues), rel=1e-2)


def test_the_distance_of_two_densities_includes_their_atoms():
    eigenvalues = np.concatenate([spectra.semicircle(999), [10.0]])
    moved = np.concatenate([spectra.semicircle(999), [15.0]])
    a, b = (sd.spectral_density(spectra.diagonal(x), rank=1) for x in (eigenvalues, moved))
    assert analysis.distance(a, b) == pytest.approx(5 / 1000, rel=1e-3)


_vectors = st.lists(st.floats(-100, 100), min_size=1, max_size=12).map(np.array)


@given(_vectors, _vectors, _vectors, st.floats(-10, 10))
def test_distance_is_a_metric_that_a_common_shift_does_not_change(a, b, c, shift):
    distance = analysis.distance
    assert distance(a, a) == 0
    assert distance(a, b) == pytest.approx(distance(b, a), abs=1e-9)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9
    assert distance(a + shift, b + shift) == pytest.approx(distance(a, b), abs=1e-9)
    assert distance(-2 * a, -2 * b) == pytest.approx(2 * distance(a, b), abs=1e-9)


def test_distances_of_different_axes_are_refused():
    measure = measured(spectra.semicircle(100))
    with pytest.raises(
        ValueError, match=r"must have the same axis; got λ and log\(\|λ\| \+ ε\). Compare their measures"
    ):
        analysis.distance(measure, measure.log_density())


@pytest.mark.parametrize("bad", [np.eye(2), "x", np.empty(0), None])
def test_distances_of_other_things_are_refused(bad):
    with pytest.raises(TypeError, match="`b` must be a measure, a density, a law or a vector of eigenvalues; got"):
        analysis.distance(np.ones(3), bad)
    with pytest.raises(ValueError, match="`a` must be finite; got 1 nan or inf"):
        analysis.distance(np.array([1.0, np.nan]), np.ones(2))


@pytest.mark.slow
def test_a_distance_has_an_error_bar_that_covers():
    eigenvalues = spectra.semicircle(1000)
    moved = spectra.diagonal(1.3 * eigenvalues + 0.2)
    exact = float(np.mean(np.abs(np.sort(1.3 * eigenvalues + 0.2) - np.sort(eigenvalues))))
    misses = []
    for seed in range(20):
        one = sd.fast_lanczos(spectra.diagonal(eigenvalues), num_steps=40, num_probes=2, seed=seed)
        two = sd.fast_lanczos(moved, num_steps=40, num_probes=2, seed=seed + 100)
        found = analysis.distance(one, two)
        assert isinstance(found, float)
        misses.append((found - exact) / found.stderr)
        same = analysis.distance(one, sd.fast_lanczos(spectra.diagonal(eigenvalues), num_steps=40, seed=seed + 200))
        assert same < 4 * same.noise
    assert np.mean(np.abs(misses) < 2) >= 0.85
    assert np.std(misses) > 0.4
    assert analysis.distance(eigenvalues, eigenvalues + 1).stderr == 0
