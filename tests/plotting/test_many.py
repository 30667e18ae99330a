"""Several densities on shared axes."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from pictures import legend_of

mpl.use("Agg")

import matplotlib.pyplot as plt

import specdens as sd
from specdens._plotting.stems import masses_axis


def test_several_densities_share_axes_in_the_papers_colours(named):
    ax = sd.plot_densities(named, log_y=True)
    assert legend_of(ax)[:3] == ["Hess", "G", "H"]
    for line, density in zip(ax.lines, named.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), density.values if np.any(density.values) else [])
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


def test_densities_come_as_mapping_list_arguments_or_measures(measure):
    density = measure.density()
    for given in ([{"1": density, "2": density}], [[density, density]], [density, measure], [iter([measure, density])]):
        ax = sd.plot_densities(*given)
        assert legend_of(ax)[:2] == ["1", "2"]
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
