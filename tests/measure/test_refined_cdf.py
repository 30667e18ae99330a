"""The best estimate of a distribution from one Lanczos run: laws of the slabs, and how accurate they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spectra import FAMILIES, chain, diagonal, exact_w1, semicircle
from strategies import seeds, separated_spectra, spectra

import specdens as sd
from specdens._distributions.cdf import Cdf, wasserstein
from specdens._measure.refined_cdf import refined_slabs
from specdens._vectors.probes import gaussian_probe_block


@st.composite
def rules(draw) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes, weights and residuals of any sizes, ghosts and weights of nothing included."""
    k = draw(st.integers(1, 12))
    numbers = st.one_of(st.just(0.0), st.floats(1e-12, 1.0))
    nodes = np.sort(draw(st.lists(st.integers(-40, 40).map(lambda i: i / 8), min_size=k, max_size=k)))
    weights = np.array(draw(st.lists(numbers, min_size=k, max_size=k))) + 1e-20
    residuals = np.array(draw(st.lists(numbers, min_size=k, max_size=k)))
    return nodes, weights / weights.sum(), residuals


@given(rule=rules())
def test_slabs_are_sorted_positive_within_the_hull_and_sum_to_the_weights(rule):
    nodes, weights, residuals = rule
    left, right, mass = refined_slabs(nodes, weights, residuals)
    assert np.all(mass > 0)
    assert np.all(left <= right)
    assert np.all(np.diff(left) >= 0)
    assert left.min() >= nodes[0]
    assert right.max() <= nodes[-1]
    assert mass.sum() == pytest.approx(1, rel=1e-13)


@given(rule=rules())
def test_every_node_keeps_its_weight_and_half_of_it_on_either_side(rule):
    nodes, weights, residuals = rule
    F = Cdf.of_slabs(*refined_slabs(nodes, weights, residuals, eps=0.0))
    for x in np.unique(nodes):
        below, at = weights[nodes < x].sum(), weights[nodes == x].sum()
        # half of what lies at x may be spread to either side, and nothing crosses the middle between nodes
        assert F(x) >= below + at / 2 - 1e-12
        assert F(x, side="left") <= below + at / 2 + 1e-12


@given(rule=rules(), factor=st.integers(-10, 10), shift=st.integers(-8, 8))
def test_slabs_move_along_with_shift_and_scale(rule, factor, shift):
    nodes, weights, residuals = rule
    factor = 2.0**factor
    one = Cdf.of_slabs(*refined_slabs(nodes, weights, residuals))
    other = Cdf.of_slabs(*refined_slabs(factor * nodes + shift, weights, factor * residuals))
    moved = Cdf(factor * one.positions + shift, one.values)
    assert wasserstein(moved, other) <= 1e-12 * (factor + abs(shift))


@given(rule=rules())
def test_a_mirrored_rule_gives_mirrored_slabs(rule):
    nodes, weights, residuals = rule
    left, right, mass = refined_slabs(nodes, weights, residuals)
    one = Cdf.of_slabs(left, right, mass)
    other = Cdf.of_slabs(*refined_slabs(-nodes[::-1], weights[::-1], residuals[::-1]))
    x = np.linspace(-6, 6, 241) + 0.0123  # not at a jump
    assert np.allclose(one(x), 1 - other(-x, side="left"), atol=1e-9)


@given(rule=rules())
def test_converged_nodes_stay_atoms(rule):
    nodes, weights, _ = rule
    left, right, mass = refined_slabs(nodes, weights, np.zeros(nodes.size))
    assert np.array_equal(left, right)
    assert set(left) == set(nodes)
    assert mass.sum() == pytest.approx(1, rel=1e-13)


@given(eigenvalues=separated_spectra(max_distinct=6), seed=seeds)
def test_an_isolated_converged_eigenvalue_is_found_as_a_jump(eigenvalues, seed):
    scale = float(np.max(np.abs(eigenvalues))) or 1.0
    spectrum = np.concatenate([eigenvalues / scale, [50.0]])
    v = 1 + np.random.default_rng(seed).random(spectrum.size)
    measure = sd.fast_lanczos(np.diag(spectrum), probes=v, num_steps=min(5, spectrum.size))
    jump = measure.cdf(50 + 1e-6) - measure.cdf(50 - 1e-3)
    assert jump == pytest.approx(v[-1] ** 2 / (v @ v), rel=1e-3)


@given(eigenvalues=spectra(), seed=seeds)
def test_the_best_estimate_lies_within_the_markov_bounds(eigenvalues, seed):
    v = np.random.default_rng(seed).standard_normal(
        eigenvalues.size
    )  # given: random ones have masses of isolated ones set
    measure = sd.fast_lanczos(np.diag(eigenvalues), num_steps=min(6, eigenvalues.size), probes=v)
    lo, hi = measure.bounds().widened(0.1)
    x = np.linspace(lo, hi, 300)
    lower, upper = measure.cdf_bounds(x)
    assert np.all(measure.cdf(x) >= lower - 1e-12)
    assert np.all(measure.cdf(x) <= upper + 1e-12)


# -- accuracy --------------------------------------------------------------------------------------------------------

ROWS = {
    **FAMILIES,
    "chain": chain,
    "two bulks": lambda n: np.concatenate([semicircle(n // 2) - 5, semicircle(n // 2, radius=1.0) + 4]),
    "few distinct": lambda n: np.repeat(np.arange(10.0) ** 2, n // 10),
}
# Where 64 steps resolve the spectrum what is left is sampling. They do not resolve four decades of a heavy tail.
AT_THE_FLOOR = [name for name in ROWS if name != "symmetric Pareto"]


@pytest.fixture(scope="module")
def distances() -> dict[str, np.ndarray]:
    """Return for every family the median W1 of best estimate, raw rule, Jackson drawing and the probe's own measure."""
    found = {}
    n = 10_000
    for name, family in ROWS.items():
        eigenvalues = np.sort(family(n))
        A = sd.as_operator(diagonal(eigenvalues))
        rows = []
        for seed in range(5):
            measure = sd.fast_lanczos(A, num_steps=64, seed=seed)
            v = gaussian_probe_block(A.vectors, n, (0,), seed)[:, 0]
            jackson = measure.density(kernel="jackson", num_points=4000)
            cdfs = [
                measure.bulk_cdf,
                Cdf.of_atoms(measure.nodes[0], measure.weights[0]),
                Cdf.of_slabs(jackson.edges[:-1], jackson.edges[1:], jackson.values * np.diff(jackson.edges)),
                Cdf.of_atoms(eigenvalues, v**2),
            ]
            rows.append([exact_w1(cdf, eigenvalues) for cdf in cdfs])
            if measure.last_betas[0] == 0:
                rows[-1][2] = np.inf  # exact: nothing smooth is left to draw
        found[name] = np.median(rows, axis=0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_the_best_estimate_is_as_good_as_the_better_of_raw_rule_and_jackson(distances, name):
    best, raw, jackson, _ = distances[name]
    assert best <= 1.2 * min(raw, jackson)


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_THE_FLOOR)
def test_the_best_estimate_reaches_the_sampling_floor(distances, name):
    best, _, _, floor = distances[name]
    assert best <= 1.2 * floor
