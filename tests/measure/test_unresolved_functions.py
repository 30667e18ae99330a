"""Traces of functions that the nodes do not resolve: their errors say so."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from spectra import diagonal

import specdens as sd


@pytest.mark.parametrize("function", [np.exp, np.abs, np.sign, np.square])
@pytest.mark.parametrize("num_steps", [1, 2, 3])
@pytest.mark.parametrize("method", [sd.fast_lanczos, lambda A, num_steps: sd.kpm(A, num_moments=2 * num_steps)])
def test_a_few_steps_do_not_claim_to_know_a_trace(method, num_steps, function):
    e = np.linspace(-1, 1, 400)
    value, stderr = method(np.diag(e), num_steps=num_steps).trace(function)
    assert abs(value - np.sum(function(e))) < 2 * stderr


@pytest.mark.parametrize("width", [0.001, 0.003, 0.01])
def test_a_function_between_two_nodes_has_a_trace(width):
    e = np.linspace(-1, 1, 20_000)
    measure = sd.fast_lanczos(diagonal(e), num_steps=32, num_probes=2)
    for center in np.linspace(-0.5, 0.5, 11):
        peak = partial(_peak, center, width)
        value, stderr = measure.trace(peak)
        exact = np.sum(peak(e))
        assert abs(value - exact) < 2 * stderr < 2 * exact


def _peak(center, width, x):
    return np.exp(-(((x - center) / width) ** 2) / 2)
