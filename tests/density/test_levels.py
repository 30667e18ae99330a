"""Exact spectra as curves: bands, gaps, levels that stand alone, and widths that were asked for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from slow_cases import slow_after
from spectra import semicircle

import specdens as sd
from specdens._measure.drawings import DENSITY_KERNELS


def ssh(num_cells: int, v: float, w: float) -> sp.csr_array:
    """Return the Su–Schrieffer–Heeger chain with open ends, which has two states at zero for v < w."""
    h = np.empty(2 * num_cells - 1)
    h[0::2], h[1::2] = v, w
    return sp.diags_array([h, h], offsets=[1, -1]).tocsr()


def lieb(size: int) -> sp.csr_array:
    """Return the Lieb lattice on a torus, a third of whose states is in a flat band at zero."""
    hub = np.arange(size * size).reshape(size, size)
    pairs = [(hub, hub), (hub, np.roll(hub, -1, axis=0)), (hub, hub), (hub, np.roll(hub, -1, axis=1))]
    links = [sp.coo_array((np.ones(hub.size), (b.ravel(), a.ravel())), shape=2 * (hub.size,)) for a, b in pairs]
    across = sp.vstack([links[0] + links[1], links[2] + links[3]])
    return sp.block_array([[None, across], [across.T, None]]).tocsr()


RNG = np.random.default_rng(0)
SPECTRA = {
    "chain with edge states": np.linalg.eigvalsh(ssh(200, 0.5, 1.0).toarray()),
    "flat band between bands": np.concatenate([np.zeros(300), np.linspace(1, 2, 300), -np.linspace(1, 2, 300)]),
    "Lieb lattice": np.linalg.eigvalsh(lieb(17).toarray()),
    "semicircle": semicircle(700),
    "levels at random": np.sort(RNG.uniform(-1, 1, 900)),
    "random matrix": np.linalg.eigvalsh((lambda X: (X + X.T) / 40)(RNG.standard_normal((500, 500)))),
    "power law": np.geomspace(1e-3, 1, 600),
    "outliers": np.concatenate([RNG.uniform(-1, 1, 600), 1.3 * np.arange(2, 12)]),
    "small": np.linspace(0, 1, 60),
}


@pytest.mark.parametrize("name", SPECTRA)
def test_drawn_masses_of_wide_intervals_are_the_exact_counts(name):
    e = SPECTRA[name]
    density = sd.spectral_density(np.diag(e))
    assert density.mass() == pytest.approx(1, abs=1e-9)
    at = np.quantile(e, np.linspace(0, 1, 200)) + 1e-9
    h = np.interp(at, density.grid, density.resolution)
    below, above = (np.array([np.mean(e <= x) for x in at + shift]) for shift in (-3 * h, 3 * h))
    one = 0.51 / e.size  # spreading levels between their neighbours moves half of one
    drawn = density.cdf(at)
    assert np.all(drawn >= below - one)
    assert np.all(drawn <= above + one)


@pytest.mark.parametrize("name", SPECTRA)
def test_no_mass_lies_beyond_the_ends_or_in_wide_gaps(name):
    e = np.sort(SPECTRA[name])
    density = sd.spectral_density(np.diag(e))
    room = np.diff(density.edges).max()
    drawn = density.cdf(np.array([e[0] - room, e[-1] + room]))
    assert drawn[0] == 0
    assert drawn[1] == pytest.approx(1, abs=1e-9)
    gaps = np.diff(e)
    h = np.interp(e, density.grid, density.resolution)
    cells = np.interp(e, density.grid, np.diff(density.edges))
    wide = np.flatnonzero(gaps > 6 * np.maximum(h[:-1], h[1:]) + 4 * np.maximum(cells[:-1], cells[1:]))
    inside = density.cdf(e[wide + 1] - 2 * cells[wide + 1]) - density.cdf(e[wide] + 2 * cells[wide])
    assert np.all(inside < 1e-6)


def test_edge_states_and_flat_bands_are_atoms():
    chain = sd.spectral_density(ssh(200, 0.5, 1.0))
    assert chain.atoms.positions == pytest.approx([0], abs=1e-12)
    assert chain.atoms.masses == pytest.approx([2 / 400])
    assert np.all(chain.values[np.abs(chain.grid) < 0.49] == 0)
    flat = sd.spectral_density(np.diag(SPECTRA["flat band between bands"]))
    assert flat.atoms.masses == pytest.approx([1 / 3])
    np.testing.assert_allclose(flat.values[(flat.grid > 1.01) & (flat.grid < 1.99)], 1 / 3, rtol=1e-3)
    band = sd.spectral_density(lieb(17))
    at_zero = np.abs(band.atoms.positions) < 1e-9
    assert band.atoms.masses[at_zero] == pytest.approx([289 / 867])


def test_two_states_that_split_in_a_gap_are_two_atoms():
    e = np.concatenate([-np.linspace(1, 2, 100), [-1e-4, 1e-4], np.linspace(1, 2, 100)])
    density = sd.spectral_density(np.diag(e))
    assert density.atoms.positions == pytest.approx([-1e-4, 1e-4])


def test_a_run_of_all_steps_is_drawn_over_its_whole_spectrum():
    A = ssh(200, 0.5, 1.0)
    density = sd.slow_lanczos(A, num_steps=400).density()
    assert density.grid[0] < -1.5
    assert density.grid[-1] > 1.5
    assert density.atoms.positions.size < 20
    assert density.mass() == pytest.approx(1, abs=1e-6)


# -- widths and kernels that were asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "width"),
    [(kernel, None) for kernel in (*DENSITY_KERNELS, None)]
    + [(kernel, 0.05) for kernel in ("local", "gaussian", "jackson", "lorentz", None)],
)
def test_known_eigenvalues_become_a_curve_with_any_kernel(kernel, width):
    e = SPECTRA["chain with edge states"]
    density = sd.SpectralMeasure.from_eigenvalues(e).density(kernel=kernel, width=width)
    assert np.sum(density.values * np.diff(density.edges)) > 0.99
    assert density.cdf(0.0) == pytest.approx(0.5, abs=0.01)
    assert density.cdf(1.0) == pytest.approx(np.mean(e <= 1.0), abs=0.02)


def test_an_energy_resolution_draws_the_smoothed_spectrum():
    A = ssh(200, 0.5, 1.0)
    density = sd.spectral_density(A, energy_resolution=0.02)
    e = SPECTRA["chain with edge states"]
    bulk = e[np.abs(e) > 0.1]
    x = density.grid
    inner = (np.abs(x) > 0.6) & (np.abs(x) < 1.4)  # more than four widths from the ends, where the curve is folded
    bumps = np.exp(-(((x[:, None] - bulk) / 0.02) ** 2) / 2) / (0.02 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(density.values[inner], (bumps.sum(axis=1) / e.size)[inner], rtol=0.01)
    assert density.atoms.masses == pytest.approx([2 / 400])


def test_the_gaussian_kernel_smooths_known_eigenvalues_to_the_letter():
    e = SPECTRA["small"]
    density = sd.SpectralMeasure.from_eigenvalues(e).density(kernel="gaussian", width=0.05)
    x = density.grid
    bumps = np.exp(-(((x[:, None] - e) / 0.05) ** 2) / 2) / (0.05 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(density.values, bumps.mean(axis=1), atol=1e-3 * density.values.max())
    assert np.max(density.stderr) <= 1e-9 * density.values.max()


def test_a_width_finer_than_a_run_resolves_is_no_hindrance_for_known_eigenvalues():
    measure = sd.SpectralMeasure.from_eigenvalues(np.linspace(-1, 1, 100))
    density = measure.density(kernel="jackson", width=1e-3, num_points=4000)
    assert density.mass() == pytest.approx(1)
    assert np.max(density.values) > 3  # single levels are seen


def test_few_levels_are_stems_unless_a_width_is_asked_for():
    measure = sd.SpectralMeasure.from_eigenvalues([0.0, 1.0, 1.0, 3.0])
    assert measure.density().atoms.mass() == pytest.approx(1)
    broad = measure.density(width=0.1)
    assert not broad.atoms.positions.size
    assert broad.mass() == pytest.approx(1)
    assert np.interp(1.0, broad.grid, broad.values) == pytest.approx(0.5 / (0.1 * np.sqrt(2 * np.pi)), rel=1e-2)


@pytest.mark.parametrize("kernel", ["gaussian", "jackson"])
def test_a_large_null_space_does_not_keep_a_kernel_from_smoothing_a_band(kernel):
    eigenvalues = np.concatenate([np.zeros(10_000), np.linspace(1, 2, 200)])
    density = sd.SpectralMeasure.from_eigenvalues(eigenvalues).density(kernel=kernel)
    assert density.atoms.positions.size <= 1
    assert density.cdf(2.1) - density.cdf(0.9) == pytest.approx(200 / 10_200, rel=0.05)


def torus(size: int, flux: float) -> sp.csr_array:
    """Return Hofstadter's square lattice with a flux per plaquette."""
    site = np.arange(size * size).reshape(size, size)
    phases = np.repeat(np.exp(2j * np.pi * flux * np.arange(size)), size)
    x = sp.coo_array((np.ones(site.size), (site.ravel(), np.roll(site, -1, axis=0).ravel())), shape=2 * (site.size,))
    y = sp.coo_array((phases, (site.ravel(), np.roll(site, -1, axis=1).ravel())), shape=2 * (site.size,))
    return (x + y + (x + y).conj().T).tocsr()


