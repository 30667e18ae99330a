"""Outliers, power laws, random-matrix fits and distances, on spectra where the answers are known."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import scipy.special
import spectra
from hypothesis import given, settings
from hypothesis import strategies as st

import specdens as sd
from specdens import analysis


def measured(eigenvalues, *, num_steps=96, num_probes=4, seed=0):
    steps = min(num_steps, len(eigenvalues))
    return sd.fast_lanczos(spectra.diagonal(eigenvalues), num_steps=steps, num_probes=num_probes, seed=seed)


# -- outliers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_probes", [1, 8])
@pytest.mark.parametrize("num_steps", [48, 300])
def test_spikes_are_found_once_each_however_many_ghosts_there_are(num_steps, num_probes):
    found = analysis.outliers(measured(spectra.spiked(5000), num_steps=num_steps, num_probes=num_probes))
    assert len(found) == 10
    np.testing.assert_allclose(found.positions, np.arange(20.0, 201.0, 20.0), atol=1e-6)
    assert abs(found.count.value - 10) < 3 * found.count.stderr
    assert found.bulk.lo == pytest.approx(-2, abs=0.05)
    assert found.bulk.hi == pytest.approx(2, abs=0.05)


def test_errors_of_positions_bound_the_distance_to_an_eigenvalue():
    eigenvalues = np.concatenate([spectra.semicircle(3000), [3.0, 3.4, -4.0]])
    found = analysis.outliers(measured(eigenvalues, num_steps=60))
    assert len(found) == 3
    nearest = np.min(np.abs(found.positions[:, None] - eigenvalues), axis=1)
    assert np.all(nearest <= found.errors)
    assert np.all(found.errors < 1e-2)


def test_a_multiple_outlier_is_one_position_whose_multiplicity_is_estimated():
    eigenvalues = np.concatenate([spectra.semicircle(2000), np.full(7, 5.0), [9.0]])
    found = analysis.outliers(measured(eigenvalues, num_probes=40))
    np.testing.assert_allclose(found.positions, [5.0, 9.0], atol=1e-8)
    assert np.all(np.abs(found.multiplicities - [7, 1]) < 3 * found.multiplicity_errors)
    assert found.multiplicity_errors[0] == pytest.approx(np.sqrt(2 * 7 / 40), rel=0.3)


def test_deflated_outliers_have_exact_multiplicities_and_the_residuals_of_their_pairs():
    density = sd.spectral_density(spectra.diagonal(spectra.spiked(2000)), rank=10)
    found = analysis.outliers(density)
    assert found.count == (pytest.approx(10, rel=1e-12), 0.0)
    assert np.all(np.abs(found.positions - np.arange(20.0, 201.0, 20.0)) <= found.errors)
    np.testing.assert_allclose(analysis.outliers(density.measure).positions, found.positions)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["semicircle", "Marchenko–Pastur 1/2", "Marchenko–Pastur 2"])
@pytest.mark.parametrize("num_steps", [32, 128, 400])
def test_random_matrix_bulks_have_no_outliers(name, num_steps):
    for seed in range(3):
        for n in (400, 5000):
            measure = measured(spectra.FAMILIES[name](n), num_steps=num_steps, num_probes=1 + seed, seed=seed)
            assert len(analysis.outliers(measure)) == 0, (n, seed)


@pytest.mark.slow
def test_sampled_wigner_matrices_have_no_outliers_beyond_a_few_percent_of_them():
    rng = np.random.default_rng(0)
    alarms = 0
    for seed in range(40):
        Z = rng.standard_normal((300, 300))
        eigenvalues = np.linalg.eigvalsh((Z + Z.T) / np.sqrt(600))
        alarms += len(analysis.outliers(measured(eigenvalues, num_steps=64, num_probes=1, seed=seed))) > 0
    assert alarms <= 2


def test_the_non_zero_eigenvalues_of_a_low_rank_matrix_are_its_outliers():
    found = analysis.outliers(measured(np.concatenate([np.zeros(990), np.arange(1.0, 11.0)])))
    np.testing.assert_allclose(found.positions, np.arange(1.0, 11.0), atol=1e-9)


def test_a_continuum_beside_a_null_space_is_not_an_outlier():
    eigenvalues = np.concatenate([np.zeros(50000), np.linspace(0.01, 1, 1000), [5.0, 7.0]])
    found = analysis.outliers(measured(eigenvalues))
    np.testing.assert_allclose(found.positions, [5.0, 7.0], atol=1e-9)


def test_kpm_moments_are_read_too():
    moments = sd.kpm(spectra.diagonal(np.append(spectra.semicircle(2000), 4.0)), num_moments=256)
    np.testing.assert_allclose(analysis.outliers(moments).positions, [4.0], atol=1e-3)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.floats(-50, 50), st.sampled_from([-3.0, -1.0, 1e-3, 1.0, 7.0]))
def test_outliers_move_and_scale_with_the_operator(shift, scale):
    eigenvalues = np.concatenate([spectra.semicircle(600), [4.0, 5.0]])
    plain = analysis.outliers(measured(eigenvalues, num_steps=64))
    moved = analysis.outliers(measured(scale * eigenvalues + shift, num_steps=64))
    size = abs(scale) * 5 + abs(shift)
    np.testing.assert_allclose(np.sort(scale * plain.positions + shift), moved.positions, atol=1e-7 * size)
    edges = sorted(scale * edge + shift for edge in plain.bulk)
    np.testing.assert_allclose(edges, moved.bulk, atol=1e-2 * abs(scale))


@pytest.mark.parametrize("A", [np.zeros((5, 5)), np.eye(3), np.diag([1.0, 2.0]), np.eye(1)])
def test_a_spectrum_without_a_bulk_has_no_outliers(A):
    found = analysis.outliers(sd.fast_lanczos(A))
    assert len(found) == 0
    assert found.bulk == pytest.approx((A.diagonal().min(), A.diagonal().max()))


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_outliers_are_found_in_any_precision(dtype):
    A = spectra.diagonal(np.concatenate([spectra.semicircle(800), [4.0, -5.0]])).astype(dtype)
    found = analysis.outliers(sd.fast_lanczos(A, num_steps=64, num_probes=4))
    np.testing.assert_allclose(found.positions, [-5.0, 4.0], rtol=1e-4)


def test_outliers_say_what_they_are():
    text = repr(analysis.outliers(measured(spectra.spiked(1000))))
    assert text.startswith("Outliers: 10 positions, ")
    assert "multiplicity" in text
    assert repr(analysis.outliers(measured(spectra.semicircle(1000)))).startswith("Outliers: none, bulk [-")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_share": 0.7}, ValueError, "`max_share` must lie between 0 and 0.5; got 0.7"),
        ({"separation": 0.0}, ValueError, "`separation` must be positive"),
    ],
)
def test_outliers_refuse_senseless_options(options, error, message):
    with pytest.raises(error, match=message):
        analysis.outliers(measured(spectra.semicircle(100)), **options)


def test_an_operator_is_refused_with_a_remedy():
    with pytest.raises(TypeError, match=r"must be a measure or a density; got ndarray. For an operator call"):
        analysis.outliers(np.eye(3))


# -- power laws -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0.5, 1.0, 2.0])
def test_the_exponent_of_an_exact_pareto_law_is_found(index):
    u = (np.arange(5000) + 0.5) / 5000
    fit = analysis.fit_power_law(measured(u ** (-1 / index), num_steps=300))
    assert abs(fit.exponent + 1 + index) < 2 * fit.stderr < 0.4
    assert fit.r_squared > 0.98
    assert fit.range.hi / fit.range.lo > 10
    assert (fit.per, fit.part) == ("lambda", "both")


def test_the_fitted_density_is_the_law_and_not_only_its_slope():
    u = (np.arange(5000) + 0.5) / 5000
    fit = analysis.fit_power_law(measured(1 / u, num_steps=300), range=(2.0, 100.0))
    np.testing.assert_allclose(fit.density([3.0, 30.0]), [3.0**-2, 30.0**-2], rtol=0.15)
    assert fit.range.hi == 100
    assert 2 <= fit.range.lo < 2.5  # what the run resolves of it


def test_the_tail_of_the_papers_pareto_matrix_falls_as_the_three_halves_power():
    from specdens._cli.demo_pictures import pareto_covariance

    measure = sd.fast_lanczos(pareto_covariance(600), num_steps=600, num_probes=4)
    fit = analysis.fit_power_law(measure, range=(1e4, 1e8))
    assert abs(fit.exponent + 1.5) < 2 * fit.stderr < 0.3


def test_exponents_per_log_and_per_lambda_differ_by_exactly_one():
    measure = measured(spectra.pareto(2000), num_steps=200)
    per_lambda, per_log = (analysis.fit_power_law(measure, per=per) for per in ("lambda", "log"))
    assert per_log.exponent - per_lambda.exponent == pytest.approx(1, rel=1e-12)
    assert per_log.range == per_lambda.range
    assert analysis.fit_power_law(measure.log_density()) == per_log
    assert analysis.fit_power_law(measure.log_density(per="lambda")) == per_lambda
    assert analysis.fit_power_law(measure.density()) == per_lambda


def test_positive_and_negative_parts_have_their_own_exponents():
    u = (np.arange(3000) + 0.5) / 3000
    measure = measured(np.concatenate([1 / u, -0.3 / u**0.5]), num_steps=300, num_probes=8)
    positive, negative = (analysis.fit_power_law(measure, part=part) for part in ("positive", "negative"))
    assert abs(positive.exponent + 2) < 3 * positive.stderr < 0.5
    assert abs(negative.exponent + 3) < 3 * negative.stderr < 1.5


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(-40, 40))
def test_an_exponent_does_not_depend_on_the_unit(power):
    # powers of two: the recurrence scales without rounding
    plain = analysis.fit_power_law(measured(spectra.pareto(500), num_steps=100), range=(3.0, 300.0))
    scaled = measured(2.0**power * spectra.pareto(500), num_steps=100)
    fit = analysis.fit_power_law(scaled, range=(3.0 * 2.0**power, 300.0 * 2.0**power))
    assert fit.exponent == pytest.approx(plain.exponent, abs=1e-6)
    assert fit.stderr == pytest.approx(plain.stderr, rel=1e-6)
    assert fit.r_squared == pytest.approx(plain.r_squared, abs=1e-6)


def test_a_power_law_says_what_it_is():
    fit = analysis.fit_power_law(measured(spectra.pareto(1000), num_steps=100))
    assert "density per unit |λ| ∝ |λ|^(-2." in repr(fit) or "density per unit |λ| ∝ |λ|^(-1." in repr(fit)
    with pytest.raises(FrozenInstanceError):
        fit.exponent = 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"range": (2.0, 1.0)}, r"`range` must be two magnitudes 0 < lo < hi; got \(2, 1\)"),
        ({"range": (1e-9, 1e-8)}, "must resolve at least 5 bins of log|λ| to fit a line; got 0"),
        ({"per": "unit"}, "`per` must be one of log, lambda; got 'unit'"),
        ({"part": "left"}, "`part` must be one of both, positive, negative; got 'left'"),
    ],
)
def test_power_laws_refuse_senseless_options(options, message):
    with pytest.raises(ValueError, match=message):
        analysis.fit_power_law(measured(spectra.pareto(1000)), **options)


def test_no_power_law_is_found_where_there_is_none():
    log_normal = np.exp(0.3 * scipy.special.ndtri((np.arange(20000) + 0.5) / 20000))
    measure = measured(log_normal, num_probes=8, num_steps=200)
    with pytest.raises(ValueError, match=r"no range of half a decade follows a power law.* Give a `range` to fit one"):
        analysis.fit_power_law(measure)
    assert analysis.fit_power_law(measure, range=(1.0, 2.5)).exponent < -2


def test_a_density_of_another_function_is_refused():
    with pytest.raises(
        ValueError, match=r"must be a density of λ, \|λ\| or log\|λ\|; got one of λ². Pass density.meas"
    ):
        analysis.fit_power_law(measured(spectra.pareto(100)).density_of(np.square, axis="λ²"))


# -- random-matrix laws -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_probes", [1, 10])
def test_a_semicircle_follows_the_semicircle(num_probes):
    fit = analysis.fit_semicircle(measured(3 + spectra.semicircle(5000, 1.5), num_probes=num_probes))
    assert fit.follows
    assert fit.law.center == pytest.approx(3, abs=0.05)
    assert fit.law.radius == pytest.approx(1.5, rel=0.05)
    assert 0.2 * fit.sampling < fit.distance < fit.limit < 4 * fit.sampling


@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0, 2.0, 5.0])
def test_a_marchenko_pastur_law_follows_its_law_with_and_without_zeros(gamma):
    fit = analysis.fit_marchenko_pastur(measured(2 * spectra.marchenko_pastur(5000, gamma)))
    assert fit.follows
    assert fit.law.gamma == pytest.approx(gamma, rel=0.1)
    assert fit.law.scale == pytest.approx(2, rel=0.1)
    assert fit.law.atom == pytest.approx(max(0, 1 - 1 / gamma), abs=0.05)


@pytest.mark.parametrize(
    ("fit", "eigenvalues"),
    [
        (analysis.fit_semicircle, spectra.marchenko_pastur(5000, 0.5)),
        (analysis.fit_semicircle, np.linspace(-1, 1, 5000)),
        (analysis.fit_semicircle, spectra.chain(5000)),
        (analysis.fit_marchenko_pastur, spectra.semicircle(5000) + 3),
        (analysis.fit_marchenko_pastur, np.linspace(1, 2, 5000)),
    ],
)
def test_other_laws_do_not_follow(fit, eigenvalues):
    result = fit(measured(eigenvalues))
    assert not result.follows
    assert repr(result).startswith("does not follow ")


@pytest.mark.slow
def test_the_sampling_error_is_what_probes_cause():
    distances = [analysis.fit_semicircle(measured(spectra.semicircle(2000), num_probes=1, seed=s)) for s in range(20)]
    mean = np.mean([fit.distance for fit in distances])
    assert mean == pytest.approx(distances[0].sampling, rel=0.3)  # 20 seeds: about 10 % of it
    assert sum(fit.follows for fit in distances) >= 19


def test_outliers_are_left_out_unless_asked_for():
    measure = measured(spectra.spiked(5000))
    fit = analysis.fit_semicircle(measure)
    assert fit.follows
    assert fit.num_outliers == 10
    assert "without 10 outliers" in repr(fit)
    assert not analysis.fit_semicircle(measure, exclude_outliers=False).follows


def test_a_deflated_density_is_fitted_without_its_outliers():
    from specdens._cli.demo_pictures import spiked_covariance

    fit = analysis.fit_marchenko_pastur(sd.spectral_density(spiked_covariance(600), rank=3, num_probes=4))
    assert fit.follows
    assert fit.num_outliers == 3
    assert fit.law.gamma == pytest.approx(1, abs=0.1)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.floats(-100, 100), st.sampled_from([-2.0, 1e-4, 1.0, 1e4]))
def test_a_fitted_semicircle_moves_and_scales_with_the_operator(shift, scale):
    plain = analysis.fit_semicircle(measured(spectra.semicircle(400), num_steps=40))
    moved = analysis.fit_semicircle(measured(scale * spectra.semicircle(400) + shift * abs(scale), num_steps=40))
    assert moved.law.radius == pytest.approx(abs(scale) * plain.law.radius, rel=1e-6)
    assert moved.law.center == pytest.approx(scale * plain.law.center + shift * abs(scale), abs=1e-6 * abs(scale))
    assert moved.distance == pytest.approx(plain.distance, rel=1e-4)


@pytest.mark.parametrize(
    "law", [analysis.Semicircle(1.0, 3.0), analysis.MarchenkoPastur(0.5, 2.0), analysis.MarchenkoPastur(4.0, 2.0)]
)
def test_laws_have_mass_one_and_the_moments_of_their_parameters(law):
    cdf = law.distribution()
    assert cdf.mass == pytest.approx(1, rel=1e-9)
    x, mass = (cdf.positions[1:] + cdf.positions[:-1]) / 2, np.diff(cdf.values)
    mean, variance = mass @ x, mass @ (x - mass @ x) ** 2
    expected = (1.0, 9 / 4) if isinstance(law, analysis.Semicircle) else (law.scale, law.gamma * law.scale**2)
    np.testing.assert_allclose((mean, variance), expected, rtol=1e-4)
    inside = np.linspace(*law.support, 50)[1:-1]
    slope = (cdf(inside + 1e-3) - cdf(inside - 1e-3)) / 2e-3
    smooth = law.density(inside) > 0.02
    np.testing.assert_allclose(law.density(inside)[smooth], slope[smooth], rtol=0.02)


def test_marchenko_pastur_needs_a_positive_mean():
    with pytest.raises(ValueError, match=r"must have a positive mean .* got -1.0.*call fit_semicircle"):
        analysis.fit_marchenko_pastur(measured(np.linspace(-2, 0, 1000), num_probes=100))


def test_a_single_eigenvalue_has_no_law():
    with pytest.raises(ValueError, match="must have a bulk of positive width; got a single eigenvalue at 2"):
        analysis.fit_semicircle(sd.fast_lanczos(2 * np.eye(5)))


# -- distances --------------------------------------------------------------------------------------------------------


def test_the_distance_to_the_exact_eigenvalues_is_w1():
    eigenvalues = spectra.semicircle(1000)
    measure = measured(eigenvalues)
    expected = spectra.exact_w1(measure.bulk_cdf, eigenvalues)
    assert analysis.distance(measure, eigenvalues) == pytest.approx(expected, rel=1e-9)
    assert analysis.distance(measure, analysis.Semicircle(0.0, 2.0)) == pytest.approx(expected, abs=2e-3)
    relative = analysis.distance(measure, eigenvalues, relative=True)
    assert relative == pytest.approx(expected / np.ptp(eigenvalues), rel=1e-2)


def test_the_distance_of_two_densities_includes_their_atoms():
    eigenvalues = np.concatenate([spectra.semicircle(999), [10.0]])
    moved = np.concatenate([spectra.semicircle(999), [15.0]])
    a, b = (sd.spectral_density(spectra.diagonal(x), rank=1) for x in (eigenvalues, moved))
    assert analysis.distance(a, b) == pytest.approx(5 / 1000, rel=1e-3)


_vectors = st.lists(st.floats(-100, 100), min_size=1, max_size=12).map(np.array)


@given(_vectors, _vectors, _vectors, st.floats(-10, 10))
def test_distance_is_a_metric_that_a_common_shift_does_not_change(a, b, c, shift):
    distance = analysis.distance
    assert distance(a, a) == 0
    assert distance(a, b) == pytest.approx(distance(b, a), abs=1e-9)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9
    assert distance(a + shift, b + shift) == pytest.approx(distance(a, b), abs=1e-9)
    assert distance(-2 * a, -2 * b) == pytest.approx(2 * distance(a, b), abs=1e-9)


def test_distances_of_different_axes_are_refused():
    measure = measured(spectra.semicircle(100))
    with pytest.raises(
        ValueError, match=r"must have the same axis; got λ and log\(\|λ\| \+ ε\). Compare their measures"
    ):
        analysis.distance(measure, measure.log_density())


@pytest.mark.parametrize("bad", [np.eye(2), "x", np.empty(0), None])
def test_distances_of_other_things_are_refused(bad):
    with pytest.raises(TypeError, match="`b` must be a measure, a density, a law or a vector of eigenvalues; got"):
        analysis.distance(np.ones(3), bad)
    with pytest.raises(ValueError, match="`a` must be finite; got 1 nan or inf"):
        analysis.distance(np.array([1.0, np.nan]), np.ones(2))


@pytest.mark.slow
def test_analysis_needs_no_plotting_library():
    code = (
        "import sys; sys.modules['matplotlib'] = None; import numpy as np, specdens as sd; "
        "print(len(sd.analysis.outliers(sd.fast_lanczos(np.diag(np.r_[np.linspace(0, 1, 99), 9.0])))))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_the_former_spelling_of_a_center_warns():
    law = analysis.Semicircle(1.0, 2.0)
    with pytest.warns(DeprecationWarning, match="use `center`"):
        assert law.centre == law.center == 1.0


@pytest.mark.slow
def test_a_distance_has_an_error_bar_that_covers():
    eigenvalues = spectra.semicircle(1000)
    moved = spectra.diagonal(1.3 * eigenvalues + 0.2)
    exact = float(np.mean(np.abs(np.sort(1.3 * eigenvalues + 0.2) - np.sort(eigenvalues))))
    misses = []
    for seed in range(20):
        one = sd.fast_lanczos(spectra.diagonal(eigenvalues), num_steps=40, num_probes=2, seed=seed)
        two = sd.fast_lanczos(moved, num_steps=40, num_probes=2, seed=seed + 100)
        found = analysis.distance(one, two)
        assert isinstance(found, float)
        misses.append((found - exact) / found.stderr)
        same = analysis.distance(one, sd.fast_lanczos(spectra.diagonal(eigenvalues), num_steps=40, seed=seed + 200))
        assert same < 4 * same.noise
    assert np.mean(np.abs(misses) < 2) >= 0.85
    assert np.std(misses) > 0.4
    assert analysis.distance(eigenvalues, eigenvalues + 1).stderr == 0


def test_a_known_gamma_is_not_fitted():
    measure = sd.fast_lanczos(spectra.diagonal(spectra.marchenko_pastur(2000, 0.5)), num_probes=4)
    assert analysis.fit_marchenko_pastur(measure, gamma=0.5).law.gamma == 0.5
    assert analysis.fit_marchenko_pastur(measure, gamma=0.5).follows
    assert not analysis.fit_marchenko_pastur(measure, gamma=0.1).follows
    with pytest.raises(ValueError, match="`gamma` must be positive"):
        analysis.fit_marchenko_pastur(measure, gamma=-1)
