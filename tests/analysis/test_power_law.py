"""Power laws, on spectra whose exponents are known."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import scipy.special
import spectra
from hypothesis import given, settings
from hypothesis import strategies as st
from spectra import measured

import specdens as sd
from specdens import analysis


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
