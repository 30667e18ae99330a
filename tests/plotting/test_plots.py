"""Pictures: what is drawn, where, and with which words. Pixels are looked at by people."""

from __future__ import annotations

import itertools
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
import spectra

mpl.use("Agg")

import matplotlib.pyplot as plt

import specdens as sd
from specdens._plotting.stems import masses_axis


@pytest.fixture(autouse=True)
def _no_figures_left():
    settings = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == settings


@pytest.fixture(scope="module")
def measure():
    return sd.fast_lanczos(spectra.diagonal(np.append(spectra.semicircle(1000), 4.0)), num_steps=64, num_probes=2)


@pytest.fixture(scope="module")
def deflated():
    eigenvalues = np.concatenate([spectra.semicircle(997), [4.0, 5.0, 5.1]])
    return sd.spectral_density(spectra.diagonal(eigenvalues), num_steps=64, rank=3)


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def texts_of(ax):
    return [text.get_text() for text in ax.texts]


# -- one density ------------------------------------------------------------------------------------------------------


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


def test_outliers_are_stems_with_their_value_or_marked_where_a_kernel_smooths_them(measure):
    ax = measure.density().plot()
    assert texts_of(ax) == ["4"]
    np.testing.assert_allclose(masses_axis(ax).lines[0].get_xdata(), [4.0], atol=1e-6)
    smoothed = measure.density(kernel="gaussian").plot()
    assert texts_of(smoothed) == ["4"]
    mark = smoothed.lines[-1]
    assert mark.get_label() == "outliers"
    np.testing.assert_allclose(mark.get_xdata(), [4.0], atol=1e-6)
    plain = measure.density(kernel="gaussian").plot(annotate_outliers=False)
    assert not plain.texts
    assert len(plain.lines) == 1


def test_atoms_are_stems_on_an_axis_that_counts_eigenvalues(deflated):
    ax = deflated.plot()
    twin = masses_axis(ax)
    (heads,) = twin.lines
    np.testing.assert_array_equal(heads.get_xdata(), deflated.atoms.positions)
    np.testing.assert_allclose(heads.get_ydata(), 1.0)
    (stems,) = twin.collections
    np.testing.assert_allclose(
        [segment[1] for segment in stems.get_segments()], np.column_stack([heads.get_data()])[:].T
    )
    assert twin.get_ylabel() == "number of eigenvalues\n(stems), of 1000"
    # 5 would overlap 5.1: the legend has it
    assert legend_of(ax) == ["density", "± 2 standard errors", "also at 5", "point masses (right axis)"]
    assert texts_of(ax) == ["5.1", "4"]
    assert ax.get_xlim()[1] > 5.1


def test_masses_of_very_different_size_are_on_a_logarithm():
    density = sd.spectral_density(np.diag(np.concatenate([np.zeros(200), [1.0]])), num_steps=10)
    twin = masses_axis(density.plot())
    assert twin.get_yscale() == "log"
    assert twin.get_ylabel() == "estimated number of eigenvalues\n(stems), of 201"


def test_the_masses_of_several_densities_share_one_scale():
    ax = plt.figure().subplots()
    for zeros in (200, 1):
        sd.spectral_density(np.diag(np.concatenate([np.zeros(zeros), np.ones(zeros)])), num_steps=2).plot(ax)
    twin = masses_axis(ax)
    assert twin.get_yscale() == "log"
    assert twin.get_ylim()[0] < 1 < 200 < twin.get_ylim()[1]
    assert twin.get_ylabel() == "number of eigenvalues (stems)"


def test_a_local_density_has_masses_and_no_numbers():
    measure = sd.fast_lanczos(np.diag([1.0, 2.0]), probes=np.array([3.0, 4.0]))
    twin = masses_axis(measure.density().plot())
    assert twin.get_ylabel() == "mass (stems)"
    np.testing.assert_allclose(twin.lines[0].get_ydata(), [0.36, 0.64])


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
        bars = [artist for artist in ax.artists if artist.get_gid() == "specdens resolution"]
        assert len(bars) == 1
        median = np.median(density.resolution[density.values > 0.01 * density.values.max()])
        (number,) = (line for line in repr(density).splitlines() if line.startswith("  resolution"))
        assert float(number.split()[2].rstrip(",")) == pytest.approx(median, rel=0.5)


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
    width = float(ax.get_ylabel().split("/")[1].rstrip(" )"))
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


# -- several densities ------------------------------------------------------------------------------------------------


def hess_g_h(scale=1.0):
    G = np.concatenate([np.zeros(300), [3.0 * scale, 5.0 * scale]])
    H = np.random.default_rng(0).permutation(spectra.semicircle(302))
    parts = {"Hess": (G + H, 2), "G": (G, 2), "H": (H, 0)}
    return {
        name: sd.spectral_density(spectra.diagonal(values), num_steps=40, rank=rank)
        for name, (values, rank) in parts.items()
    }


