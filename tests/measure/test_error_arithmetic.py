"""Estimates unpack as pairs and compute as numbers."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specdens as sd

KINDS = (sd.Estimate, sd.Count, sd.CrossEstimate)
numbers = st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6)


@pytest.mark.parametrize("kind", KINDS)
@given(value=numbers, stderr=st.floats(0, 1e3), factor=numbers)
def test_sums_shift_the_value_and_multiples_scale_both(kind, value, stderr, factor):
    estimate = kind(value, stderr)
    for number in (factor, np.float64(factor)):
        assert tuple(number * estimate) == tuple(estimate * number) == (number * value, abs(number) * stderr)
        assert tuple(estimate / number) == (value / number, stderr / abs(number))
        assert tuple(estimate + number) == tuple(number + estimate) == (value + number, stderr)
        assert tuple(estimate - number) == (value - number, stderr)
        assert tuple(number - estimate) == (number - value, stderr)
        assert (estimate < number, number < estimate, estimate >= number) == (
            value < number, number < value, value >= number)  # fmt: skip
    assert tuple(-estimate) == (-value, stderr)
    assert tuple(abs(estimate)) == (abs(value), stderr)
    assert (float(estimate), int(estimate), complex(estimate)) == (value, int(value), value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_stays_the_pair_of_its_value_and_error(kind):
    estimate = kind(12.0, 0.5)
    value, stderr = estimate
    assert (value, stderr) == (estimate[0], estimate[1]) == (estimate.value, estimate.stderr)
    assert estimate == (12.0, 0.5)
    assert estimate != (12.0, 0.6)
    assert len(estimate) == 2
    assert np.array([estimate, estimate]).shape == (2, 2)
    for copied in (pickle.loads(pickle.dumps(estimate)), copy.deepcopy(estimate)):
        assert copied == estimate
        assert type(copied) is kind


def test_arithmetic_leaves_the_counts_behind():
    assert type(sd.Count(12.0, 0.5) / 4) is sd.Estimate  # neither a share nor a sum is a number of eigenvalues


def test_a_number_equals_an_estimate_of_this_value():
    assert sd.Count(12.0, 0.0) == 12
    assert sd.Count(12.0, 0.0) != 13
    assert hash(sd.Count(12.0, 0.0)) == hash(12)
    assert min(sd.Estimate(2.0, 0.1), sd.Estimate(1.0, 0.3)).value == 1.0
    assert round(sd.Estimate(12.345, 1.0)) == 12
    assert round(sd.Estimate(12.345, 1.0), 1) == 12.3


def test_an_estimate_of_zero_is_false_as_zero_is():
    assert not sd.Count(0.0, 0.5)
    assert sd.Count(0.5, 0.0)


@pytest.mark.parametrize("narrow", [np.float16(2), np.float32(2), np.int8(2)])
def test_numbers_of_few_bits_do_not_narrow_an_estimate(narrow):
    estimate = sd.Estimate(84861.23456789, 262.7)
    for result, exact in (
        (estimate * narrow, estimate * 2), (estimate / narrow, estimate / 2), (estimate + narrow, estimate + 2),
        (estimate - narrow, estimate - 2), (narrow - estimate, 2 - estimate), (narrow * estimate, 2 * estimate),
    ):  # fmt: skip
        assert tuple(result) == tuple(exact)


def test_several_estimates_scale_together():
    counts = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 100))).count([-1.0, 0.0], 0.5)
    doubled = 2 * counts
    assert isinstance(doubled, sd.Estimates)
    assert np.array_equal(doubled.value, 2 * counts.value)
    assert np.array_equal(doubled.stderr, 2 * counts.stderr)


@pytest.mark.parametrize("function", [np.log, np.isfinite, lambda e: np.ones(3) * e], ids=["log", "isfinite", "array"])
def test_functions_of_arrays_are_refused_rather_than_applied_to_value_and_error(function):
    with pytest.raises(TypeError, match=r"no rule for the standard error of an estimate\. Take its parts"):
        function(sd.Estimate(3.0, 1.0))


def test_two_estimates_are_not_added():
    estimate = sd.Estimate(3.0, 1.0)
    for combine in (lambda e: e + e, lambda e: e - e, lambda e: e * e, lambda e: e / e, lambda e: sum([e, e])):
        with pytest.raises(TypeError, match="errors that come from the same probes depend on each other"):
            combine(estimate)


@pytest.mark.parametrize(
    ("value", "stderr", "text"),
    [
        (33.5600000001, 7.5e-12, "33.56 ± 7.5e-12"),
        (84861.3, 262.7, "84861 ± 263"),
        (12.0, 0.391, "12.00 ± 0.39"),
        (9.99, 0.0996, "9.99 ± 0.10"),
        (300.0, 0.0, "300 ± 0"),
        (0.0, 0.1, "0.00 ± 0.10"),
        (0.0, 3.5e-9, "0 ± 3.5e-09"),
        (1e-8, 1e-9, "1.00e-08 ± 1.0e-09"),
        (1.5e12, 2e10, "1.500e+12 ± 2.0e+10"),
        (1e5, 1e7, "100000 ± 10000000"),
        (np.nan, np.nan, "nan ± nan"),
        (np.inf, 0.0, "inf ± 0"),
        (2.0, np.inf, "2 ± inf"),
        (2 - 3j, 0.1, "(2.00 - 3.00j) ± 0.10"),
    ],
)
def test_an_estimate_prints_to_the_second_digit_of_its_error(value, stderr, text):
    estimate = sd.Estimate(value, stderr)
    assert str(estimate) == repr(estimate) == f"{estimate}" == text


def test_a_format_applies_to_the_value_and_to_the_error():
    assert f"{sd.Estimate(3.14159, 0.002):.3f}" == "3.142 ± 0.002"


def test_a_distance_prints_its_error_and_the_noise():
    eigenvalues = np.linspace(-1, 1, 1000)
    apart = sd.analysis.distance(sd.fast_lanczos(np.diag(eigenvalues)), eigenvalues + 0.5)
    assert str(apart) == repr(apart)
    assert f"± {apart.stderr:.2g} (sampling alone: {apart.noise:.2g})" in str(apart)
    assert f"{apart:.3f}" == f"{float(apart):.3f}"
