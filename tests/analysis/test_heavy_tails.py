"""Power laws of heavy tails: spectra over many decades, of which a run resolves a part."""

import numpy as np
import pytest
import scipy.sparse as sp

import specdens as sd
from specdens import analysis


def pareto(power, seed):
    """Return eigenvalues u^(−power) for uniform u: a density λ^(−1 − 1/power)."""
    return (1 - np.random.default_rng(1000 + seed).random(2000)) ** -power


@pytest.mark.parametrize("seed", [1, 2, 9])
def test_a_fit_over_thirteen_decades_is_finite(seed):
    # least squares on logarithms diverged here: nan ± nan
    eigenvalues = pareto(4.0, seed)
    measure = sd.fast_lanczos(sp.diags_array(eigenvalues), num_probes=8, seed=seed)
    fit = analysis.fit_power_law(measure, range=(1.0, np.quantile(eigenvalues, 0.999)))
    assert abs(fit.exponent + 1.25) < min(2 * fit.stderr, 0.2)
    assert 0 < fit.r_squared < 1


@pytest.mark.slow
@pytest.mark.parametrize("limits", [None, 0.99])
@pytest.mark.parametrize("power", [2.0, 1.0])
def test_two_standard_errors_cover_the_exponent_of_independent_eigenvalues(power, limits):
    inside, stderrs = [], []
    for seed in range(30):
        eigenvalues = pareto(power, seed)
        measure = sd.fast_lanczos(sp.diags_array(eigenvalues), seed=seed)
        interval = None if limits is None else (1.0, np.quantile(eigenvalues, limits))
        fit = analysis.fit_power_law(measure, range=interval)
        stderrs.append(fit.stderr)
        inside.append(abs(fit.exponent + 1 + 1 / power) <= 2 * fit.stderr)
    assert np.mean(inside) >= 0.9
    assert np.median(stderrs) < 0.15


def test_the_smallest_node_of_a_spectrum_over_decades_starts_no_bin():
    # half of the eigenvalues lie below the smallest node, down to 1: they are no part of the range that is fitted
    eigenvalues = pareto(4.0, 0)
    measure = sd.fast_lanczos(sp.diags_array(eigenvalues), num_probes=8)
    assert analysis.fit_power_law(measure).range.lo > 1.5 * min(nodes[0] for nodes in measure.nodes)
