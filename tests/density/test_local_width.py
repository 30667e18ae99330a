"""The default picture: what it shows agrees with what the measure knows."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from spectra import FAMILIES, chain, diagonal, laplacian_2d, semicircle

import specdens as sd
from specdens._density.folding import smoothed
from specdens._density.kernel_width import interpolated_width
from specdens._density.pieces import Pieces, PointMasses, cut, split, union
from specdens._distributions.cdf import Cdf


def deepnet(n: int) -> np.ndarray:
    """Return a narrow core with wide shoulders, and outliers a thousand times as far out."""
    rng = np.random.default_rng(1)
    shoulders, core = 0.2 * rng.standard_normal(n // 20), 0.02 * rng.standard_normal(n - n // 20 - 12)
    return np.concatenate([core, shoulders, [5, 7, 8, 9, 11, 14, 18, 25, 40, 60, -2, -3]])


SPECTRA = {
    **{name: family(2000) for name, family in FAMILIES.items()},
    "2-D Laplacian": laplacian_2d(45),
    "chain": chain(2000),
    "deepnet": deepnet(4000),
    "random tree": np.linalg.eigvalsh(sd.graph_laplacian(nx.random_labeled_tree(1200, seed=1)).toarray()),
    "random graph": np.linalg.eigvalsh(nx.to_numpy_array(nx.gnp_random_graph(1200, 3 / 1200, seed=0))),
    "two bands and a state between": np.concatenate([semicircle(1000) - 4, semicircle(1000) + 4, [0.3]]),
    "uniform with a heavy null space": np.concatenate([np.zeros(700), np.linspace(0.5, 2, 1300)]),
}
RUNS = [(1, 32), (8, 32), (1, 128), (8, 128)]


def measure_of(name: str, num_probes: int, num_steps: int, seed: int = 0) -> sd.SpectralMeasure:
    return sd.fast_lanczos(diagonal(SPECTRA[name]), num_steps=num_steps, num_probes=num_probes, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize(("num_probes", "num_steps"), RUNS)
def test_drawn_mass_agrees_with_the_measure_wherever_an_interval_is_resolved(name, num_probes, num_steps):
    measure = measure_of(name, num_probes, num_steps)
    density = measure.density()
    h = interpolated_width(density.grid, density.resolution)
    rng, nudge = np.random.default_rng(0), 1e-7 * measure.bounds().width
    misses = []
    for _ in range(60):
        lo, hi = measure.quantile(np.sort(rng.random(2))) + np.array([-nudge, nudge])
        half = max((hi - lo) / 2, 2 * float(h(lo)), 2 * float(h(hi)))  # four widths of the kernel at least
        lo, hi = (lo + hi) / 2 - half, (lo + hi) / 2 + half
        drawn, known = density.cdf([lo, hi]), measure.cdf([lo, hi])
        error = measure.count(lo, hi).stderr / measure.dimension
        misses.append(abs(np.diff(drawn)[0] - np.diff(known)[0]) / (2 * error + 2e-3))
    assert np.quantile(misses, 0.95) <= 1
    assert max(misses) <= 2.5


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("num_probes", [1, 8])
def test_no_mass_lies_beyond_the_ends_and_the_whole_is_1(name, num_probes):
    density = measure_of(name, num_probes, 64).density()
    eigenvalues = SPECTRA[name]
    room = np.diff(density.edges).max()
    assert density.cdf(eigenvalues.min() - room) <= 1e-12
    assert density.cdf(eigenvalues.max() + room) == pytest.approx(1, abs=1e-9)
    assert density.mass() + density.mass_outside == pytest.approx(1, rel=1e-12)
    assert density.mass_outside == pytest.approx(0, abs=1e-9)


def exact_like(density: sd.Density, eigenvalues: np.ndarray) -> np.ndarray:
    """Return the exact spectrum, but for the atoms, smoothed as the density is."""
    near = np.zeros(eigenvalues.size, dtype=bool)
    for x in density.atoms.positions:
        near |= np.abs(eigenvalues - x) <= 1e-5 * np.ptp(eigenvalues)
    rest = np.sort(eigenvalues[~near])
    drawn = density.grid[density.values > 0]
    ends = sd.Interval(float(drawn[0]), float(drawn[-1]))
    pieces = Pieces(rest, rest, np.full(rest.size, 1 / eigenvalues.size))
    return smoothed(density.edges, pieces, interpolated_width(density.grid, density.resolution), [ends])


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECTRA)
def test_the_band_holds_the_exact_spectrum_smoothed_alike(name):
    covered = []
    for num_probes, num_steps in RUNS:
        density = measure_of(name, num_probes, num_steps, seed=3).density()
        exact = exact_like(density, SPECTRA[name])
        shown = exact > 0.01 * exact.max()
        covered.append(np.mean((np.abs(exact - density.values) <= 2 * density.stderr)[shown]))
    assert np.mean(covered) >= 0.9
    assert min(covered) >= 0.75


@pytest.mark.parametrize("method", [None, "fast_lanczos"])
def test_single_eigenvalues_at_a_smooth_edge_are_no_spikes(method):
    heights = []
    for seed in range(6):
        matrix = np.random.default_rng(seed).standard_normal((300, 300))
        probes = None if method is None else 4
        drawn = sd.spectral_density((matrix + matrix.T) / np.sqrt(600), method=method, num_probes=probes)
        heights.append(np.max(drawn.values[np.abs(drawn.grid) > 1.9]))
    assert max(heights) < 1.05 / np.pi  # the law is 1/π in the middle and below 0.1 there


def test_what_rounding_leaves_beside_atoms_is_not_drawn():
    drawn = sd.spectral_density(sd.graph_laplacian(nx.karate_club_graph()))
    assert np.sum(drawn.atoms.masses) == pytest.approx(1.0)
    assert not np.any(drawn.values)


def test_outliers_do_not_widen_the_bulk():
    """The paper's kernel, as wide as the outliers are far, shows a third of the mass where all of it is."""
    measure = measure_of("deepnet", 4, 128)
    known = float(np.diff(measure.cdf([-0.1, 0.1]))[0])
    exact = np.mean(np.abs(SPECTRA["deepnet"]) < 0.1)
    assert known == pytest.approx(exact, abs=0.02)
    assert float(np.diff(measure.density().cdf([-0.1, 0.1]))[0]) == pytest.approx(known, abs=0.01)
    assert float(np.diff(measure.density(kernel="gaussian").cdf([-0.1, 0.1]))[0]) < 0.5


