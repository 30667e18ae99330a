"""The common base of all measures: one signature, one meaning."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from spectra import diagonal, semicircle

import specdens as sd

A = diagonal(semicircle(500))


@pytest.fixture(scope="module", params=["fast_lanczos", "slow_lanczos", "kpm"])
def measure(request):
    if request.param == "kpm":
        return sd.kpm(A, num_moments=80, num_probes=2)
    return getattr(sd, request.param)(A, num_steps=40, num_probes=2)


def test_every_method_returns_a_measure(measure):
    assert isinstance(measure, sd.Measure)
    assert measure.num_steps == 40
    assert measure.num_probes == 2
    assert measure.num_products >= 80
    assert measure.seconds > 0


@pytest.mark.parametrize("name", [name for name in dir(sd.Measure) if not name.startswith("_")])
def test_public_methods_have_one_signature(name):
    base = inspect.getattr_static(sd.Measure, name)
    if not inspect.isfunction(base):
        return
    for kind in (sd.SpectralMeasure, sd.ChebyshevMoments):
        own = inspect.signature(getattr(kind, name)).parameters
        assert own == inspect.signature(base).parameters


def test_truncated_steps_mean_the_same_in_every_measure(measure):
    short = measure.truncated(10)
    assert type(short) is type(measure)
    assert short.num_steps == 10
    assert measure.truncated(400).num_steps == 40
    assert short.convergence().steps > measure.convergence().steps


def test_arguments_by_position_still_work_and_warn(measure):
    expected = measure.density(50, kernel="lorentz")
    with pytest.warns(DeprecationWarning, match="pass `kernel` by keyword"):
        density = measure.density(50, "lorentz")
    np.testing.assert_array_equal(density.values, expected.values)
    with pytest.warns(DeprecationWarning, match="pass `per` by keyword"):
        assert measure.log_density(1e-3, "lambda").axis == "|λ|"
    with pytest.raises(TypeError):
        measure.density(50, "lorentz", 1.25, None, None)
    with pytest.raises(TypeError), pytest.warns(DeprecationWarning, match="by keyword"):
        measure.density(50, "lorentz", kernel="jackson")


def test_positions_after_the_kernel_keep_their_former_meaning():
    grid = np.linspace(-1, 1, 9)
    lanczos, moments = sd.fast_lanczos(A, num_steps=20), sd.kpm(A, num_moments=40)
    with pytest.warns(DeprecationWarning, match="`kernel`, `kappa`, `grid` by keyword"):
        np.testing.assert_array_equal(lanczos.density(50, "gaussian", 2.0, grid).grid, grid)
    with pytest.warns(DeprecationWarning, match="`kernel`, `grid` by keyword"):
        np.testing.assert_array_equal(moments.density(50, "jackson", grid).grid, grid)


def test_a_width_is_the_standard_deviation_of_a_gaussian(measure):
    density = measure.density(kernel="gaussian", width=0.3, grid=np.linspace(-8, 8, 4001))
    mass = density.values * np.diff(density.edges)
    assert np.sum(mass * density.grid**2) == pytest.approx(measure.moments(3)[2] + 0.3**2, rel=1e-5)


@pytest.mark.parametrize(("kernel", "factor"), [("jackson", np.pi), ("lorentz", 4.0)])
def test_a_width_sets_the_number_of_moments_of_a_kernel(measure, kernel, factor):
    num_moments = round(factor * measure.bounds(margin=1e-3).width / 2 / 0.3)
    words = measure.density(kernel=kernel, width=0.3).kernel
    assert words in [f"{kernel.capitalize()}, {num_moments + i} moments" for i in (-1, 0, 1)]


def test_a_width_that_cannot_be_had_is_refused(measure):
    with pytest.raises(ValueError, match=r"`width` must be at least 0\.0[0-9]+, which 80 moments resolve; got 0\.001"):
        measure.density(kernel="jackson", width=0.001)
    with pytest.raises(ValueError, match="`width` must be left out for the kernel adaptive"):
        measure.density(kernel="adaptive", width=0.1)
    with pytest.raises(ValueError, match="`width` must be positive"):
        measure.density(width=-1.0)


def test_a_density_and_its_measure_find_the_same_outliers_but_for_residuals():
    density = sd.spectral_density(diagonal(np.append(semicircle(500), [5.0, 6.0])), rank=2, num_steps=40)
    found, raw = sd.analysis.outliers(density), sd.analysis.outliers(density.measure)
    np.testing.assert_allclose(found.positions, [5, 6])
    np.testing.assert_array_equal(found.positions, raw.positions)
    residuals = np.abs(density.outliers.values) * density.outliers.residuals
    assert np.all(found.errors >= np.sort(residuals) * 0.99)
    assert np.all(found.errors >= raw.errors)