@pytest.mark.slow
def test_degenerate_levels_inside_a_band_belong_to_the_curve_of_a_given_width():
    density = sd.spectral_density(torus(60, 1 / 3), energy_resolution=0.02, num_probes=8)
    assert not density.atoms.positions.size


@pytest.mark.slow
def test_a_run_that_finds_all_levels_is_broadened_as_asked():
    size = 30
    a = np.arange(size * size).reshape(size, size)
    links = [np.roll(a, shift, axis) for shift, axis in ((0, 0), (1, 0), (1, 1))]
    hop = sum(sp.coo_array((np.ones(a.size), (a.ravel(), b.ravel())), shape=2 * (a.size,)) for b in links)
    graphene = sp.block_array([[None, hop], [hop.T, None]]).tocsr()
    density = sd.spectral_density(graphene, energy_resolution=5e-3, num_probes=1)
    assert np.sum(density.values * np.diff(density.edges)) > 0.99


@pytest.mark.parametrize(
    "options", slow_after(1, [{}, {"width": 0.05}, {"kernel": "gaussian"}, {"kernel": "gaussian", "width": 0.1}])
)
def test_an_exact_spectrum_is_smoothed_alike_in_one_call(options):
    e = np.concatenate([semicircle(2000), [3.0]])
    density = sd.fast_lanczos(np.diag(e), num_steps=64, num_probes=4).density(**options)
    exact = density.smooth(e)
    shown = density.values > 0.01
    assert np.mean(np.abs(exact - density.values)[shown] <= 2 * density.stderr[shown]) > 0.85
    assert np.sum(exact * np.diff(density.edges)) == pytest.approx(1 - density.atoms.mass(), abs=1e-3)


def test_a_kernel_of_moments_cannot_smooth_a_spectrum_alike():
    density = sd.kpm(np.diag(np.linspace(-1, 1, 100))).density()
    with pytest.raises(ValueError, match="needs a Gaussian kernel; got a density with Jackson"):
        density.smooth(np.linspace(-1, 1, 100))
    with pytest.raises(ValueError, match="finite numbers"):
        density.smooth([np.nan])
