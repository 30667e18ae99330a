"""The power law of a heavy tail: found where it is, and only there."""

import numpy as np
import pytest
from slow_cases import slow_after

import specdens as sd
from specdens import analysis


def random_bulk(n, seed):
    X = np.random.default_rng(seed).standard_normal((2 * n, n))
    return np.linalg.svd(X, compute_uv=False) ** 2 / (2 * n)


def heavy_tail(n, exponent, start):
    """Return the quantiles of a density ∝ λ^(−exponent) above `start`."""
    return start * ((np.arange(n) + 0.5) / n) ** (-1 / (exponent - 1))


@pytest.mark.parametrize("seed", slow_after(1, range(4)))
def test_the_tail_of_a_random_bulk_has_its_own_exponent(seed):
    values = np.concatenate([random_bulk(1024, seed)[128:], heavy_tail(128, 2.5, 3.0)])
    fit = analysis.fit_power_law(sd.SpectralMeasure.from_eigenvalues(values), tail=True)
    assert abs(fit.exponent + 2.5) < 3 * fit.stderr < 0.6
    assert fit.range.hi == pytest.approx(values.max())


@pytest.mark.parametrize("seed", slow_after(1, range(4)))
def test_a_random_matrix_has_no_heavy_tail(seed):
    measure = sd.SpectralMeasure.from_eigenvalues(random_bulk(512, seed))
    assert (
        analysis.fit_power_law(measure).range.hi < measure.nodes[0].max()
    )  # without `tail` the bulk has a straight part
    with pytest.raises(ValueError, match="no range of half a decade at the end follows a power law"):
        analysis.fit_power_law(measure, tail=True)


def test_a_tail_with_a_range_is_refused():
    measure = sd.SpectralMeasure.from_eigenvalues(heavy_tail(500, 2.0, 1.0))
    with pytest.raises(ValueError, match=r"`tail` must come without a `range`, which it chooses; got \(1.0, 2.0\)"):
        analysis.fit_power_law(measure, range=(1.0, 2.0), tail=True)


@pytest.mark.parametrize("seed", range(4))
def test_a_group_of_outliers_is_no_tail(seed):
    # a line through bulk and outliers foretells half an eigenvalue where there are six
    values = np.concatenate([random_bulk(122, seed), 30.0 + np.arange(6)])
    with pytest.raises(ValueError, match="no range of half a decade at the end follows a power law"):
        analysis.fit_power_law(sd.SpectralMeasure.from_eigenvalues(values), tail=True)
