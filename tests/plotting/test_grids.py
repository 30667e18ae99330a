"""Grids of panels."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pytest
from pictures import hess_g_h, texts_of

mpl.use("Agg")

import matplotlib.pyplot as plt

import specdens as sd
from specdens._plotting.stems import masses_axis


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
    assert figure.get_supylabel() == "density per unit λ, log scale"
    twins = [masses_axis(axes[place]) for place in [(0, 0), (0, 1), (1, 0)]]
    assert len({id(twin) for twin in twins}) == 3
    assert len({twin.get_ylim() for twin in twins}) == 1


def test_a_grid_takes_single_densities_without_a_legend(measure):
    axes = sd.plot_grid({"a": {"x": measure.log_density()}, "b": {"x": measure.log_density()}})
    figure = axes[0, 0].figure
    assert not figure.legends
    assert "10^" in "".join(tick.get_text() for tick in axes[1, 0].get_xticklabels())
    assert figure.get_supylabel() == "density per unit log|λ|, log scale"


@pytest.mark.slow
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
