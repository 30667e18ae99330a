"""Fits of random-matrix laws, on spectra that follow them and others."""

from __future__ import annotations

import numpy as np
import pytest
import spectra
from hypothesis import given, settings
from hypothesis import strategies as st
from spectra import measured

import specdens as sd
from specdens import analysis


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


def test_the_former_spelling_of_a_center_warns():
    law = analysis.Semicircle(1.0, 2.0)
    with pytest.warns(DeprecationWarning, match="use `center`"):
        assert law.centre == law.center == 1.0


def test_a_known_gamma_is_not_fitted():
    measure = sd.fast_lanczos(spectra.diagonal(spectra.marchenko_pastur(2000, 0.5)), num_probes=4)
    assert analysis.fit_marchenko_pastur(measure, gamma=0.5).law.gamma == 0.5
    assert analysis.fit_marchenko_pastur(measure, gamma=0.5).follows
    assert not analysis.fit_marchenko_pastur(measure, gamma=0.1).follows
    with pytest.raises(ValueError, match="`gamma` must be positive"):
        analysis.fit_marchenko_pastur(measure, gamma=-1)