@pytest.fixture(scope="module")
def named():
    return hess_g_h()


def test_several_densities_share_axes_in_the_papers_colours(named):
    ax = sd.plot_densities(named, log_y=True)
    assert legend_of(ax) == ["Hess", "G", "H"]
    for line, density in zip(ax.lines, named.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), density.values)
    red, green, blue = (mpl.colors.to_rgb(line.get_color()) for line in ax.lines)
    assert [int(np.argmax(color)) for color in (red, green, blue)] == [0, 1, 2]
    assert len({line.get_linestyle() for line in ax.lines}) == 3
    assert sum(other.get_label() == masses_axis(ax).get_label() for other in ax.figure.axes) == 1


def test_the_highest_of_several_densities_fits(named):
    ax = sd.plot_densities(named)
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylim()[1] >= max(density.values.max() for density in named.values())


def test_colours_can_be_given_and_never_repeat_for_few(measure):
    density = measure.density()
    ax = sd.plot_densities(dict.fromkeys(["a", "G", "b", "c"], density), colors={"b": "black"})
    colors = [line.get_color() for line in ax.lines]
    assert colors[2] == "black"
    assert len(set(colors)) == 4


def test_densities_of_different_axes_are_refused(measure):
    mixed = {"a": measure.density(), "b": measure.log_density()}
    with pytest.raises(ValueError, match=r"must have the same axis; got a: λ, b: log\(\|λ\| \+ ε\)"):
        sd.plot_densities(mixed)
    with pytest.raises(ValueError, match="`densities` must name at least one density; got none"):
        sd.plot_densities({})
    with pytest.raises(ValueError, match="`rows` must hold densities of the same axis"):
        sd.plot_grid({"r": {"a": mixed["a"], "b": mixed["b"]}})
    with pytest.raises(ValueError, match="`rows` must hold at least one panel; got none"):
        sd.plot_grid({"r": {}})
    assert not plt.get_fignums()


# -- grids ------------------------------------------------------------------------------------------------------------


def test_a_grid_has_titles_shared_axes_and_one_legend(named):
    axes = sd.plot_grid({"epoch 1": {"n = 10": named, "n = 100": named}, "epoch 9": {"n = 10": hess_g_h(2.0)}})
    assert axes.shape == (2, 2)
    assert [ax.get_title() for ax in axes[0]] == ["n = 10", "n = 100"]
    assert [texts_of(ax) for ax in axes[:, 0]] == [["epoch 1"], ["epoch 9"]]
    figure = axes[0, 0].figure
    assert not axes[1, 1].get_visible()
    assert len({ax.get_xlim() for ax in axes.ravel()}) == len({ax.get_ylim() for ax in axes.ravel()}) == 1
    assert axes[0, 0].get_xlim()[1] >= 10
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Hess", "G", "H"]
    assert figure.get_supxlabel() == "eigenvalue λ"
    assert figure.get_supylabel() == "density per unit λ"
    twins = [masses_axis(axes[place]) for place in [(0, 0), (0, 1), (1, 0)]]
    assert len({id(twin) for twin in twins}) == 3
    assert len({twin.get_ylim() for twin in twins}) == 1


def test_a_grid_takes_single_densities_without_a_legend(measure):
    axes = sd.plot_grid({"a": {"x": measure.log_density()}, "b": {"x": measure.log_density()}})
    figure = axes[0, 0].figure
    assert not figure.legends
    assert "10^" in "".join(tick.get_text() for tick in axes[1, 0].get_xticklabels())
    assert figure.get_supylabel() == "density per unit log|λ|"


# -- power laws -------------------------------------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match="`fit` must be one of positive, negative, each, none; got 'both'"):
        sd.plot_loglog(sd.fast_lanczos(np.eye(4)), fit="both")
    assert not plt.get_fignums()


# -- notebooks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["density", "log_density"])
def test_a_notebook_shows_a_picture_and_the_text(measure, kind):
    density = getattr(measure, kind)()
    root = ET.fromstring(density._repr_html_())
    (svg,) = root.iter("{http://www.w3.org/2000/svg}svg")
    (curve,) = svg.iter("{http://www.w3.org/2000/svg}polyline")
    points = np.array([[float(c) for c in pair.split(",")] for pair in curve.get("points").split()])
    assert np.all(np.diff(points[:, 0]) > 0)
    assert points[:, 1].min() >= 0
    assert svg.get("stroke") == "currentColor"
    assert root.find("pre").text == repr(density)


def test_atoms_are_stems_in_a_notebook_too(deflated):
    root = ET.fromstring(deflated._repr_html_())
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 3
    only_atoms = sd.spectral_density(np.eye(3))
    assert ET.fromstring(only_atoms._repr_html_()).find("pre").text == repr(only_atoms)


