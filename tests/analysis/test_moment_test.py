"""Random-matrix fits with few probes: a χ² test of moments says what a distance cannot."""

import numpy as np
import pytest
import spectra

import specdens as sd
from specdens import analysis
from specdens._analysis.moment_test import law_points


def fits(fit, eigenvalues, num_seeds, **options):
    operator = spectra.diagonal(eigenvalues)
    return [fit(sd.fast_lanczos(operator, num_steps=48, seed=seed, **options)) for seed in range(num_seeds)]


@pytest.mark.slow
def test_one_probe_tells_a_flat_spectrum_from_a_semicircle():
    flat = fits(analysis.fit_semicircle, np.linspace(-1, 1, 2000), 20)
    assert np.mean([fit.follows for fit in flat]) <= 0.1  # the distance alone accepts most of them
    assert np.mean([fit.p_value < 0.01 for fit in flat]) == pytest.approx(np.mean([fit.power for fit in flat]), abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fit", "eigenvalues"),
    [
        (analysis.fit_semicircle, spectra.semicircle(2000)),
        (analysis.fit_marchenko_pastur, spectra.marchenko_pastur(2000, 0.5)),
        (analysis.fit_marchenko_pastur, spectra.marchenko_pastur(2000, 2.0)),
    ],
)
def test_p_values_of_spectra_that_follow_their_law_are_uniform(fit, eigenvalues):
    p = np.array([each.p_value for each in fits(fit, eigenvalues, 40)])
    assert np.mean(p < 0.01) <= 0.05
    # Kolmogorov: a distance of 0.25 has a probability of 1 % for 40 values
    assert np.max(np.abs(np.sort(p) - (np.arange(40) + 0.5) / 40)) < 0.25


def test_the_power_grows_with_the_probes_and_is_said():
    one, many = (fits(analysis.fit_semicircle, spectra.semicircle(300), 1, num_probes=count)[0] for count in (1, 16))
    assert one.power < 0.6 < 0.99 < many.power
    assert f"weak: the test would reject a flat spectrum with probability {one.power:.2g}" in repr(one)
    assert ": it is too far away" not in repr(one)


def test_a_few_steps_leave_no_moment_to_test():
    two = analysis.fit_semicircle(sd.fast_lanczos(spectra.diagonal(np.linspace(-1, 1, 1000)), num_steps=2))
    assert 0 <= two.p_value <= 1


@pytest.mark.parametrize(
    "law", [analysis.Semicircle(1, 2), analysis.MarchenkoPastur(0.3, 2), analysis.MarchenkoPastur(3, 1)]
)
def test_points_of_a_law_have_its_moments(law):
    x, weights = law_points(law)
    expected = (1.0, 1.0) if isinstance(law, analysis.Semicircle) else (law.scale, law.gamma * law.scale**2)
    np.testing.assert_allclose([weights @ x, weights @ (x - weights @ x) ** 2], expected, rtol=1e-10)


def test_a_fit_says_why_a_spectrum_does_not_follow():
    flat = analysis.fit_semicircle(sd.fast_lanczos(spectra.diagonal(np.linspace(-1, 1, 2000)), num_probes=16))
    assert not flat.follows
    first = repr(flat).splitlines()[0]
    assert first.startswith("does not follow Wigner's semicircle")
    assert first.endswith(": it is too far away and its moments differ")
