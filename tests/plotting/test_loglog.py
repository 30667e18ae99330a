"""Doubly logarithmic pictures with power laws."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import spectra
from pictures import legend_of

mpl.use("Agg")

import matplotlib.pyplot as plt

import specdens as sd


@pytest.fixture(scope="module")
def heavy():
    u = (np.arange(2000) + 0.5) / 2000
    eigenvalues = np.concatenate([1 / u, -0.3 / u])
    return sd.fast_lanczos(spectra.diagonal(eigenvalues), num_steps=200, num_probes=4)


def test_both_signs_have_their_colour_and_their_power_law(heavy):
    ax = sd.plot_loglog(heavy)
    fits = {part: sd.analysis.fit_power_law(heavy, part=part) for part in ("positive", "negative")}
    labels = legend_of(ax)
    for fit in fits.values():
        words = f"∝ |λ|^({fit.exponent:.2f} ± {fit.stderr:.2g}), R² = {fit.r_squared:.3f}, fitted on"
        assert sum(label.startswith(words) for label in labels) == 1
        line = next(line for line in ax.lines if str(line.get_label()).startswith(words))
        np.testing.assert_allclose(line.get_xdata(), fit.range)
        np.testing.assert_allclose(line.get_ydata(), fit.density(np.array(fit.range)))
    assert {"λ > 0, ± 2 standard errors", "λ < 0, ± 2 standard errors"} < set(labels)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_ylabel() == "density per unit |λ|"
    red, blue = (mpl.colors.to_rgb(box.lines[0].get_color()) for box in ax.containers)
    assert (int(np.argmax(red)), int(np.argmax(blue))) == (0, 2)


def test_points_are_the_share_of_eigenvalues_per_unit(heavy):
    for per, exponent in (("lambda", 2), ("log", 1)):
        ax = sd.plot_loglog(heavy, per=per, fit="none")
        x, y = ax.containers[0].lines[0].get_data()
        (bars,) = ax.containers[0].lines[2]
        two_errors = np.array([bar[1, 1] for bar in bars.get_segments()]) - y
        law = 0.5 * x**-exponent
        # the law at the middle of a wide bin is not its mean, and bins of the tail hold few eigenvalues
        inside = (x > 2) & (x < 50)
        assert np.all(np.abs(y - law)[inside] < (1.5 * two_errors + 0.15 * law)[inside])
        assert len(legend_of(ax)) == 2


def test_a_positive_spectrum_has_no_negative_part():
    measure = sd.fast_lanczos(spectra.diagonal(np.geomspace(1e-3, 1, 500)), num_steps=100, num_probes=2)
    ax = sd.plot_loglog(measure.density(), range=(1e-2, 0.5), fit="positive", per="log", band=False)
    assert len(ax.containers) == 1
    assert ax.get_ylabel() == "density per unit log|λ|"
    assert "λ > 0" in legend_of(ax)


def test_a_spectrum_of_one_magnitude_has_no_logarithmic_picture():
    with pytest.raises(ValueError, match="must resolve eigenvalues of different magnitudes"):
        sd.plot_loglog(sd.fast_lanczos(np.eye(4)))
    with pytest.raises(ValueError, match="`fit` must be one of auto, positive, negative, each, none; got 'both'"):
        sd.plot_loglog(sd.fast_lanczos(np.eye(4)), fit="both")
    assert not plt.get_fignums()


def test_given_power_laws_are_drawn_as_they_are(heavy):
    law = sd.analysis.fit_power_law(heavy, part="negative", range=(0.3, 60.0))
    ax = sd.plot_loglog(heavy, fit=law)
    (words,) = (label for label in legend_of(ax) if label.startswith("∝"))
    assert f"{law.exponent:.2f}" in words
    assert not [label for label in legend_of(sd.plot_loglog(heavy, fit=())) if label.startswith("∝")]
    with pytest.raises(ValueError, match="`fit` must be power laws with per='log'"):
        sd.plot_loglog(heavy, fit=[law], per="log")


def test_a_power_law_that_nobody_asked_for_is_drawn_only_where_it_is_clear():
    """A flat spectrum is straight, with a slope that explains nothing."""
    bulk = sd.fast_lanczos(spectra.diagonal(np.linspace(0.001, 1, 3000)), num_probes=4)
    lines = {fit: [label for label in legend_of(sd.plot_loglog(bulk, fit=fit)) if label.startswith("∝")]
             for fit in ("auto", "each")}  # fmt: skip
    assert len(lines["each"]) == 1
    assert lines["auto"] == []
    asked = legend_of(sd.plot_loglog(bulk, fit="positive", range=(0.05, 0.8)))
    assert [label for label in asked if label.startswith("∝")]