def test_isolated_eigenvalues_are_atoms_with_their_mass():
    density = measure_of("deepnet", 4, 128).density()
    expected = np.array([-3, -2, 5, 7, 8, 9, 11, 14, 18, 25, 40, 60.0])
    outer = np.abs(density.atoms.positions) > 1
    np.testing.assert_allclose(density.atoms.positions[outer], expected, rtol=1e-6)
    errors = np.abs(density.atoms.masses[outer] - 1 / 4000)
    assert np.all(errors <= 3 * density.atom_stderr[outer] + 1e-9)


def test_a_state_between_two_bands_is_an_atom():
    eigenvalues = np.concatenate([semicircle(1000) - 4, semicircle(1000) + 4, [0.3]])
    density = sd.fast_lanczos(diagonal(eigenvalues), num_steps=80, num_probes=4).density()
    np.testing.assert_allclose(density.atoms.positions, [0.3], atol=1e-6)


@pytest.mark.slow
def test_a_degenerate_eigenvalue_within_a_bulk_is_an_atom():
    graph = nx.random_labeled_tree(2000, seed=1)
    A = sp.csr_array(nx.normalized_laplacian_matrix(graph))
    exact = np.sum(np.abs(np.linalg.eigvalsh(A.toarray()) - 1) < 1e-9)
    density = sd.fast_lanczos(A, num_steps=128, num_probes=8).density()
    (position,), (mass,), (stderr,) = density.atoms.positions, density.atoms.masses, density.atom_stderr
    assert position == pytest.approx(1, abs=1e-3)
    assert mass == pytest.approx(exact / 2000, abs=3 * stderr + 0.01)
    assert f"{mass:.3g}" in repr(density)


