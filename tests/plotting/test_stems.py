"""Point masses in pictures: stems on an axis that counts eigenvalues."""

from __future__ import annotations

import dataclasses

import matplotlib as mpl
import numpy as np
import pytest
import spectra
from pictures import legend_of, texts_of

mpl.use("Agg")

import matplotlib.pyplot as plt

import specdens as sd
from specdens._plotting.stems import masses_axis


def test_a_spectrum_of_point_masses_alone_is_drawn_as_stems_alone():
    ax = sd.spectral_density(np.array([[1.0, 2.0], [2.0, 1.0]])).plot()
    assert legend_of(ax) == ["eigenvalues (right axis)"]
    assert not ax.collections
    assert ax.get_yticks().size == 0
    assert ax.get_ylabel() == ""
    assert masses_axis(ax).get_ylabel() == "number of eigenvalues\n(stems), of 2"


def test_the_largest_mass_and_zero_are_labelled_before_others():
    ax = sd.spectral_density(np.diag(np.r_[0.0, 0.02, np.full(7, 1.0), 1.015, 0.99, 2.0])).plot()
    assert {"0", "1"} <= set(texts_of(ax))


def test_stems_of_densities_that_agree_can_be_told_apart():
    density = sd.spectral_density(np.diag([1.0, 2.0, 4.0]))
    twin = masses_axis(sd.plot_densities({"Hess": density, "G": density, "H": density}))
    assert len({line.get_markersize() for line in twin.lines}) == 3
    assert len({str(stems.get_linestyle()) for stems in twin.collections}) == 3


def test_outliers_are_stems_with_their_value_or_marked_where_a_kernel_smooths_them(measure):
    ax = measure.density().plot()
    assert texts_of(ax) == ["4"]
    np.testing.assert_allclose(masses_axis(ax).lines[0].get_xdata(), [4.0], atol=1e-6)
    smoothed = measure.density(kernel="gaussian").plot()
    assert texts_of(smoothed) == ["4"]
    mark = smoothed.lines[-1]
    assert mark.get_label() == "outliers, smoothed"
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
    assert legend_of(ax) == [
        "density",
        "± 2 standard errors",
        "not labelled: 5",
        "eigenvalues that stand apart (right axis)",
    ]
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


def test_point_masses_alone_are_drawn_on_a_logarithmic_axis():
    # the curve is zero everywhere, which matplotlib would warn of
    ax = sd.spectral_density(np.diag([0.0, 1.0, 1.0, 5.0])).plot(log_y=True)
    assert ax.get_yscale() == "log"
    assert 0 < ax.get_ylim()[0] < ax.get_ylim()[1]
    plt.close(ax.figure)


def test_many_stems_are_pale_and_explained_in_the_legend():
    rng = np.random.default_rng(0)
    named = {}
    for name in ("a", "b", "c"):
        e = np.concatenate([0.05 * rng.standard_normal(2000), rng.uniform(1, 30, 12)])
        named[name] = sd.fast_lanczos(spectra.diagonal(e), num_steps=80, num_probes=2).density()
    ax = sd.plot_densities(named, log_y=True)
    twin = masses_axis(ax)
    assert ax.get_zorder() > twin.get_zorder()  # curves before stems
    assert all(np.max(stems.get_linewidth()) < 1 for stems in twin.collections)
    assert "eigenvalues that stand apart (right axis)" in legend_of(ax)
    plt.close(ax.figure)


def test_stems_of_doubtful_numbers_have_error_bars_and_nothing_is_not_drawn():
    measure = sd.fast_lanczos(spectra.diagonal(np.concatenate([spectra.semicircle(2000), [4.0, 5.0]])), num_steps=64)
    density = measure.density()
    position, n = density.atoms.positions.copy(), measure.dimension
    errors = np.full(position.size, 0.4 / n)
    shown = dataclasses.replace(density, atom_stderr=errors)
    twin = masses_axis(shown.plot())
    _, bars = twin.collections
    assert bars.get_segments()[0][:, 1] == pytest.approx(n * (density.atoms.masses[0] + errors[0] * np.array([-1, 1])))
    faint = type(density.atoms)(position, np.r_[0.3 / n, density.atoms.masses[1:]])
    twin = masses_axis(dataclasses.replace(shown, atoms=faint).plot())
    np.testing.assert_array_equal(twin.lines[0].get_xdata(), position[1:])
    plt.close("all")


def test_a_ritz_value_at_zero_is_labelled_0():
    measure = sd.fast_lanczos(spectra.diagonal(np.concatenate([spectra.semicircle(900) + 5, [0.0]])), num_steps=64)
    density = measure.density()
    (atom,) = density.atoms.positions
    moved = type(density.atoms)(np.array([-1.6e-9]), density.atoms.masses)
    assert abs(atom) < 1e-6
    assert " at 0" in repr(dataclasses.replace(density, atoms=moved))