def test_the_epsilon_of_a_log_density_is_kept_in_files(measure, tmp_path):
    density = measure.log_density(epsilon=1e-3)
    assert density.epsilon == 1e-3
    sd.save(tmp_path / "density.npz", density)
    assert sd.load(tmp_path / "density.npz").epsilon == 1e-3


# -- several ways to pass several densities ---------------------------------------------------------------------------


def test_densities_come_as_mapping_list_arguments_or_measures(measure):
    density = measure.density()
    for given in ([{"1": density, "2": density}], [[density, density]], [density, measure], [iter([measure, density])]):
        ax = sd.plot_densities(*given)
        assert legend_of(ax) == ["1", "2"]
        np.testing.assert_array_equal(ax.lines[1].get_ydata(), density.values)
    assert sd.plot_grid({"r": {"c": measure}}).shape == (1, 1)
    with pytest.raises(TypeError, match="`densities` must be densities or measures; got int"):
        sd.plot_densities(density, 3)


def test_former_names_and_places_of_arguments_work_and_warn(measure):
    density, ax = measure.density(), plt.figure().subplots()
    with pytest.warns(DeprecationWarning, match="pass `ax` by keyword"):
        assert sd.plot_densities({"a": density}, ax) is ax
    for draw in (density.plot, lambda log: sd.plot_densities(density, log=log)):
        with pytest.warns(DeprecationWarning, match="`log` is deprecated; use `log_y`") as caught:
            assert draw(log=True).get_yscale() == "log"
        assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="`log` is deprecated"):
        assert sd.plot_grid({"r": {"c": density}}, log=False)[0, 0].get_yscale() == "linear"


def test_given_power_laws_are_drawn_as_they_are(heavy):
    law = sd.analysis.fit_power_law(heavy, part="negative", range=(0.3, 60.0))
    ax = sd.plot_loglog(heavy, fit=law)
    (words,) = (label for label in legend_of(ax) if label.startswith("∝"))
    assert f"{law.exponent:.2f}" in words
    assert not [label for label in legend_of(sd.plot_loglog(heavy, fit=())) if label.startswith("∝")]
    with pytest.raises(ValueError, match="`fit` must be power laws with per='log'"):
        sd.plot_loglog(heavy, fit=[law], per="log")


def test_ten_panels_by_name_are_wrapped_and_titled():
    named = {f"k = {k}": sd.fast_lanczos(np.diag((k + 1) * np.linspace(-1, 1, 200)), num_steps=9) for k in range(10)}
    axes = sd.plot_grid(named, x="symlog")
    visible = [ax for ax in axes.ravel() if ax.get_visible()]
    assert [ax.get_title() for ax in visible] == list(named)
    assert axes.shape == (3, 4)
    assert not axes[2, 3].get_visible()
    figure = axes[0, 0].figure
    figure.canvas.draw()
    for ax in (axes[2, 0], axes[1, 3]):  # the lowest of a column: labels are there, and apart
        boxes = sorted(
            (label.get_window_extent().extents[[0, 2]] for label in ax.get_xticklabels() if label.get_text()),
            key=lambda box: box[0],
        )
        assert len(boxes) >= 3
        assert all(left[1] <= right[0] for left, right in itertools.pairwise(boxes))
    with pytest.raises(TypeError, match="rows of panels, or panels alone; got both"):
        sd.plot_grid({"a": {"b": named["k = 0"]}, "c": named["k = 1"]})
    plt.close(figure)


def test_a_column_without_a_first_panel_has_its_title():
    density = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 50)), num_steps=9).density()
    axes = sd.plot_grid({"one": {"left": density}, "two": {"right": density}})
    assert [axes[0, 0].get_title(), axes[1, 1].get_title()] == ["left", "right"]
    plt.close(axes[0, 0].figure)


def test_single_eigenvalues_show_beside_a_null_space_of_another_panel():
    zeros = np.concatenate([np.zeros(500), np.linspace(1, 2, 500)])
    spikes = np.concatenate([np.linspace(1, 2, 998), [5.0, 9.0]])
    axes = sd.plot_grid({"all": {name: sd.fast_lanczos(np.diag(e)) for name, e in (("0", zeros), ("1", spikes))}})
    twins = [ax for ax in axes[0, 0].figure.axes if ax.get_label().startswith("specdens")]
    assert len(twins) == 2
    assert {twin.get_yscale() for twin in twins} == {"log"}
    assert all(twin.get_ylim()[0] < 0.5 for twin in twins)
    plt.close(axes[0, 0].figure)


def test_point_masses_alone_are_drawn_on_a_logarithmic_axis():
    # the curve is zero everywhere, which matplotlib would warn of
    ax = sd.spectral_density(np.diag([0.0, 1.0, 1.0, 5.0])).plot(log_y=True)
    assert ax.get_yscale() == "log"
    assert 0 < ax.get_ylim()[0] < ax.get_ylim()[1]
    plt.close(ax.figure)
