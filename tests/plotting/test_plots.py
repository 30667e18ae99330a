"""Pictures of one density: what is drawn, where, and with which words. Pixels are looked at by people."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
import spectra
from pictures import legend_of, texts_of

mpl.use("Agg")

import matplotlib.pyplot as plt

import specdens as sd


def test_the_line_is_the_density_and_the_band_two_standard_errors(measure):
    density = measure.density()
    ax = density.plot()
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), density.grid)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), density.values)
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx(np.max(density.values + 2 * density.stderr))
    assert corners[:, 1].min() == 0
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylim()[1] > np.max(density.values)
    assert ax.get_xlabel() == "eigenvalue λ"
    assert ax.get_ylabel() == "density per unit λ"
    assert legend_of(ax)[:2] == ["density", "± 2 standard errors"]
    assert not density.plot(band=False).collections


def test_on_a_logarithmic_axis_the_band_reaches_as_far_down_as_up_and_never_to_zero(measure):
    density = measure.density()
    assert np.any((density.values > 0) & (density.values < 2 * density.stderr))  # where a plain band has no lower end
    (band,) = density.plot(log_y=True).collections
    lower, upper = density.band(log=True)
    corners = band.get_paths()[0].vertices
    assert set(lower) <= set(corners[:, 1])
    drawn = density.values > 0
    assert np.all(lower[drawn] > 0)
    np.testing.assert_allclose(lower * upper, density.values**2, rtol=1e-12)
    plain, same = density.band()
    assert np.all(plain <= lower)
    np.testing.assert_array_equal(same, upper)


def test_a_symmetric_log_axis_shows_a_bump_at_zero_as_one_peak_in_any_company():
    rng = np.random.default_rng(0)
    wide = sd.fast_lanczos(np.diag(np.r_[1e-7 * rng.standard_normal(1500), rng.standard_normal(500)]), num_steps=20)
    fine = sd.fast_lanczos(np.diag(np.r_[1e-9 * rng.random(1500), 1e-5 * rng.random(500)]), num_steps=20)
    ax = sd.plot_densities({"wide": wide.density(width=0.1), "fine": fine.density()}, x="symlog")
    x, y = (np.asarray(part) for part in (ax.lines[0].get_xdata(), ax.lines[0].get_ydata()))
    near = np.abs(x) < 0.1
    assert np.min(y[near]) > 0.5 * np.max(y[near])  # per unit of the finer one's axis it would fall to nothing at zero


def test_a_logarithmic_density_axis_reaches_below_a_single_eigenvalue(measure):
    for kernel in ("local", "gaussian"):
        density = measure.density(kernel=kernel)
        ax = density.plot(log_y=True)
        assert ax.get_yscale() == "log"
        lo, hi = ax.get_ylim()
        single = 1 / (1001 * np.sqrt(2 * np.pi) * density.resolution[density.values > 0])
        assert lo < np.min(single)
        assert hi > np.max(density.values)


def test_what_is_added_later_does_not_change_the_limits(measure):
    for log_y in (False, True):
        ax = measure.density().plot(log_y=log_y)
        limits = ax.get_xlim(), ax.get_ylim()
        ax.plot([-100.0, 100.0], [50.0, 60.0])
        ax.fill_between([-9.0, 9.0], 0.0, 100.0)
        assert (ax.get_xlim(), ax.get_ylim()) == limits
        wider = sd.fast_lanczos(spectra.diagonal(spectra.semicircle(500, 6.0)), num_steps=20).density()
        wider.plot(ax)
        assert ax.get_xlim()[1] > 6  # another density extends them


def test_the_resolution_is_a_bar_in_the_picture_and_a_number_in_the_report(measure):
    for density in (measure.density(), measure.density(kernel="gaussian"), measure.log_density()):
        ax = density.plot()
        (entry,) = [text.get_text() for text in ax.get_legend().get_texts() if "resolution" in text.get_text()]
        median = np.median(density.resolution[density.values > 0.01 * density.values.max()])
        (number,) = (line for line in repr(density).splitlines() if line.startswith("  resolution"))
        assert float(number.split()[2].rstrip(",")) == pytest.approx(median, rel=0.5)
        assert float(entry.split()[-1]) == pytest.approx(median, rel=0.5)


def test_zero_is_written_as_zero():
    density = sd.spectral_density(np.diag(np.concatenate([np.zeros(50), np.linspace(1, 2, 50)])), num_steps=30)
    assert "0" in texts_of(density.plot())
    assert " at 0" in repr(density)


def test_a_symmetric_log_axis_keeps_the_mass():
    eigenvalues = np.concatenate([0.01 * spectra.semicircle(2000), [30.0, -20.0]])
    density = sd.fast_lanczos(spectra.diagonal(eigenvalues), num_steps=64, num_probes=4).density()
    ax = density.plot(x="symlog", log_y=True)
    assert ax.get_xscale() == "asinh"
    x, y = ax.lines[0].get_data()
    np.testing.assert_array_equal(x, density.grid)
    assert ax.get_ylabel() == "density per unit of the axis (area = mass)"
    width = ax.xaxis.get_transform().linear_width
    u = np.arcsinh(density.edges / ax.xaxis.get_transform().linear_width)
    assert np.sum(y * np.diff(u)) == pytest.approx(np.sum(density.values * np.diff(density.edges)), rel=1e-12)
    assert 1e-4 < width < 0.02  # where the bulk is
    assert texts_of(ax) == ["30", "-20"]
    ax.figure.canvas.draw()
    assert "0" in [label.get_text() for label in ax.get_xticklabels()]
    both = sd.plot_densities(density, density, x="symlog")
    assert both.get_xscale() == "asinh"
    with pytest.raises(ValueError, match='`x` must be "linear" for a density of log'):
        density.measure.log_density().plot(x="symlog")
    with pytest.raises(ValueError, match="`x` must be one of linear, symlog; got 'log'"):
        density.plot(x="log")


def test_a_measure_draws_itself(measure):
    ax = measure.plot(log_y=True, label="mine")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), measure.density().values)
    assert ax.get_yscale() == "log"
    assert "<svg" in measure._repr_html_()
    assert repr(measure) in measure._repr_html_()


def test_powers_of_ten_stand_where_their_eigenvalues_are():
    eigenvalues = np.concatenate([np.zeros(100), np.geomspace(1e-3, 1e2, 400)])
    density = sd.fast_lanczos(spectra.diagonal(eigenvalues), num_steps=200).log_density(epsilon=1e-3)
    ax = density.plot()
    ax.figure.canvas.draw()
    names = {tick.label1.get_text(): tick.get_loc() for tick in ax.xaxis.get_major_ticks()}
    assert names["0"] == pytest.approx(np.log(1e-3))
    assert names["$10^{2}$"] == pytest.approx(np.log(1e2 + 1e-3))
    assert names["$10^{-2}$"] == pytest.approx(np.log(1e-2 + 1e-3))
    assert "$10^{-3}$" not in names
    assert ax.get_xlabel() == "|λ|, on the axis log(|λ| + ε) with ε = 0.001"
    assert ax.get_ylabel() == "density per unit log|λ|"


def test_a_density_per_unit_magnitude_is_doubly_logarithmic():
    density = sd.fast_lanczos(spectra.diagonal(np.geomspace(1e-2, 1e3, 500)), num_steps=64).log_density(per="lambda")
    ax = density.plot()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlabel() == "|λ|"


def test_a_density_of_a_function_is_drawn_without_guessing_its_outliers(measure):
    ax = measure.density_of(np.square, axis="λ²").plot()
    assert ax.get_xlabel() == "λ²"
    assert not ax.texts


def test_given_axes_are_drawn_in_and_no_other_figure_is_made(measure):
    figure = mpl.figure.Figure()
    ax = figure.subplots()
    assert measure.density().plot(ax, label="mine", color="red") is ax
    assert not plt.get_fignums()
    assert ax.get_legend() is None
    assert ax.lines[0].get_label() == "mine"
    assert ax.lines[0].get_color() == "red"
    assert ax.get_legend_handles_labels()[1] == ["mine"]


def test_limits_that_were_set_before_stay(measure):
    ax = plt.figure().subplots()
    ax.set_ylim(0.05, 7.0)
    measure.density().plot(ax)
    assert ax.get_ylim() == (0.05, 7.0)


def test_text_has_the_colours_of_the_style(deflated):
    with plt.style.context("dark_background"):
        ax = deflated.plot()
        words = [ax.xaxis.label, ax.yaxis.label, *ax.texts, *ax.get_legend().get_texts()]
        assert {text.get_color() for text in words} == {"white"}


@pytest.mark.slow
@pytest.mark.parametrize("call", ["d.plot()", "sd.plot_densities({'a': d})", "sd.plot_grid({'r': {'c': d}})",
                                  "sd.plot_loglog(d.measure)"])  # fmt: skip
def test_without_matplotlib_every_picture_names_the_extra(call):
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['matplotlib.pyplot'] = None; "
        "import numpy as np, specdens as sd; d = sd.spectral_density(np.diag(np.arange(1.0, 200))); d._repr_html_()\n"
        f"try: {call}\nexcept ImportError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == 'plots need matplotlib: pip install "specdens[plot]"'


def test_the_epsilon_of_a_log_density_is_kept_in_files(measure, tmp_path):
    density = measure.log_density(epsilon=1e-3)
    assert density.epsilon == 1e-3
    sd.save(tmp_path / "density.npz", density)
    assert sd.load(tmp_path / "density.npz").epsilon == 1e-3
