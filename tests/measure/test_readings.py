"""What is read from a measure: distribution, counts, traces, moments, functions, each with its error."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spectra import FAMILIES, chain, diagonal, exact_w1, rotated, semicircle
from strategies import seeds, separated_spectra, spectra

import specdens as sd
from specdens._measure.quadrature import apply_function

READERS = (sd.fast_lanczos, sd.slow_lanczos, sd.kpm)


# -- the distribution function ------------------------------------------------------------------------------------


@given(eigenvalues=spectra(), seed=seeds, num_steps=st.integers(1, 12))
def test_the_cdf_rises_from_zero_to_one(eigenvalues, seed, num_steps):
    measure = sd.fast_lanczos(np.diag(eigenvalues), num_steps=min(num_steps, eigenvalues.size), seed=seed, num_probes=2)
    lo, hi = measure.bounds().widened(0.1)
    room = 1e-9 * max(abs(lo), abs(hi))  # an eigenvalue at x counts as at or below x, to rounding
    F = measure.cdf(np.linspace(lo - room, hi + room, 200))
    assert np.all(np.diff(F) >= -1e-14)
    assert F[0] == 0
    assert F[-1] == pytest.approx(1, rel=1e-12)


@given(eigenvalues=separated_spectra(), seed=seeds, q=st.floats(0.01, 1))
@example(eigenvalues=np.array([-2.0, 0.0, 1.0, 2.0, 3.0, 4.0]), seed=0, q=0.0625)
def test_the_quantile_inverts_the_cdf(eigenvalues, seed, q):
    measure = sd.fast_lanczos(np.diag(eigenvalues), num_steps=min(5, eigenvalues.size), seed=seed)
    x = measure.quantile(q)
    room = 1e-12 * float(np.max(np.abs(eigenvalues)))
    assert measure.cdf(x + room) >= q - 1e-9
    # just below it the level is not reached, unless the function is flat there to rounding; a converged eigenvalue
    # counts from where it may be
    lo, hi, error = measure.converged_ranges
    step = 1e-6 * (measure.bounds().width or float(np.max(np.abs(eigenvalues))) or 1.0)
    step += float(np.max(hi - lo + 2 * error, initial=0.0))
    assert measure.cdf(x - step) <= q + 1e-6


@pytest.mark.parametrize("q", [-0.1, 1.1, np.nan])
def test_a_quantile_of_no_share_is_refused(q):
    with pytest.raises(ValueError, match=r"`q` must lie in \[0, 1\]; got"):
        sd.fast_lanczos(np.eye(3)).quantile(q)


@pytest.mark.parametrize("method", READERS)
def test_counts_add_up(method):
    measure = method(diagonal(semicircle(1000)), num_probes=2)
    cuts = [-3.0, -1.3, 0.2, 0.7, 3.0]
    parts = [measure.count(lo, hi).value for lo, hi in pairwise(cuts)]
    # both ends belong to an interval, with room for rounding
    assert sum(parts) == pytest.approx(measure.count(-3, 3).value, rel=1e-8)
    assert measure.count(-3, 3).value == pytest.approx(1000, rel=1e-12)
    assert measure.count(2.5, 3).value == pytest.approx(0, abs=1e-9)


def test_a_count_includes_both_ends_even_where_they_are_eigenvalues():
    A = rotated(np.repeat([1.0, 2.0, 3.0], [5, 10, 15]))
    measure = sd.fast_lanczos(A, probes=np.eye(30))
    assert measure.count(1, 2).value == pytest.approx(15, rel=1e-10)
    assert measure.count(2, 3).value == pytest.approx(25, rel=1e-10)
    assert measure.count(2, 2).value == pytest.approx(10, rel=1e-10)
    with pytest.raises(ValueError, match=r"`lo` must not exceed `hi`; got \(2, 1\)"):
        measure.count(2, 1)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_counts_are_within_four_standard_errors(family):
    eigenvalues = family(5000)
    ends = np.quantile(eigenvalues, [0.07, 0.31, 0.52, 0.9])
    for seed in range(5):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=64, seed=seed)
        for lo, hi in pairwise(ends):
            value, stderr = measure.count(lo, hi)
            assert abs(value - np.sum((lo <= eigenvalues) & (eigenvalues <= hi))) <= 4 * stderr


def test_the_error_of_a_count_is_small_where_the_spectrum_is_smooth():
    measure = sd.fast_lanczos(diagonal(semicircle(5000)), num_steps=64)
    # sampling: 5000·√(2/5002 · ¼) = 50; the quadrature adds little
    assert measure.count(-1, 0.5).stderr < 60


# -- traces --------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "log": lambda x, scale: np.log(np.abs(x) + 0.01 * scale),
    "exp": lambda x, scale: np.exp(x / scale),
    "inverse": lambda x, scale: 1 / (x**2 / scale**2 + 0.01),
    "power": lambda x, scale: np.abs(x / scale) ** 3,
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_traces_are_within_four_standard_errors(family, function):
    eigenvalues = family(2000)
    scale = float(np.quantile(np.abs(eigenvalues), 0.99))
    eigenvalues = np.clip(eigenvalues, -10 * scale, 10 * scale)  # exp of a heavy tail is its last eigenvalue alone
    for seed in range(8):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=64, num_probes=2, seed=seed)
        value, stderr = measure.trace(lambda x: function(x, scale))
        assert abs(value - np.sum(function(eigenvalues, scale))) <= 4 * stderr


@given(eigenvalues=spectra(), seed=seeds, data=st.data())
def test_the_mean_of_a_polynomial_of_degree_2m_minus_1_is_exact_for_the_probe(eigenvalues, seed, data):
    v = np.random.default_rng(seed).standard_normal(eigenvalues.size)
    m = min(data.draw(st.integers(1, 5)), eigenvalues.size)
    coefficients = data.draw(st.lists(st.floats(-1, 1), min_size=1, max_size=2 * m))
    scale = float(np.max(np.abs(eigenvalues))) or 1.0

    def p(x):
        return np.polynomial.chebyshev.chebval(x / scale, coefficients)

    value = sd.fast_lanczos(np.diag(eigenvalues), num_steps=m, probes=v).mean(p).value
    exact = (v**2 @ p(eigenvalues)) / (v @ v)
    assert value == pytest.approx(exact, abs=1e-11 * len(coefficients))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("probes", "A"),
    [
        ("gaussian", rotated(semicircle(200))),
        ("gaussian", np.diag(semicircle(200)).astype(np.complex128)),
        ("rademacher", rotated(semicircle(200))),
    ],
    ids=["real", "complex", "rademacher"],
)
def test_the_stated_error_of_one_probe_is_its_standard_deviation_over_seeds(probes, A):
    estimates = [sd.fast_lanczos(A, num_steps=20, seed=seed, probes=probes).trace(np.exp) for seed in range(200)]
    seen = np.std([value for value, _ in estimates])
    stated = np.sqrt(np.mean([stderr**2 for _, stderr in estimates]))
    # a standard deviation from 200 samples is known to 5 %
    assert seen <= 1.2 * stated
    if probes == "gaussian":
        assert seen >= 0.8 * stated


def test_the_sampling_error_falls_with_the_root_of_the_number_of_probes():
    A = diagonal(semicircle(2000))
    one, many = (sd.fast_lanczos(A, num_steps=30, num_probes=k).trace(np.exp).stderr for k in (1, 16))
    assert one / many == pytest.approx(4, rel=0.1)


@given(eigenvalues=spectra(), seed=seeds)
def test_moments_are_traces_of_powers_over_n(eigenvalues, seed):
    measure = sd.fast_lanczos(np.diag(eigenvalues), seed=seed)
    moments = measure.moments(4)
    assert moments[0] == pytest.approx(1, rel=1e-12)
    assert moments[3] == pytest.approx(measure.trace(lambda x: x**3).value / eigenvalues.size)
    with pytest.raises(ValueError, match=r"`num_moments` must be at least 1; got 0"):
        measure.moments(0)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (np.log, r"`f` must be finite on the spectrum; got f\(0\) = -inf. Shift or clip its argument, for instance"),
        (lambda x: np.sqrt(x - 0.5), r"`f` must be finite on the spectrum; got f\(0\) = nan"),
        (lambda x: x[:-1], r"`f` must map 2 eigenvalues to as many real numbers; got float64 of shape \(1,\)"),
        (lambda x: x + 1j, r"`f` must map 2 eigenvalues to as many real numbers; got complex128 of shape \(2,\)"),
    ],
)
def test_functions_that_are_not_real_and_finite_are_refused(f, message):
    measure = sd.fast_lanczos(np.diag([-1.0, 1.0]))
    with pytest.raises(ValueError, match=message):
        apply_function(f, np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="`f` must"):
        measure.density_of(f)


def test_a_constant_function_may_be_a_number():
    assert sd.fast_lanczos(np.diag([0.0, 1.0])).trace(lambda x: 3.0).value == pytest.approx(6)


# -- convergence ---------------------------------------------------------------------------------------------------


def test_convergence_sees_steps_and_probes():
    A = diagonal(semicircle(3000))
    few, many = (sd.fast_lanczos(A, num_steps=k).convergence() for k in (8, 64))
    assert many.steps < few.steps / 4
    assert many.bound < few.bound / 4
    assert np.isnan(many.probes)
    one, four = (sd.fast_lanczos(A, num_steps=20, num_probes=k).convergence() for k in (2, 8))
    assert one.sampling / four.sampling == pytest.approx(2, rel=0.1)
    assert four.probes > 0


def test_the_bound_of_convergence_holds_for_the_raw_rule_and_the_probes_own_measure():
    from specdens._distributions.cdf import Cdf, wasserstein

    eigenvalues = chain(500)[::-1]
    for seed in range(5):
        v = np.random.default_rng(seed).standard_normal(500)
        measure = sd.fast_lanczos(np.diag(eigenvalues), num_steps=12, probes=v)
        own = Cdf.of_atoms(eigenvalues, v**2 / (v @ v))
        distance = wasserstein(own, Cdf.of_atoms(measure.nodes[0], measure.weights[0])) / measure.bounds().width
        assert distance <= measure.convergence().bound <= 40 * distance


def test_the_sampling_distance_is_what_the_probes_miss():
    eigenvalues = semicircle(4000)
    seen = []
    for seed in range(10):
        measure = sd.fast_lanczos(diagonal(eigenvalues), num_steps=64, seed=seed)
        seen.append(exact_w1(measure.bulk_cdf, eigenvalues) / measure.sampling_distance())
    assert 0.6 < np.mean(seen) < 1.6  # the spread of W1 itself is about half of its mean


def test_convergence_says_what_to_add():
    A = diagonal(semicircle(3000))
    assert "More steps: twice as many" in sd.fast_lanczos(A, num_steps=6, num_probes=16).convergence().advice
    assert "More probes: twice as many" in sd.fast_lanczos(A, num_steps=64).convergence().advice
    assert "exact" in sd.fast_lanczos(np.diag([1.0, 2.0]), probes=np.ones(2)).convergence().advice


def test_one_step_has_not_converged():
    convergence = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 400)), num_steps=1).convergence()
    assert convergence.steps > 0.5
    assert "More steps" in convergence.advice


def test_an_exact_run_has_converged():
    convergence = sd.fast_lanczos(np.diag([1.0, 2.0, 2.0, 5.0])).convergence()
    assert convergence.steps == 0
    assert convergence.bound == 0
    assert sd.fast_lanczos(3 * np.eye(4)).convergence()[0] == 0


def test_a_truncated_measure_is_the_shorter_run():
    A = diagonal(semicircle(500))
    long, short = (sd.fast_lanczos(A, num_steps=k, num_probes=2) for k in (30, 11))
    cut = long.truncated(11)
    assert all(np.array_equal(a, b) for a, b in zip(cut.alphas, short.alphas, strict=True))
    assert np.array_equal(cut.last_betas, short.last_betas)
    assert np.array_equal(cut.nodes[1], short.nodes[1])
    assert long.truncated(99).num_steps == 30
    with pytest.raises(ValueError, match=r"`num_steps` must be at least 1; got 0"):
        long.truncated(0)


# -- functions of the operator ---------------------------------------------------------------------------------------

PUSHED = {
    "exp": (np.exp, chain(2000)),
    "square": (np.square, semicircle(2000)),
    "cosine": (lambda x: np.cos(3 * x), semicircle(2000)),
    "inverse": (np.reciprocal, semicircle(2000) + 3),
}


@pytest.mark.slow
@pytest.mark.parametrize(("f", "eigenvalues"), PUSHED.values(), ids=PUSHED)
@pytest.mark.parametrize("method", READERS)
def test_the_density_of_a_function_has_mass_one_and_the_right_cdf(method, f, eigenvalues):
    density = method(diagonal(eigenvalues), num_probes=4).density_of(f, axis="something")
    assert density.axis == "something"
    assert density.mass() + density.mass_outside == pytest.approx(1, rel=1e-12)
    assert density.mass_outside < 1e-3
    images = np.sort(f(eigenvalues))
    shares = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    x, width = np.quantile(images, shares), 2 * density.resolution[0]
    # sampling with four probes at n = 2000 is 0.008 of a CDF unit at most; beside it the kernel moves mass by its width
    assert np.all(density.cdf(x - width) - 0.03 < shares)
    assert np.all(density.cdf(x + width) + 0.03 > shares)


def test_the_atoms_of_an_exact_run_go_through_the_function():
    density = sd.fast_lanczos(np.diag(np.repeat([-2.0, 1.0, 2.0], 10)), probes=np.ones(30)).density_of(np.square)
    assert np.all(density.values == 0)
    assert np.allclose(density.atoms.positions, [1.0, 4.0])  # in order, and those that meet are one
    assert density.cdf(1.5) == pytest.approx(1 / 3)
    assert density.cdf(4.0 + 1e-9) == pytest.approx(1)


@pytest.mark.parametrize(("dtype", "outlier"), [("float32", 1e3), ("float32", 1e4), ("float64", 1e11)])
def test_an_outlier_does_not_blur_the_count_of_a_bulk(dtype, outlier):
    bulk = np.linspace(-1, 1, 4000)
    value, stderr = sd.fast_lanczos(diagonal(np.append(bulk, outlier)).astype(dtype)).count(-0.3, 0.3)
    assert value == pytest.approx(1200, abs=3 * stderr)
    assert stderr < 60


def test_eigenvalues_at_x_count_as_at_or_below_x():
    measure = sd.fast_lanczos(diagonal(np.repeat([1.0, 2.0, 5.0], 100)))
    assert measure.cdf(5.0) == pytest.approx(1.0)
    assert measure.cdf_bounds(5.0)[0] == pytest.approx(1.0)


def test_slow_convergence_shows_in_the_error_of_a_trace():
    eigenvalues = 10 ** np.linspace(-12, 0, 4000)
    value, stderr = sd.fast_lanczos(diagonal(eigenvalues), num_steps=200, num_probes=4).trace(np.log)
    assert abs(value - np.sum(np.log(eigenvalues))) < 3 * stderr


def test_a_smooth_function_of_a_kernel_matrix_has_an_error_of_the_size_of_its_scatter():
    # eigenvalues over many decades: the end node stands for most of them, and its residual is a hundred times its value
    points = np.random.default_rng(0).uniform(0, 6, (500, 2))
    K = np.exp(-np.sum((points[:, None] - points) ** 2, axis=2) / 0.5)
    exact = np.linalg.eigvalsh(K)
    measures = [sd.fast_lanczos(K, num_steps=64, num_probes=4, seed=seed) for seed in range(6)]
    for f in (lambda x: x / (x + 0.01), lambda x: np.log(x + 0.01)):
        values, errors = np.array([measure.trace(f) for measure in measures]).T
        distance = np.sqrt(np.mean((values - np.sum(f(exact))) ** 2))
        assert distance / 2 < np.median(errors) < 8 * distance
    jump = measures[0].trace(lambda x: (x > 1e-6) * 1.0)  # constant on the nodes: only the ends can tell
    assert abs(jump.value - np.sum(exact > 1e-6)) < 3 * jump.stderr


def test_complex_functions_have_a_trace():
    e = np.linspace(-1, 1, 300)
    measure = sd.fast_lanczos(np.diag(e), num_steps=60, num_probes=4)
    value, stderr = measure.trace(lambda x: 1 / (0.3 + 0.4j - x))
    assert abs(value - np.sum(1 / (0.3 + 0.4j - e))) < 3 * stderr
    resolvent = measure.resolvent(0.3 + 0.4j)
    assert abs(value / 300 - resolvent.value) < resolvent.stderr
    parts = [measure.trace(lambda x, part=part: part(1 / (0.3 + 0.4j - x))).value for part in (np.real, np.imag)]
    assert value == complex(*parts)
    assert isinstance(measure.trace(np.exp).value, float)
    with pytest.raises(ValueError, match="`f` must be finite on the spectrum"):
        measure.trace(lambda x: x * np.nan * 1j)


def test_small_eigenvalues_of_a_float32_kernel_are_not_counted_below_zero():
    points = np.random.default_rng(0).standard_normal((400, 2))
    kernel = np.exp(-np.sum((points[:, None] - points) ** 2, axis=-1) / 2).astype(np.float32)
    measure = sd.fast_lanczos(kernel, num_steps=64)
    top = measure.bounds().hi
    assert measure.cdf(-1e-5 * top) == 0  # a thousand units of rounding would be 1e-4
    assert measure.cdf(1e-3 * top) > 0.8


# -- what is said of wrong arguments ----------------------------------------------------------------------------------


def path(n: int) -> np.ndarray:
    return diagonal(chain(n))


@pytest.mark.parametrize("f", [math.exp, lambda x: max(x, 0)], ids=["math.exp", "max"])
def test_a_function_of_numbers_is_told_to_take_arrays(f):
    density = sd.spectral_density(path(200), num_steps=20, num_probes=1)
    measure = density.measure
    weighted = sd.weighted_measure(path(50), np.eye(50))
    for read in (density.trace, measure.trace, measure.mean, measure.density_of, weighted.integrate):
        with pytest.raises(TypeError, match=r"`f` must take arrays: np\.exp and np\.maximum\(x, 0\) do, math\.exp"):
            read(f)
    with pytest.raises(TypeError, match="`f` must take arrays"):
        sd.xtrace(path(50), f)


def test_what_is_no_function_is_named():
    with pytest.raises(TypeError, match=r"`f` must be a function of an array of eigenvalues, such as np\.exp; got"):
        sd.fast_lanczos(path(20)).trace("log")


def test_an_error_of_the_function_itself_is_left_alone():
    def f(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        sd.fast_lanczos(path(20)).trace(f)


def test_missing_arguments_are_those_of_public_classes():
    density = sd.spectral_density(path(200), num_steps=20, num_probes=1)
    for call, name in ((density.count, "Density.count"), (density.measure.count, "Measure.count")):
        with pytest.raises(TypeError, match=rf"^{name}\(\) missing 1 required"):
            call(1)
    with pytest.raises(TypeError, match=r"^Measure\.moments\(\) missing 1 required"):
        density.measure.moments()
    with pytest.raises(TypeError, match=r"^Measure\.density\(\) takes from 1 to 2"):
        density.measure.density(*range(10))


@pytest.mark.parametrize(
    ("reading", "instead"),
    [(lambda m: m.count(-1, 1), "weight"), (lambda m: m.trace(np.exp), "mean"), (lambda m: m.estrada(), "mean")],
)
def test_numbers_of_eigenvalues_from_given_vectors_are_doubted(reading, instead):
    chain = np.eye(300, k=1) + np.eye(300, k=-1)
    site = sd.fast_lanczos(chain, probes=np.eye(300)[0])
    with pytest.warns(sd.SpecdensWarning, match=rf"300 times their weight, not a sum over the eigenvalues.*`{instead}"):
        reading(site)
    assert "weights of the given start vectors" in repr(site.density())


def test_weights_and_means_of_given_vectors_are_theirs():
    chain = np.eye(300, k=1) + np.eye(300, k=-1)
    values, vectors = np.linalg.eigh(chain)
    site = sd.fast_lanczos(chain, probes=np.eye(300)[0])
    assert site.mean(np.exp).value == pytest.approx(vectors[0] ** 2 @ np.exp(values), rel=1e-9)
    share = site.weight(-1, 1).value
    assert share == pytest.approx(np.sum(vectors[0, np.abs(values) <= 1] ** 2), abs=0.006)  # one level
    with pytest.raises(ValueError, match="`lo` must not exceed `hi`"):
        site.weight(1, -1)


def test_the_trace_without_a_function_is_that_of_the_operator():
    measure = sd.SpectralMeasure.from_eigenvalues([1.0, 2.0, 4.0])
    assert measure.trace().value == pytest.approx(7.0)
    assert measure.density().trace().value == pytest.approx(7.0)