@pytest.mark.parametrize("name", ["semicircle", "Marchenko–Pastur 1/2", "2-D Laplacian", "chain"])
def test_a_smooth_bulk_has_no_atoms(name):
    for num_probes, num_steps in RUNS:
        assert measure_of(name, num_probes, num_steps).density().atoms.positions.size == 0


def test_a_given_width_is_the_resolution_everywhere():
    density = measure_of("deepnet", 2, 64).density(width=0.5)
    np.testing.assert_array_equal(density.resolution, 0.5)
    assert "σ = 0.5" in density.kernel


def test_a_coarse_grid_limits_the_resolution():
    density = measure_of("semicircle", 1, 64).density(20)
    np.testing.assert_array_less(np.diff(density.edges) / 2 - 1e-12, density.resolution)


def test_kappa_belongs_to_the_gaussian_kernel():
    measure = measure_of("semicircle", 1, 32)
    np.testing.assert_array_equal(
        measure.density(kappa=3.0).values, measure.density(kernel="gaussian", kappa=3.0).values
    )
    with pytest.raises(ValueError, match="`kappa` must be left out for the kernel jackson"):
        measure.density(kernel="jackson", kappa=2.0)
    with pytest.raises(ValueError, match="`kappa` must be left out for the kernel gaussian of a given width"):
        measure.density(kappa=2.0, width=0.1)


# -- pieces ------------------------------------------------------------------------------------------------------------


def test_cutting_keeps_the_mass():
    cdf = Cdf.of_slabs(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 4.0]), np.array([0.2, 0.5, 0.3]))
    points = PointMasses(np.array([1.0]), np.array([0.9]), np.array([1.1]))
    pieces, within = cut(cdf, points)
    assert within == pytest.approx([0.52])
    assert pieces.mass.sum() == pytest.approx(0.48)
    x, mass = split(pieces, np.full(pieces.mass.size, 0.1))
    assert mass.sum() == pytest.approx(0.48)
    assert not np.any((x > 0.9) & (x < 1.1))
    nothing = PointMasses(*(np.empty(0) for _ in range(3)))
    assert cut(cdf, nothing)[0].mass.sum() == pytest.approx(1)


def test_overlapping_intervals_become_one_at_the_known_position():
    known = PointMasses(np.array([1.0]), np.array([0.9]), np.array([1.1]))
    seen = PointMasses(np.array([1.05, 3.0]), np.array([1.0, 2.9]), np.array([1.2, 3.1]))
    merged = union(known, seen)
    np.testing.assert_array_equal(merged.positions, [1.0, 3.0])
    np.testing.assert_array_equal(merged.hi, [1.2, 3.1])


@pytest.mark.parametrize("num_probes", [1, 4])
def test_isolated_eigenvalues_far_apart_are_atoms_of_one_eigenvalue(num_probes):
    rng = np.random.default_rng(0)
    bulk = 0.1 * rng.standard_normal(20_000) * np.exp(0.7 * rng.standard_normal(20_000))
    eigenvalues = np.concatenate([[40.0, -3.0, 20.0, 15.0, 8.0, 6.0, 5.0], bulk])
    density = sd.fast_lanczos(sp.diags_array(eigenvalues), num_probes=num_probes).density()
    beyond = np.sort(eigenvalues)[[0, 1, -1, -2, -3, -4, -5, -6]]
    for eigenvalue in beyond:
        nearest = np.argmin(np.abs(density.atoms.positions - eigenvalue))
        assert density.atoms.positions[nearest] == pytest.approx(eigenvalue, abs=1e-6)
        assert density.atoms.masses[nearest] * eigenvalues.size == pytest.approx(1.0, abs=0.05)


def test_the_masses_of_computed_eigenvalues_have_no_error():
    density = sd.spectral_density(np.array([[1.0, 2.0], [2.0, 1.0]]))
    np.testing.assert_allclose(density.atom_stderr, 0.0, atol=1e-12)
    assert "0.5 at -1, 0.5 at 3" in repr(density)
