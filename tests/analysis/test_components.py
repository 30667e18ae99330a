"""The number of significant components of data, against dense eigenvalues and known spikes."""

from __future__ import annotations

import re

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from slow_cases import slow_after

import specdens as sd

mpl.use("Agg")


def spiked_data(m: int, n: int, num_spikes: int, seed: int) -> np.ndarray:
    """Return white noise with components of 3 to 8 times the strength at which they begin to show."""
    X = np.random.default_rng(seed).standard_normal((m, n))
    X[:, :num_spikes] *= np.sqrt(1 + np.sqrt(n / m) * np.linspace(3, 8, num_spikes))
    return 1.7 * X


@pytest.mark.parametrize(("m", "n"), slow_after(1, [(1200, 300), (300, 900), (500, 500)]))
@pytest.mark.parametrize("num_spikes", [0, 1, 6])
def test_spikes_are_counted_and_noise_is_not(m, n, num_spikes):
    X = spiked_data(m, n, num_spikes, seed=num_spikes)
    measure = sd.fast_lanczos(sd.gram(X, divisor=m), num_steps=100, num_probes=8)
    found = sd.analysis.significant_components(measure, gamma=n / m)
    assert abs(found.count.value - num_spikes) <= max(2 * found.count.stderr, 0.1)
    assert found.count.stderr < 1
    assert found.law.scale == pytest.approx(1.7**2, rel=0.05)
    e = np.linalg.eigvalsh(X.T @ X / m)
    share = np.sum(e[e > found.edge]) / np.sum(e)
    assert abs(found.variance.value - share) <= max(3 * found.variance.stderr, 1e-6)


@pytest.mark.slow
def test_pure_noise_shows_a_component_as_rarely_as_it_says():
    """At the level of 5 %, exact eigenvalues of 300 samples of noise: 15 expected, at most 30 by chance."""
    wrong = 0
    for seed in range(300):
        X = np.random.default_rng(seed).standard_normal((120, 40))
        exact = sd.SpectralMeasure.from_eigenvalues(np.linalg.eigvalsh(X.T @ X / 120))
        wrong += sd.analysis.significant_components(exact, gamma=1 / 3, chance=0.05).count.value >= 0.5
    assert 3 <= wrong <= 30


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_digits_have_components_and_shuffled_digits_have_none(shuffled):
    X = pytest.importorskip("sklearn.datasets").load_digits().data
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X = np.random.default_rng(0).permuted(X, axis=0) if shuffled else X
    m, n = X.shape
    found = sd.analysis.significant_components(sd.spectral_density(sd.gram(X, divisor=m)), gamma=n / m, scale=1.0)
    e = np.linalg.eigvalsh(X.T @ X / m)
    assert found.count == (pytest.approx(np.sum(e > found.edge)), 0.0)
    assert round(found.count.value) == (0 if shuffled else 12)
    assert "significant components" in repr(found)
    if not shuffled:  # most of the spectrum is no noise
        with pytest.raises(ValueError, match="more than half of its eigenvalues stand out"):
            sd.analysis.significant_components(sd.spectral_density(sd.gram(X, divisor=m)), gamma=n / m)


@pytest.mark.parametrize("spread", [0.5, 0.25])
def test_columns_of_unequal_variance_are_not_taken_for_components_in_silence(spread):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 300)) * np.exp(spread * rng.standard_normal(300))
    with pytest.warns(sd.SpecdensWarning, match=r"do not look like white noise: .* Standardise the columns"):
        found = sd.analysis.significant_components(sd.fast_lanczos(sd.gram(X, divisor=1500)), gamma=0.2)
    assert not found.rest.is_white
    assert "does not look like white noise" in repr(found)
    X /= X.std(axis=0)
    measure = sd.fast_lanczos(sd.gram(X, divisor=1500), num_probes=8)
    found = sd.analysis.significant_components(measure, gamma=0.2)
    assert found.rest.is_white
    assert found.count.value <= max(0.1, 2 * found.count.stderr)
    assert "below it      looks like white noise" in repr(found)


def test_sparse_data_wider_than_long_are_not_white():
    X = sp.random_array((1000, 2500), density=0.003, rng=np.random.default_rng(0), format="csr")
    with pytest.warns(sd.SpecdensWarning, match="do not look like white noise"):
        sd.analysis.significant_components(sd.fast_lanczos(sd.gram(X, center=True, divisor=1000)), gamma=2.5)


