"""Outliers of tails that end slowly: wide gaps are common there, and no sign of an outlier."""

import numpy as np
import pytest
import spectra

import specdens as sd
from specdens import analysis
from specdens._measure.edge_shape import SHARP, SLOW, edge_index, surprising_gap


@pytest.mark.slow
def test_a_bulk_of_independent_eigenvalues_has_no_outliers():
    draws = [
        lambda rng: rng.standard_normal(2000),
        lambda rng: rng.exponential(size=2000),
        lambda rng: rng.laplace(size=2000),
    ]
    named = 0
    for seed in range(40):
        for draw in draws:
            eigenvalues = draw(np.random.default_rng(seed))
            named += len(analysis.outliers(sd.fast_lanczos(spectra.diagonal(eigenvalues), seed=seed))) > 0
    assert named <= 0.03 * 120  # 28 % before


@pytest.mark.parametrize("num_probes", [1, 4])
def test_outliers_beyond_a_slow_tail_are_found(num_probes):
    bulk = np.random.default_rng(0).laplace(size=3000)
    outliers = np.max(np.abs(bulk)) * np.geomspace(2, 10, 8)
    measure = sd.fast_lanczos(spectra.diagonal(np.append(bulk, outliers)), num_probes=num_probes)
    np.testing.assert_allclose(analysis.outliers(measure).positions, outliers)


@pytest.mark.parametrize(("index", "quantile"), [(SHARP, lambda u: 1 - u ** (2 / 3)), (SLOW, lambda u: -np.log(u))])
def test_the_index_of_an_edge_is_that_of_its_quantiles(index, quantile):
    x = quantile((np.arange(20000) + 0.5) / 20000)
    assert edge_index(x[0] - x, np.ones(x.size), 1, 10**9) == pytest.approx(index, abs=0.12)


def test_a_gap_is_judged_by_how_rare_it_is():
    assert surprising_gap(1.25, SHARP, 1) == pytest.approx(1.25)
    assert surprising_gap(1.25, SLOW, 1) > 3 > surprising_gap(1.25, SLOW, 10) > 1.25
    # of independent exponential variables, one gap in so many is as wide
    rng = np.random.default_rng(0)
    x = np.sort(rng.exponential(size=(20000, 60)), axis=1)[:, ::-1]
    gap, span = x[:, 0] - x[:, 1], x[:, 1] - x[:, 11]
    assert np.mean(gap > surprising_gap(1.25, SLOW, 1) * span) < 0.005
