"""Maps of many local densities."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

import specdens as sd

mpl.use("Agg")

N = 243
K = 2 * np.pi / N * np.round(np.linspace(-N / 2, N / 2, 81))
RING = -np.roll(np.eye(N), 1, axis=0) - np.roll(np.eye(N), -1, axis=0)
WAVES = np.exp(1j * np.outer(np.arange(N), K)) / np.sqrt(N)


def values_of(ax):
    mesh = ax.collections[-1]
    return np.asarray(mesh.get_array()).reshape(mesh.get_coordinates().shape[0] - 1, -1), mesh.get_coordinates()


@pytest.mark.slow
@pytest.mark.parametrize("disorder", [0.0, 0.4])
def test_81_plane_waves_show_the_dispersion_in_one_run_and_one_picture(disorder):
    A = sd.Counted(RING + np.diag(np.random.default_rng(0).uniform(-disorder, disorder, N)))
    measure = sd.fast_lanczos(A, probes=WAVES, num_steps=60)
    assert measure.num_probes == 81
    ax = sd.plot_map(measure, K, label="k", width=0.08)
    values, corners = values_of(ax)
    heights = (corners[1:, 0, 1] + corners[:-1, 0, 1]) / 2
    np.testing.assert_allclose(heights[np.argmax(values, axis=0)], -2 * np.cos(K), atol=0.03 + 0.5 * disorder)
    mass = values.T @ np.diff(corners[:, 0, 1])
    np.testing.assert_allclose(mass, 1.0, atol=1e-3)  # every wave has norm 1, atoms included
    assert ax.get_xlabel() == "k"
    mpl.pyplot.close(ax.figure)


def test_columns_are_those_of_each_measure():
    """A column is the density of its vector, drawn with the same width; smooth where nothing is an atom."""
    A = np.diag(np.linspace(-1, 1, 500))
    v = np.random.default_rng(0).standard_normal((500, 3))
    measure = sd.fast_lanczos(A, probes=v, num_steps=40)
    values, corners = values_of(sd.plot_map(measure, width=0.1, num_points=50, colorbar=False))
    edges = corners[:, 0, 1]
    for j in range(3):
        alone = measure[j].density(width=0.1, grid=(edges[1:] + edges[:-1]) / 2)
        assert not alone.atoms.positions.size
        np.testing.assert_allclose(values[:, j], alone.values, rtol=1e-12)
    several, _ = values_of(sd.plot_map([measure[j] for j in range(3)], width=0.1, num_points=50))
    np.testing.assert_array_equal(several, values)
    mpl.pyplot.close("all")


def test_wrong_columns_are_named():
    measure = sd.fast_lanczos(RING, probes=WAVES[:, :3], num_steps=5)
    with pytest.raises(ValueError, match="`measures` must hold two columns or more; got 1"):
        sd.plot_map([measure[0]])
    with pytest.raises(ValueError, match=r"`at` must have one position for each of the 3 columns; got \(2,\)"):
        sd.plot_map(measure, [0, 1])
    with pytest.raises(ValueError, match="`width` must be positive"):
        sd.plot_map(measure, width=0)


def test_without_a_width_columns_join_and_colours_can_be_logarithmic():
    measure = sd.fast_lanczos(RING, probes=WAVES, num_steps=60)
    ax = sd.plot_map(measure, K, log_color=True)
    values, _ = values_of(ax)
    between = np.max(np.minimum(values[:, 1:], values[:, :-1]), axis=0)  # what neighbours have in common
    assert np.all(between > 0.3 * np.max(values, axis=0)[1:])
    assert isinstance(ax.collections[-1].norm, mpl.colors.LogNorm)
    mpl.pyplot.close(ax.figure)
