"""Intervals around estimates: skew ones for small numbers of eigenvalues."""

import numpy as np
import pytest
import spectra
from hypothesis import given
from hypothesis import strategies as st

import specdens as sd


@pytest.mark.slow
def test_intervals_cover_small_numbers_that_two_standard_errors_miss():
    eigenvalues = spectra.semicircle(3000)
    cut = (eigenvalues[-5] + eigenvalues[-6]) / 2
    counts = [
        sd.fast_lanczos(spectra.diagonal(eigenvalues), num_steps=64, seed=seed).count(cut, 3.0) for seed in range(80)
    ]
    intervals = [count.interval(0.95) for count in counts]
    assert np.mean([lo <= 5 <= hi for lo, hi in intervals]) >= 0.93
    below = np.mean([hi < 5 for _, hi in intervals])
    symmetric = np.mean([value + 1.96 * stderr < 5 for value, stderr in counts])
    assert below <= symmetric  # too small a number is what a symmetric interval gets wrong


@given(st.floats(1e-3, 1e6), st.floats(1e-6, 1e3), st.floats(0.01, 0.999))
def test_intervals_of_counts_are_positive_skew_and_contain_the_value(value, stderr, level):
    lo, hi = sd.Count(value, stderr).interval(level)
    assert 0 <= lo <= hi < np.inf
    if level > 0.5 and stderr < value / 2:
        assert lo <= value <= hi
        assert hi - value >= (value - lo) * (1 - 1e-9)


def test_an_interval_of_a_well_known_number_is_that_of_a_normal_distribution():
    np.testing.assert_allclose(sd.Count(1e4, 10.0).interval(), sd.Estimate(1e4, 10.0).interval(), rtol=1e-4)
    assert sd.Count(5.0, 0.0).interval() == (5.0, 5.0)
    assert sd.Count(0.0, 1.0).interval(0.95).lo == 0.0
    assert isinstance(sd.average([sd.fast_lanczos(np.diag(np.arange(9.0)))]).count(0, 3), sd.Count)


@pytest.mark.parametrize("level", [0, 1, -0.5, 2, np.nan])
def test_levels_are_probabilities(level):
    for kind in (sd.Estimate, sd.Count):
        with pytest.raises(ValueError, match="`level` must lie between 0 and 1; got"):
            kind(1.0, 1.0).interval(level)


def test_a_trace_near_the_largest_number_is_finite():
    eigenvalues = 705 * np.linspace(-1, 1, 500)
    value, stderr = sd.fast_lanczos(spectra.diagonal(eigenvalues)).trace(np.exp)
    assert abs(value - np.sum(np.exp(eigenvalues))) < 2 * stderr < 1e306


def test_a_check_tells_large_products_from_infinite_ones():
    with pytest.raises(ValueError, match=r"squares of A @ x leave the range of float64; scale the operator"):
        sd.check_operator(np.diag([1e160, 2e160]))