@pytest.mark.slow
def test_digits_are_told_which_scale_to_give():
    """Neither centred nor standardised digits are mostly noise; the message names a scale that works."""
    X = pytest.importorskip("sklearn.datasets").load_digits().data
    m, n = X.shape
    exact = sd.spectral_density(sd.gram(X, center=True, divisor=m)).measure
    with pytest.raises(ValueError, match=r"`measure` must be mostly noise .* Give `scale`: 1 for") as caught:
        sd.analysis.significant_components(exact, gamma=n / m)
    scale = float(re.search(r"scale=([\d.]+),", str(caught.value))[1])
    assert scale == pytest.approx(np.mean(np.var(X, axis=0)), rel=1e-3)
    found = sd.analysis.significant_components(exact, gamma=n / m, scale=scale)
    e = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    assert found.count == (pytest.approx(np.sum(e > found.edge)), 0.0)
    assert "does not look like white noise" in repr(found)


def test_what_is_no_covariance_of_this_gamma_is_refused():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((300, 300))
    indefinite = sd.fast_lanczos((Z + Z.T) / 20 + np.eye(300))
    with pytest.raises(ValueError, match="must be that of a covariance matrix, without negative eigenvalues; got -"):
        sd.analysis.significant_components(indefinite, gamma=0.5)
    measure = sd.fast_lanczos(sd.gram(rng.standard_normal((600, 300)), divisor=600))
    with pytest.raises(ValueError, match=r"`gamma` must be the number of columns divided by .* 99 % .* would be zero"):
        sd.analysis.significant_components(measure, gamma=100)


def test_senseless_options_are_named():
    measure = sd.fast_lanczos(sd.gram(spiked_data(100, 50, 0, 0), divisor=100))
    with pytest.raises(ValueError, match="`gamma` must be positive"):
        sd.analysis.significant_components(measure, gamma=0)
    with pytest.raises(ValueError, match=r"`chance` must be one of 0.05, 0.01, 0.001; got 0.5"):
        sd.analysis.significant_components(measure, gamma=1, chance=0.5)
    with pytest.raises(ValueError, match="`scale` must be positive"):
        sd.analysis.significant_components(measure, gamma=1, scale=-1)
    with pytest.raises(TypeError, match="`measure` must be a measure or a density"):
        sd.analysis.significant_components(np.eye(3), gamma=1)
    with pytest.raises(ValueError, match="`measure` must have a positive mean"):
        sd.analysis.significant_components(sd.fast_lanczos(-np.eye(9)), gamma=1)


def test_a_negative_law_has_no_number():
    with pytest.raises(ValueError, match="positive mean"):
        sd.analysis.fit_marchenko_pastur(sd.fast_lanczos(-np.diag(np.linspace(1, 2, 50))))


@pytest.mark.parametrize("x", ["linear", "symlog"])
@pytest.mark.parametrize("exact", slow_after(1, [False, True]))
def test_the_law_is_drawn_over_the_density_with_its_mass(x, exact):
    """Under the drawn law lies the share of the noise, on either axis."""
    X = spiked_data(600, 200, 4, 0)
    A = sd.gram(X, divisor=600)
    measure = sd.spectral_density(A).measure if exact else sd.fast_lanczos(A, num_probes=4)
    found = sd.analysis.significant_components(measure, gamma=1 / 3)
    fit = sd.analysis.fit_marchenko_pastur(measure)
    for ax, share in ((found.plot(x=x), 1 - 4 / 200), (fit.plot(x=x), measure.weight(*fit.bulk).value)):
        line = next(each for each in ax.lines if each.get_linestyle() == "--")
        at, height = line.get_data()
        if x == "symlog":
            at = np.arcsinh(at / ax.xaxis.get_transform().linear_width)
        assert np.trapezoid(height, at) == pytest.approx(share, abs=0.01)
        lo, hi = ax.get_xlim()
        visible = [tick for tick in ax.get_xticks() if lo <= tick <= hi]
        assert len(visible) >= 3
        mpl.pyplot.close(ax.figure)


def test_a_semicircle_is_drawn_over_its_density():
    Z = np.random.default_rng(0).standard_normal((400, 400))
    ax = sd.analysis.fit_semicircle(sd.fast_lanczos((Z + Z.T) / 800**0.5)).plot(log_y=True)
    assert any("semicircle" in text.get_text() for text in ax.get_legend().get_texts())
    assert ax.get_yscale() == "log"
    mpl.pyplot.close(ax.figure)
