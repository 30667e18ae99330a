"""Densities on grids: exact masses, atoms apart, kernels, and errors that cover the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from spectra import FAMILIES, diagonal, pareto, semicircle
from strategies import seeds, spectra

import specdens as sd
from specdens._chebyshev.kernels import kernel_coefficients
from specdens._chebyshev.moments import chebyshev_cdf
from specdens._density.estimators import _width_map, gaussian_width
from specdens._density.smoothing import Bumps, cell_averages, local_mean
from specdens._measure.drawings import DENSITY_KERNELS
from specdens._measure.ritz_quadrature import _CHEBYSHEV_MARGIN

SEMICIRCLE = diagonal(semicircle(500))
TWENTY_STEPS = sd.fast_lanczos(SEMICIRCLE, num_steps=20)


def whole(density: sd.Density) -> float:
    return density.mass() + density.mass_outside


# -- mass ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", DENSITY_KERNELS)
@given(eigenvalues=spectra(), seed=seeds, num_points=st.sampled_from([2, 3, 10, 1024]))
def test_the_mass_is_one_at_any_number_of_points(kernel, eigenvalues, seed, num_points):
    measure = sd.fast_lanczos(np.diag(eigenvalues), num_steps=min(6, eigenvalues.size), seed=seed, num_probes=2)
    density = measure.density(num_points=num_points, kernel=kernel)
    assert density.grid.size == density.values.size == density.stderr.size == density.edges.size - 1 == num_points
    assert whole(density) == pytest.approx(1, rel=1e-9)
    # a Gaussian has 6e-5 of its mass beyond four widths; at two points the cells are as wide as the spectrum
    # "adaptive" and "local" are as wide as the distance between nodes: with two nodes that is the whole spectrum
    assert density.mass_outside < 1e-4 or kernel in ("adaptive", "local")
    if kernel != "dirichlet":
        assert np.all(density.values >= 0)
    assert np.all(density.stderr >= 0)


@pytest.mark.parametrize("kernel", DENSITY_KERNELS)
@given(
    points=st.lists(st.integers(-300, 300), min_size=2, max_size=30, unique=True).map(lambda x: np.sort(x) / 100),
)
def test_on_any_grid_the_mass_and_what_is_off_it_sum_to_one(kernel, points):
    density = TWENTY_STEPS.density(kernel=kernel, grid=points)
    assert whole(density) == pytest.approx(1, rel=1e-9)
    inside = density.measure.cdf(density.edges[-1]) - density.measure.cdf(density.edges[0])
    if kernel != "adaptive":  # which is at least as wide as the smallest cell, and cells are up to 6 wide here
        # the others blur an end by a width or two, 0.2 of 4; the Lorentzian has long tails, the bare series rings
        assert density.mass() == pytest.approx(inside, abs=0.12)


def test_a_narrow_grid_reports_what_fell_off_it():
    measure = sd.fast_lanczos(diagonal(np.linspace(-1, 1, 2001)), num_steps=64)
    density = measure.density(grid=np.linspace(-0.495, 0.495, 100))
    assert density.edges[0] == pytest.approx(-0.5)
    assert density.mass() == pytest.approx(0.5, abs=0.05)
    assert density.mass_outside == pytest.approx(0.5, abs=0.05)


def test_the_cells_of_a_grid_meet_half_way():
    density = sd.fast_lanczos(diagonal(semicircle(100)), num_steps=5).density(grid=[-1.0, 0.0, 2.0])
    assert np.array_equal(density.edges, [-1.5, -0.5, 1.0, 3.0])
    assert np.array_equal(density.grid, [-1.0, 0.0, 2.0])


def test_the_cdf_of_a_density_is_that_of_what_is_drawn():
    density = sd.fast_lanczos(diagonal(semicircle(3000)), num_steps=64).density()
    assert np.allclose(density.cdf(density.edges)[1:], np.cumsum(density.values * np.diff(density.edges)), atol=1e-12)
    assert density.cdf(-10) == 0
    assert density.cdf(10) == pytest.approx(density.mass())
    assert density.cdf(0) == pytest.approx(0.5, abs=0.03)


# -- atoms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", DENSITY_KERNELS)
def test_atoms_are_never_smoothed(kernel):
    exact = sd.fast_lanczos(np.diag(np.repeat([1.0, 2.0, 4.0], 5)), probes=np.ones(15)).density(kernel=kernel)
    assert np.all(exact.values == 0)
    assert np.allclose(exact.atoms.positions, [1, 2, 4])
    assert np.allclose(exact.atoms.masses, 1 / 3)
    A = np.diag(np.concatenate([[9.0, -7.0], np.linspace(-1, 1, 200)]))
    deflated = sd.fast_lanczos(sd.deflate(A, sd.top_eigenpairs(A, rank=2)), num_steps=20).density(kernel=kernel)
    assert np.allclose(deflated.atoms.positions, [-7, 9])
    assert np.allclose(deflated.atoms.masses, 1 / 202)
    assert np.all(np.abs(deflated.grid) < 2)  # the bulk on its own scale
    assert whole(deflated) == pytest.approx(1, rel=1e-9)
    assert deflated.cdf(-7 - 1e-3) == 0
    assert deflated.cdf(-7 + 1e-3) == pytest.approx(1 / 202)


def test_a_probe_that_broke_down_is_atoms_and_the_others_are_smooth():
    starts = np.stack([np.eye(100)[3], np.ones(100)], axis=1)
    density = sd.fast_lanczos(np.diag(np.linspace(0, 1, 100)), probes=starts, num_steps=10).density()
    assert density.atoms.mass() == pytest.approx(0.5)
    assert np.allclose(density.atoms.positions, [3 / 99])
    assert whole(density) == pytest.approx(1, rel=1e-12)


# -- logarithmic axis --------------------------------------------------------------------------------------------------


def test_per_lambda_and_per_log_have_the_same_masses():
    measure = sd.fast_lanczos(diagonal(pareto(2000)), num_steps=300)
    epsilon = 1e-3
    log, linear = (measure.log_density(epsilon=epsilon, per=per) for per in ("log", "lambda"))
    assert (log.axis, linear.axis) == ("log(|λ| + ε)", "|λ|")
    assert np.allclose(log.cdf(np.log(linear.edges[1:] + epsilon)), linear.cdf(linear.edges[1:]), atol=1e-9)
    assert whole(linear) == pytest.approx(whole(log), rel=1e-12) == pytest.approx(1, rel=1e-9)


@pytest.mark.slow
def test_power_law_exponents_per_lambda_and_per_log_differ_by_one():
    measure = sd.fast_lanczos(diagonal(pareto(20_000)), num_steps=400, num_probes=4)
    slopes = []
    for per in ("log", "lambda"):
        density = measure.log_density(epsilon=1e-5, per=per)
        position = density.grid if per == "log" else np.log(density.grid)
        tail = (position > np.log(3)) & (position < np.log(300))
        slopes.append(np.polyfit(position[tail], np.log(density.values[tail]), 1)[0])
    assert slopes[0] == pytest.approx(-1, abs=0.1)  # |λ| = 1/u: λ^(−2) per unit λ
    assert slopes[1] == pytest.approx(slopes[0] - 1, abs=0.01)


@pytest.mark.parametrize("grid", [np.linspace(0, 3, 50), np.linspace(0.5, 3, 20), np.geomspace(1e-6, 5, 30)])
def test_a_grid_per_lambda_is_in_absolute_values(grid):
    density = sd.fast_lanczos(diagonal(semicircle(1000)), num_steps=64).log_density(per="lambda", grid=grid)
    assert density.grid.size == grid.size
    assert np.allclose(density.edges[1:], np.append((grid[1:] + grid[:-1]) / 2, density.edges[-1]), rtol=1e-6)
    assert whole(density) == pytest.approx(1, rel=1e-9)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_bad_drawings_are_refused_in_words():
    measure = sd.fast_lanczos(diagonal(semicircle(100)), num_steps=10)
    for draw in (measure.density, measure.log_density, lambda kappa: measure.density_of(np.exp, kappa=kappa)):
        for kappa in (0.5, 1.0, np.inf, np.nan):
            with pytest.raises(ValueError, match=r"`kappa` must exceed 1; got .*1.25 is the default, the paper's text"):
                draw(kappa=kappa)
    for grid in ([0.0, 0.0], [1.0, 0.0], [0.0, np.nan], [0.0, np.inf]):
        with pytest.raises(ValueError, match="`grid` must be finite and strictly increasing"):
            measure.density(grid=grid)
    with pytest.raises(ValueError, match=r"`grid` must be a vector of at least 2 points; got shape \(1,\)"):
        measure.density(grid=[1.0])
    with pytest.raises(ValueError, match=r"`grid` must be a vector of at least 2 points; got shape \(2, 2\)"):
        measure.density_of(np.exp, grid=np.eye(2))
    with pytest.raises(ValueError, match=r"`grid` must be positive for per='lambda'; got a first cell that ends at -2"):
        measure.log_density(per="lambda", grid=[-3, -1, 1])
    with pytest.raises(ValueError, match=r"`num_points` must be at least 2; got 1"):
        measure.density(num_points=1)
    with pytest.raises(ValueError, match=r"`kernel` must be one of local, gaussian, .*; got 'box'"):
        measure.density(kernel="box")
    with pytest.raises(ValueError, match=r"`per` must be one of log, lambda; got 'decade'"):
        measure.log_density(per="decade")
    for epsilon in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match=r"`epsilon` must be positive and finite; got .* finite at zero"):
            measure.log_density(epsilon=epsilon)


def test_a_density_says_what_it_is():
    text = repr(sd.fast_lanczos(np.diag(np.arange(7.0)), probes=np.eye(7)).density())
    assert "per unit λ: 1024 points" in text
    assert "0.143 at 0, 0.143 at 1" in text
    assert "no smooth part" in text
    assert "atoms         none" in repr(sd.fast_lanczos(diagonal(semicircle(100)), num_steps=10).density())


def test_atoms_are_listed_from_zero_and_the_heaviest_on():
    eigenvalues = np.repeat([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0], [1, 1, 1, 1, 5, 1, 2])
    text = repr(sd.SpectralMeasure.from_eigenvalues(eigenvalues).density())
    listed = "0.0833 at 0, 0.417 at 1, 0.167 at 3, 0.0833 at -3, 0.0833 at -2, and 2 more"
    assert f"atoms         {listed}\n" in text


def test_exact_spectra_claim_no_sampling_error():
    text = repr(sd.spectral_density(diagonal(semicircle(300))))
    assert "typical error no sampling error; smoothing moves the curve by about" in text
    assert "from          SpectralMeasure(all 300 eigenvalues, products=" in text
    assert "smoothing included" in repr(sd.fast_lanczos(diagonal(semicircle(300))).density())


def test_large_errors_are_written_in_full():
    density = sd.fast_lanczos(diagonal(semicircle(300))).density()
    text = repr(replace(density, stderr=1.234 * density.values, resolution=None))
    assert "typical error 123 % where" in text


@pytest.mark.parametrize("shape", [(300, 200), (150, 400)])
def test_the_density_of_singular_values_lies_within_them(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    singular = np.linalg.svd(X, compute_uv=False)
    measure = sd.fast_lanczos(sd.gram(X), num_probes=4)
    density = measure.density_of(lambda x: np.sqrt(np.maximum(x, 0)), axis="singular value")
    assert density.edges[0] >= 0
    assert density.mass() == pytest.approx(1, abs=1e-9)
    on_either_side = measure.density_of(lambda x: np.sqrt(np.maximum(x, 0)), grid=np.linspace(-10, 50, 601))
    outside = (on_either_side.edges[1:] <= 0) | (on_either_side.edges[:-1] > 1.01 * singular[0])
    assert np.all(on_either_side.values[outside] == 0)
    assert on_either_side.mass() == pytest.approx(1, abs=1e-9)
    share = np.sum(singular <= np.median(singular)) / shape[1] + max(0, 1 - shape[0] / shape[1])
    assert density.cdf(np.median(singular)) == pytest.approx(share, abs=0.05)


def test_a_density_of_a_function_that_changes_sign_has_room_on_both_sides():
    density = sd.fast_lanczos(diagonal(semicircle(500))).density_of(lambda x: x**3)
    assert density.edges[0] < -1
    assert density.edges[-1] > 1
    assert density.mass() == pytest.approx(1, abs=1e-9)


# -- smoothing and its error ------------------------------------------------------------------------------------------


@given(
    positions=st.lists(st.floats(-3, 3), min_size=1, max_size=20).map(np.array),
    width=st.floats(1e-4, 5),
    edges=st.lists(st.integers(-40, 40), min_size=2, max_size=40, unique=True).map(lambda x: np.sort(x) / 10),
)
def test_cell_averages_are_differences_of_the_normal_distribution(positions, width, edges):
    masses = np.linspace(1, 2, positions.size)
    bumps = Bumps(positions, masses, np.full(positions.size, width))
    cells = np.diff(ndtr((edges[:, None] - positions) / width), axis=0) / np.diff(edges)[:, None]
    first, second = cell_averages(edges, bumps, masses)
    assert np.allclose(first, cells @ masses, rtol=1e-10, atol=1e-13)
    assert np.allclose(second, cells**2 @ masses, rtol=1e-10, atol=1e-13)


def test_a_local_mean_keeps_constants_and_takes_the_cells_in_reach():
    edges = np.linspace(0, 10, 11)
    assert np.allclose(local_mean(edges, np.full(10, 3.0), 2.2), 3.0)
    assert local_mean(edges, np.eye(10)[5], 1.5)[5] == pytest.approx(1 / 3)


def exact_drawing(density: sd.Density, eigenvalues: np.ndarray, kernel: str) -> np.ndarray:
    """Return the exact spectrum smoothed by the kernel that the density was drawn with."""
    measure, n = density.measure, eigenvalues.size
    if kernel == "jackson":
        interval = measure.bounds(margin=_CHEBYSHEV_MARGIN)
        x = (eigenvalues - interval.center) / (interval.width / 2)
        previous, current, moments = np.ones(n), x, [1.0, x.mean()]
        while len(moments) < 2 * measure.num_steps:
            previous, current = current, 2 * x * current - previous
            moments.append(current.mean())
        g = kernel_coefficients("jackson", len(moments))
        return np.diff(chebyshev_cdf(np.array(moments) * g, interval, density.edges)) / np.diff(density.edges)
    if kernel == "gaussian":
        widths = np.full(n, gaussian_width(measure.bounds(), measure.num_steps, 1.25))
    else:
        widths = _width_map(measure.rules[0], float(np.min(np.diff(density.edges))))(eigenvalues)
    return cell_averages(density.edges, Bumps(eigenvalues, np.full(n, 1 / n), widths))[0]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_smoothed_spectrum_lies_within_two_standard_errors(family):
    eigenvalues = np.sort(family(100_000))
    covered = {"gaussian": [], "jackson": [], "adaptive": []}
    for seed in range(5):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=128, seed=seed)
        for kernel, shares in covered.items():
            density = measure.density(num_points=200, kernel=kernel)
            exact = exact_drawing(density, eigenvalues, kernel)
            within = np.abs(density.values - exact) <= 2 * density.stderr
            drawn = exact > 1e-3 * exact.max()
            shares.append((np.mean(within), np.mean(within[drawn])))
    for kernel, shares in covered.items():
        everywhere, where_drawn = np.median(shares, axis=0)
        assert everywhere >= 0.9, kernel
        assert where_drawn >= 0.9, kernel


def test_readings_of_the_measure_are_on_the_density_too():
    density = sd.fast_lanczos(np.diag(np.linspace(1, 2, 300)), num_steps=30, num_probes=2).log_density()
    measure = density.measure
    assert density.count(1.2, 1.4) == measure.count(1.2, 1.4)
    assert density.weight(1.2, 1.4) == measure.weight(1.2, 1.4)
    assert density.quantile(0.3) == measure.quantile(0.3)
    assert density.trace(np.square) == measure.trace(np.square)
    assert density.mean(np.exp) == measure.mean(np.exp)
    assert density.logdet(shift=0.5) == measure.logdet(shift=0.5)
    assert density.schatten(3) == measure.schatten(3)
    assert density.heat_trace(0.1) == measure.heat_trace(0.1)
    for name in ("estrada", "entropy", "effective_rank", "condition_number", "convergence"):
        assert getattr(density, name)() == getattr(measure, name)(), name
