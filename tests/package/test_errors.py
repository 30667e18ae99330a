"""The checks of arguments that all modules share name the argument, the value and the limit."""

from __future__ import annotations

import numpy as np
import pytest

from specdens._validate import as_choice, as_count, as_positive


def test_counts_are_whole_numbers_of_any_integer_type():
    assert [as_count("k", value) for value in (3, np.int8(3), np.uint64(3), np.asarray(3))] == [3] * 4
    assert as_count("k", 0, minimum=0) == 0
    assert as_count("k", 5, maximum=5) == 5


@pytest.mark.parametrize("value", [2.0, "2", None, [2]])
def test_what_is_not_an_integer_is_no_count(value):
    with pytest.raises(TypeError, match="`k` must be an integer; got "):
        as_count("k", value)


def test_counts_out_of_range_are_refused_with_the_limit():
    with pytest.raises(ValueError, match="`k` must be at least 2; got 1"):
        as_count("k", 1, minimum=2)
    with pytest.raises(ValueError, match=r"`k` must be at most the dimension \(4\); got 5"):
        as_count("k", 5, maximum=4)
    with pytest.raises(ValueError, match=r"`k` must be at most the rank \(4\); got 5"):
        as_count("k", 5, maximum=4, limit="the rank")


@pytest.mark.parametrize("value", [0, -1, np.inf, np.nan])
def test_positive_numbers_are_positive_and_finite(value):
    with pytest.raises(ValueError, match=r"`h` must be positive and finite; got .*\. Take 1\.$"):
        as_positive("h", value, remedy="Take 1.")
    assert as_positive("h", np.float32(0.5)) == 0.5


def test_what_is_not_a_number_is_not_positive():
    with pytest.raises(TypeError, match="`h` must be a number; got 'wide'"):
        as_positive("h", "wide")


def test_a_choice_is_one_of_the_offered():
    assert as_choice("kind", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match="`kind` must be one of a, b; got 'c'"):
        as_choice("kind", "c", ("a", "b"))
