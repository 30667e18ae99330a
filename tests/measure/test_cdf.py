"""Distribution functions that are piecewise linear with jumps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import specdens as sd
from specdens._distributions.atoms import Atoms, merge_atoms
from specdens._distributions.cdf import Cdf, mixture, wasserstein

coordinates = st.integers(-50, 50).map(lambda k: k / 7)


@st.composite
def atomic(draw) -> Cdf:
    positions = np.sort(draw(st.lists(coordinates, min_size=1, max_size=12)))
    masses = np.array(draw(st.lists(st.integers(1, 9), min_size=positions.size, max_size=positions.size)))
    return Cdf.of_atoms(positions, masses / masses.sum())


@st.composite
def slabs(draw) -> Cdf:
    """Return slabs that touch, leave gaps, or are atoms."""
    ends = np.sort(draw(st.lists(coordinates, min_size=2, max_size=12).filter(lambda x: len(x) % 2 == 0)))
    masses = np.array(draw(st.lists(st.integers(0, 9), min_size=ends.size // 2, max_size=ends.size // 2))) + 0.5
    return Cdf.of_slabs(ends[::2], ends[1::2], masses / masses.sum())


any_cdf = st.one_of(atomic(), slabs())
# all masses are multiples of a few parts in a thousand: rounding is all that is left
ROUNDING = 1e-12


@given(F=any_cdf)
def test_a_cdf_rises_from_zero_to_its_mass(F):
    x = np.unique(np.concatenate([F.positions, np.linspace(-8, 8, 100)]))
    right, left = F(x), F(x, side="left")
    assert np.all(np.diff(right) >= -ROUNDING)
    assert np.all(left <= right + ROUNDING)
    assert np.all(left[1:] >= right[:-1] - ROUNDING)
    assert F(-9.0) == 0
    assert F(9.0) == F.mass == pytest.approx(1)


@given(F=atomic())
def test_the_left_limit_leaves_the_atom_at_x_out(F):
    jumps = np.diff(np.concatenate([[0.0], F.values]))
    for x in np.unique(F.positions):
        assert F(x) - F(x, side="left") == pytest.approx(jumps[F.positions == x].sum(), abs=ROUNDING)


@given(F=any_cdf, q=st.floats(0.001, 1))
def test_the_quantile_is_the_smallest_x_that_reaches_the_level(F, q):
    x = F.quantile(q)
    assert F(x) >= q - 1e-9
    assert F(x - 1e-6, side="left") <= q + 1e-9


@given(F=slabs())
def test_the_quantile_inverts_a_cdf_where_it_rises(F):
    inner = (F.positions[1:] + F.positions[:-1]) / 2
    x = inner[(np.diff(F.values) > 1e-9) & (np.diff(F.positions) > 0)]
    assert np.allclose(F.quantile(F(x)), x, atol=1e-9)


def test_quantile_zero_is_where_the_cdf_starts():
    F = Cdf.of_slabs(np.array([1.0, 4.0]), np.array([2.0, 4.0]), np.array([0.5, 0.5]))
    assert F.quantile(0.0) == 1.0
    assert np.allclose(F.quantile([0.25, 0.5, 0.75, 1.0]), [1.5, 2.0, 4.0, 4.0])


@given(parts=st.lists(st.tuples(st.floats(0.1, 2), any_cdf), min_size=1, max_size=4))
def test_a_mixture_is_the_weighted_sum_at_every_x_from_either_side(parts):
    x = np.concatenate([np.linspace(-8, 8, 100), *(F.positions for _, F in parts)])
    for side in ("left", "right"):
        expected = sum(w * F(x, side=side) for w, F in parts)
        assert np.allclose(mixture(parts)(x, side=side), expected, atol=1e-9)


@given(F=atomic(), G=atomic())
def test_w1_of_atoms_is_that_of_scipy(F, G):
    def weights(F):
        return np.diff(np.concatenate([[0.0], F.values[1::2]]))

    expected = scipy.stats.wasserstein_distance(F.positions[::2], G.positions[::2], weights(F), weights(G))
    assert wasserstein(F, G) == pytest.approx(expected, abs=ROUNDING)


@given(F=slabs(), G=any_cdf)
def test_w1_of_slabs_is_the_limit_of_many_atoms(F, G):
    q = (np.arange(4000) + 0.5) / 4000
    expected = scipy.stats.wasserstein_distance(F.quantile(q), G.quantile(q))
    # an atom of mass 1/4000 moves by the width of the hull at most, 15
    assert wasserstein(F, G) == pytest.approx(expected, abs=2 * 15 / 4000)


@given(F=any_cdf, G=any_cdf, H=any_cdf)
def test_w1_is_a_distance(F, G, H):
    assert wasserstein(F, F) == pytest.approx(0, abs=ROUNDING)
    assert wasserstein(F, G) == pytest.approx(wasserstein(G, F), abs=ROUNDING)
    assert wasserstein(F, H) <= wasserstein(F, G) + wasserstein(G, H) + ROUNDING


def test_w1_by_hand():
    unit = Cdf.of_slabs(np.array([0.0]), np.array([1.0]), np.array([1.0]))
    half = Cdf.of_atoms(np.array([0.5]), np.array([1.0]))
    ends = Cdf.of_atoms(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    moved = Cdf.of_slabs(np.array([3.0]), np.array([4.0]), np.array([1.0]))
    assert wasserstein(unit, half) == pytest.approx(1 / 4)
    assert wasserstein(unit, ends) == pytest.approx(1 / 4)
    assert wasserstein(half, ends) == pytest.approx(1 / 2)
    assert wasserstein(unit, moved) == pytest.approx(3)


def test_nothing_has_mass_zero_everywhere():
    nothing = Cdf.of_atoms(np.empty(0), np.empty(0))
    assert nothing.mass == 0
    assert np.array_equal(nothing([-1.0, 0.0, 1.0]), np.zeros(3))


@given(F=atomic(), tolerance=st.sampled_from([0.0, 0.2, 3.0]))
def test_merging_atoms_keeps_mass_and_mean_and_leaves_gaps(F, tolerance):
    atoms = Atoms(F.positions[::2], np.diff(np.concatenate([[0.0], F.values[1::2]])))
    merged = merge_atoms([atoms, Atoms.none()], tolerance=tolerance)
    assert merged.mass() == pytest.approx(atoms.mass())
    assert merged.positions @ merged.masses == pytest.approx(atoms.positions @ atoms.masses, abs=1e-10)
    assert np.all(np.diff(merged.positions) > 0)


def test_merging_nothing_gives_nothing():
    assert merge_atoms([], tolerance=1.0).positions.size == 0
    assert Atoms(np.ones(1), np.ones(1)).scaled(0.25).mass() == 0.25


def test_the_distribution_function_of_nan_is_nan():
    measure = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 50)), num_steps=10)
    assert np.isnan(measure.cdf(np.nan))
    assert np.isnan(measure.cdf([np.nan, 0.0])).tolist() == [True, False]
    assert np.isnan(measure.density().cdf(np.nan))
    assert np.isnan(measure.cdf_bounds(np.nan)).all()
