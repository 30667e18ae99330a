"""Averages of measures, and the measures of single probes."""

from __future__ import annotations

import numpy as np
import pytest
from spectra import diagonal, semicircle

import specdens as sd


def disordered(seed: int, n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.eye(n, k=1) + np.eye(n, k=-1) + np.diag(rng.uniform(-1, 1, n))


@pytest.fixture(scope="module")
def runs():
    return [sd.fast_lanczos(disordered(seed), num_steps=60, seed=seed) for seed in range(12)]


def test_every_reading_is_the_mean_of_the_members(runs):
    ensemble = sd.average(runs)
    x = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(ensemble.cdf(x), np.mean([run.cdf(x) for run in runs], axis=0))
    assert ensemble.count(-1, 1).value == pytest.approx(np.mean([run.count(-1, 1).value for run in runs]))
    assert ensemble.trace(np.exp).value == pytest.approx(np.mean([run.trace(np.exp).value for run in runs]))
    np.testing.assert_allclose(ensemble.moments(4), np.mean([run.moments(4) for run in runs], axis=0))
    assert ensemble.cdf(ensemble.quantile(0.3)) == pytest.approx(0.3, abs=0.02)
    assert ensemble.num_products == sum(run.num_products for run in runs)
    assert ensemble[3] is runs[3]
    assert "12 measures" in repr(ensemble)


def test_weights_count(runs):
    weights = np.arange(1.0, 13.0)
    ensemble = sd.average(runs, weights=weights)
    expected = np.average([run.trace(np.square).value for run in runs], weights=weights)
    assert ensemble.trace(np.square).value == pytest.approx(expected)


@pytest.mark.slow
def test_errors_cover_the_mean_of_the_ensemble():
    """Many averages of 12 samples scatter as their errors say; each is of samples that differ."""
    f = np.square
    exact = np.mean([np.sum(np.linalg.eigvalsh(disordered(seed)) ** 2) for seed in range(1000, 1400)])
    found = [
        sd.average([sd.fast_lanczos(disordered(s), num_steps=30, seed=s) for s in range(12 * i, 12 * i + 12)]).trace(f)
        for i in range(12)
    ]
    misses = np.array([(value - exact) / stderr for value, stderr in found])
    assert np.mean(np.abs(misses) < 2) >= 0.8
    assert 0.4 < np.std(misses) < 1.6


def test_samples_that_differ_have_larger_errors_than_their_own():
    same = [sd.slow_lanczos(diagonal(semicircle(100) + 0.0), probes=np.ones(100)) for _ in range(4)]
    moved = [sd.slow_lanczos(diagonal(semicircle(100) + shift), probes=np.ones(100)) for shift in (-1, 0, 1, 2)]
    assert sd.average(same).mean(np.square).stderr < 1e-8
    assert sd.average(moved).mean(np.asarray).stderr == pytest.approx(np.std([-1, 0, 1, 2], ddof=1) / 2, rel=1e-6)


@pytest.mark.parametrize("draw", ["density", "log_density", "density_of"])
def test_drawings_are_averages_with_mass_one(runs, draw):
    ensemble = sd.average(runs[:4])
    density = getattr(ensemble, draw)(*([np.tanh] if draw == "density_of" else []))
    assert density.mass() + density.mass_outside == pytest.approx(1, abs=1e-6)
    assert density.measure is ensemble
    assert np.all(density.stderr[density.values > 0] > 0)
    assert "average of 4" in repr(density)


@pytest.mark.slow
def test_an_average_of_a_known_law_follows_it():
    """Gaussian orthogonal matrices of n = 150: their mean density is the semicircle."""

    def goe(seed):
        W = np.random.default_rng(seed).standard_normal((150, 150))
        return (W + W.T) / np.sqrt(300)

    ensemble = sd.average([sd.fast_lanczos(goe(seed), num_steps=40, seed=seed) for seed in range(20)])
    assert sd.analysis.distance(ensemble, sd.analysis.Semicircle(0, 2)) < 0.05
    ensemble.density().plot()


def test_what_cannot_be_averaged_is_refused(runs):
    with pytest.raises(ValueError, match="`measures` must hold at least one measure; got none"):
        sd.average([])
    with pytest.raises(TypeError, match="`measures` must be measures or densities; got int"):
        sd.average([3])
    with pytest.raises(ValueError, match=r"of one dimension; got \[100, 200\]"):
        sd.average([runs[0], sd.fast_lanczos(diagonal(semicircle(100)))])
    with pytest.raises(ValueError, match="`weights` must be 2 positive numbers"):
        sd.average(runs[:2], weights=[1, -1])


@pytest.mark.parametrize("method", ["fast_lanczos", "kpm"])
def test_each_probe_has_a_measure_of_its_own(method):
    eigenvalues = np.linspace(0, 1, 50)
    vectors = np.eye(50)[:, [3, 30]]
    call = sd.fast_lanczos if method == "fast_lanczos" else sd.kpm
    measure = call(diagonal(eigenvalues), probes=vectors)
    assert measure[0].num_probes == 1
    for j, site in enumerate((3, 30)):
        assert measure[j].mean(np.asarray).value == pytest.approx(eigenvalues[site], abs=1e-6)
    assert measure[-1].mean(np.asarray).value == pytest.approx(eigenvalues[30], abs=1e-6)
    assert len(list(measure)) == 2
    with pytest.raises(IndexError):
        measure[2]


def test_a_local_density_speaks_of_weight():
    measure = sd.fast_lanczos(np.diag([1.0, 2.0]), probes=np.array([3.0, 4.0]))
    assert measure.weight(1.5, 2.5).value == pytest.approx(0.64)
    assert measure.mean(np.square).value == pytest.approx(0.36 + 4 * 0.64)


def test_densities_are_averaged_by_their_measures(runs):
    ensemble = sd.average([run.density() for run in runs[:3]])
    assert ensemble.members == tuple(runs[:3])
