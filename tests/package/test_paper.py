"""The two synthetic verifications of the paper [Papyan 2019, section on verification]."""

from __future__ import annotations

import numpy as np
import pytest
from spectra import exact_w1

import specdens as sd
from specdens._density.estimators import gaussian_width
from specdens._density.smoothing import Bumps, cell_averages

pytestmark = pytest.mark.slow

# -- three spikes on a Wishart matrix ----------------------------------------------------------------------------------

N = 2000
SPIKES = np.array([5.0, 4.0, 3.0])
SHOWN = np.sort(SPIKES + SPIKES / (SPIKES - 1))  # 4.5, 5.33, 6.25


@pytest.fixture(scope="module")
def spiked_wishart() -> tuple[np.ndarray, np.ndarray]:
    Z = np.random.default_rng(0).standard_normal((N, N))
    Y = Z @ Z.T / N
    Y[np.arange(3), np.arange(3)] += SPIKES
    return Y, np.linalg.eigvalsh(Y)


def test_the_exact_outliers_are_where_theory_puts_them(spiked_wishart):
    _, eigenvalues = spiked_wishart
    # fluctuations of order 1/√n: five of them
    assert np.allclose(eigenvalues[-3:], SHOWN, atol=5 * np.sqrt(2 / N) * 2)


def test_ten_probes_show_bulk_and_outliers_without_deflation(spiked_wishart):
    Y, eigenvalues = spiked_wishart
    measure = sd.fast_lanczos(Y, num_steps=128, num_probes=10)
    assert exact_w1(measure.bulk_cdf, eigenvalues) <= 2.5 * measure.sampling_distance()
    for outlier in eigenvalues[-3:]:
        value, stderr = measure.count(outlier - 0.1, outlier + 0.1)
        assert value == pytest.approx(1, abs=4 * stderr)
        assert stderr < 1
    density = measure.density()
    histogram, edges = np.histogram(eigenvalues, bins=20, range=(0, 4))
    drawn = np.diff(density.cdf(edges))
    # the kernel blurs the edge at zero, where the density diverges: compare beyond it
    assert np.allclose(drawn[1:], histogram[1:] / N, atol=0.01)


def test_deflation_of_rank_three_makes_the_outliers_atoms(spiked_wishart):
    Y, eigenvalues = spiked_wishart
    found = sd.spectral_density(Y, rank=3, num_probes=10)
    assert np.allclose(found.atoms.positions, eigenvalues[-3:], rtol=1e-6)
    density = found.measure.density(kernel="gaussian")
    assert np.allclose(density.atoms.positions, eigenvalues[-3:], rtol=1e-6)
    assert np.allclose(density.atoms.masses, 1 / N)
    assert density.mass() + density.mass_outside == pytest.approx(1, rel=1e-9)
    assert density.grid[-1] < 4.5  # the bulk on its own scale
    sigma = gaussian_width(density.measure.bounds(), density.measure.num_steps, 1.25)
    bumps = Bumps(eigenvalues[:-3], np.full(N - 3, 1 / N), np.full(N - 3, sigma))
    exact = cell_averages(density.edges, bumps)[0]
    assert np.mean(np.abs(density.values - exact) <= 2 * density.stderr) >= 0.9


# -- a heavy tail on a logarithmic axis --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def heavy() -> tuple[np.ndarray, np.ndarray]:
    """Return Y and its eigenvalues: 500 zeros, the others from 50 to 7e7, of which rounding is far below ε = 1e-5."""
    Z = 1 + np.random.default_rng(0).pareto(1.0, (1000, 500))
    values = np.linalg.svd(Z / np.sqrt(1000), compute_uv=False) ** 2
    return Z @ Z.T / 1000, np.concatenate([np.zeros(500), np.sort(values)])


@pytest.fixture(scope="module")
def heavy_density(heavy) -> sd.Density:
    return sd.spectral_density(heavy[0], function="log", num_probes=10)


def test_half_of_the_eigenvalues_are_zero(heavy, heavy_density):
    value, stderr = heavy_density.measure.count(-5, 5)
    assert np.sum(heavy[1] < 5) == 500
    assert value == pytest.approx(500, abs=4 * stderr)
    assert stderr < 10  # sampling alone: 1000·√(2/1002 · ¼ / 10) = 7
    assert heavy_density.cdf(np.log(1e-3)) == pytest.approx(0.5, abs=0.03)


def test_the_log_spectrum_is_the_exact_one_smoothed_by_the_same_kernel(heavy, heavy_density):
    density, images = heavy_density, np.log(heavy[1] + 1e-5)
    assert density.axis == "log(|λ| + ε)"
    assert density.mass() + density.mass_outside == pytest.approx(1, rel=1e-9)
    levels = np.quantile(images[500:], [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
    sigma = float(density.kernel.split("σ = ")[1].split()[0])
    edges = np.concatenate([[-100.0], levels, [100.0]])
    exact = cell_averages(edges, Bumps(images, np.full(1000, 1e-3), np.full(1000, sigma)))[0] * np.diff(edges)
    # ten probes at n = 1000: 0.007 of a CDF unit, three of them
    assert np.allclose(density.cdf(levels), np.cumsum(exact)[:-1], atol=3 * 0.007)


def test_the_error_band_of_the_log_density_covers_the_smoothed_spectrum(heavy, heavy_density):
    density, images = heavy_density, np.log(heavy[1] + 1e-5)
    sigma = float(density.kernel.split("σ = ")[1].split()[0])
    exact = cell_averages(density.edges, Bumps(images, np.full(1000, 1e-3), np.full(1000, sigma)))[0]
    assert np.mean(np.abs(density.values - exact) <= 2 * density.stderr) >= 0.9


@pytest.mark.parametrize(("per", "power"), [("log", -0.5), ("lambda", -1.5)])
def test_the_tail_falls_with_the_power_three_halves_per_unit_lambda(heavy, heavy_density, per, power):
    # above 3e4 an eigenvalue is the square of a single entry of Z; equal cells on the logarithmic axis
    edges = np.linspace(np.log(3e4), np.log(1e7), 7)
    centres = (edges[1:] + edges[:-1]) / 2
    if per == "log":
        density = heavy_density.measure.log_density(grid=centres)
    else:
        whole = heavy_density.measure.log_density(per="lambda")
        mass = np.diff(whole.cdf(np.exp(edges)))
        assert np.allclose(mass, np.diff(heavy_density.cdf(edges)), atol=1e-3)  # the same masses on another axis
        density = None
    values = density.values if density is not None else mass / np.diff(np.exp(edges))
    exact = np.histogram(heavy[1], np.exp(edges))[0] / 1000 / np.diff(edges if per == "log" else np.exp(edges))
    slopes = [np.polyfit(centres, np.log(y), 1)[0] for y in (values, exact)]
    assert slopes[0] == pytest.approx(slopes[1], abs=0.1)  # cells hold 5 to 40 eigenvalues; probes add 10 % to each
    assert slopes[0] == pytest.approx(power, abs=0.15)
