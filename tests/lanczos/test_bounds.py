"""Where a spectrum ends, and operators brought to [−1, 1]."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spectra import FAMILIES, chain, diagonal, rotated
from strategies import seeds, spectra

import specdens as sd
from specdens import Interval


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("seed", range(5))
def test_bounds_with_their_margin_contain_the_spectrum_of_every_family(family, seed):
    eigenvalues = family(5000)
    lo, hi = sd.spectral_bounds(diagonal(eigenvalues), seed=seed)
    assert lo <= eigenvalues.min()
    assert eigenvalues.max() <= hi
    assert hi - lo <= 1.3 * np.ptp(eigenvalues)  # margins, and a residual of a few per cent at either end


@given(eigenvalues=spectra(), seed=seeds)
def test_bounds_contain_any_small_spectrum(eigenvalues, seed):
    interval = sd.spectral_bounds(rotated(eigenvalues, seed), seed=seed)
    assert interval.lo <= eigenvalues[0]
    assert eigenvalues[-1] <= interval.hi
    assert interval.width > 0


@given(eigenvalues=spectra(), seed=seeds)
def test_without_a_margin_every_end_is_within_its_residual_of_an_eigenvalue(eigenvalues, seed):
    A = rotated(eigenvalues, seed)
    measure = sd.fast_lanczos(A, num_steps=min(4, eigenvalues.size), seed=seed)
    room = 1e-12 * float(np.max(np.abs(eigenvalues)))
    for nodes, residuals in zip(measure.nodes, measure.absolute_residuals, strict=True):
        distance = np.min(np.abs(nodes[:, None] - eigenvalues), axis=1)
        # without reorthogonalisation a Ritz vector is not quite of unit length: a factor of two is room enough
        assert np.all(distance <= 2 * residuals + 10 * room)


@given(lo=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), margin=st.floats(0, 1))
def test_widening_adds_a_share_of_the_width_at_either_end(lo, width, margin):
    interval = Interval(lo, lo + width)
    wide = interval.widened(margin)
    assert wide.width == pytest.approx((1 + 2 * margin) * interval.width)
    assert wide.center == pytest.approx(interval.center, abs=1e-9 * (abs(lo) + width))


@pytest.mark.parametrize("point", [0.0, 3.0, -1e-9, 1e20])
def test_an_interval_of_width_zero_becomes_one_of_its_own_scale(point):
    wide = Interval(point, point).widened(0.05)
    assert wide.lo < point < wide.hi
    assert wide.width == pytest.approx(0.1 * (abs(point) or 1.0))


def test_the_center_of_huge_ends_does_not_overflow():
    assert Interval(1e308, 1.5e308).center == pytest.approx(1.25e308)


@given(eigenvalues=spectra(), seed=seeds)
def test_a_normalized_operator_has_its_spectrum_in_minus_one_to_one(eigenvalues, seed):
    A = rotated(eigenvalues, seed)
    B = sd.normalize(A)
    dense = np.column_stack([B @ column for column in np.eye(eigenvalues.size)])
    values = np.linalg.eigvalsh((dense + dense.T) / 2)
    assert np.all(np.abs(values) <= 1 + 1e-9)
    back = B.interval.center + B.interval.width / 2 * values
    assert np.allclose(back, eigenvalues, atol=1e-11 * float(np.max(np.abs(eigenvalues))))


def test_the_measure_of_a_normalized_operator_is_that_of_the_operator_moved():
    eigenvalues = chain(200)
    B = sd.normalize(diagonal(eigenvalues), bounds=(-4, 8))
    assert B.interval == Interval(-4, 8)
    x = np.linspace(-2, 2, 9)
    one, other = sd.fast_lanczos(diagonal(eigenvalues), num_steps=20), sd.fast_lanczos(B, num_steps=20)
    assert np.allclose(one.cdf(x), other.cdf((x - 2) / 6), atol=1e-9)


def test_a_normalized_deflated_operator_carries_its_atoms_along():
    A = np.diag(np.concatenate([[10.0, -6.0], np.linspace(-1, 1, 200)]))
    B = sd.normalize(sd.deflate(A, sd.top_eigenpairs(A, rank=2)), bounds=(-2, 2))
    measure = sd.fast_lanczos(B)
    assert measure.dimension == 202
    assert measure.bulk_dimension == 200
    assert np.allclose(measure.atoms.positions, [-3.0, 5.0])
    assert np.allclose(measure.atoms.masses, 1 / 202)
    assert measure.bounds().hi == pytest.approx(0.5, rel=1e-3)


def test_bounds_of_a_wholly_known_spectrum_are_its_atoms():
    A = np.diag([1.0, 2.0, 7.0])
    measure = sd.fast_lanczos(sd.deflate(A, sd.top_eigenpairs(A, rank=3)))
    assert measure.bounds() == pytest.approx((1, 7))
    assert measure.bounds(margin=0.5) == pytest.approx((-2, 10))


def test_bounds_that_are_no_interval_are_refused():
    A = np.eye(3)
    with pytest.raises(TypeError, match=r"`bounds` must be a pair \(lo, hi\); got 3"):
        sd.normalize(A, bounds=3)
    with pytest.raises(TypeError, match=r"`bounds` must be a pair \(lo, hi\); got \(1, 2, 3\)"):
        sd.normalize(A, bounds=(1, 2, 3))
    with pytest.raises(TypeError, match=r"`bounds` must be a pair \(lo, hi\); got \('a', 'b'\)"):
        sd.normalize(A, bounds=("a", "b"))
    for bad in ((2, 1), (1, 1), (0, np.inf), (np.nan, 1)):
        with pytest.raises(ValueError, match=r"`bounds` must be finite and increasing; got \("):
            sd.normalize(A, bounds=bad)


def test_steps_for_bounds_must_be_a_count():
    with pytest.raises(ValueError, match=r"`num_steps` must be at least 1; got 0"):
        sd.spectral_bounds(np.eye(3), num_steps=0)
    assert sd.spectral_bounds(np.diag([1.0, 3.0]), num_steps=1000, margin=0.0) == pytest.approx((1, 3))


# -- what is known of the ends beforehand ------------------------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((300, 200)) * np.geomspace(1, 0.01, 200)
POSITIVE = {
    "gram": (sd.gram(X), X.T @ X, (0, np.inf)),
    "fewer rows": (sd.gram(X.T[:50]), X.T[:50] @ X.T[:50].T, (0, np.inf)),
    "negative multiple": (-2 * sd.gram(X), -2 * X.T @ X, (-np.inf, 0)),
    "shifted": (sd.gram(X).shifted(3.0), X.T @ X + 3 * np.eye(200), (3, np.inf)),
    "sum": (sd.gram(X) + 2 * sd.gram(X[:250]), X.T @ X + 2 * X[:250].T @ X[:250], (0, np.inf)),
    "difference": (sd.gram(X) - sd.gram(X[:250]), X.T @ X - X[:250].T @ X[:250], (-np.inf, np.inf)),
    "counted": (sd.Counted(sd.gram(X)), X.T @ X, (0, np.inf)),
}


@pytest.mark.parametrize("name", POSITIVE)
def test_the_margin_does_not_cross_what_is_known(name):
    A, dense, known = POSITIVE[name]
    assert A.known_bounds == known
    e = np.linalg.eigvalsh(dense)
    room = 1e-12 * np.max(np.abs(e))
    for found in (sd.spectral_bounds(A), sd.kpm(A, num_moments=60).interval):
        assert known[0] - room <= found.lo <= max(e[0], known[0]) + room
        assert min(e[-1], known[1]) - room <= found.hi <= known[1] + room


def test_without_that_knowledge_a_positive_operator_gets_a_margin_below_zero():
    A = sd.as_operator(X.T @ X)
    width = np.ptp(np.linalg.eigvalsh(A.A))
    assert sd.spectral_bounds(A).lo < -0.04 * width
    assert sd.spectral_bounds(A, within=(0, np.inf)).lo == 0
    assert sd.spectral_bounds(A, within=(0, np.inf)).hi == sd.spectral_bounds(A).hi


def test_laplacians_of_graphs_know_their_bounds():
    import networkx as nx

    G = nx.gnp_random_graph(200, 0.03, seed=0)
    for L, largest in (
        (sd.graph_laplacian(G), 2.0),
        (sd.graph_laplacian(G, normalized=False), 2 * max(dict(G.degree).values())),
    ):
        found, e = sd.spectral_bounds(L), np.linalg.eigvalsh(L.toarray())
        assert -1e-12 <= found.lo <= max(e[0], 0) + 1e-12
        assert e[-1] <= found.hi <= largest + 1e-12
        assert sd.as_operator(-1 * L).known_bounds == (-np.inf, np.inf)  # another matrix


def test_a_claim_that_a_ritz_value_contradicts_is_ignored():
    A = diagonal(np.linspace(-3, 5, 300))
    assert sd.spectral_bounds(A, within=(0, 9)) == sd.spectral_bounds(A)
    L = sd.graph_laplacian(np.ones((40, 40)) - np.eye(40))
    L.data *= -1
    assert sd.spectral_bounds(L).lo < -1
    with pytest.raises(ValueError, match="`within` must be increasing"):
        sd.spectral_bounds(A, within=(1, 0))
    with pytest.raises(TypeError, match="`within` must be a pair"):
        sd.spectral_bounds(A, within=3)


def test_deflated_eigenvalues_are_no_part_of_the_bounds():
    A = sd.gram(X)
    pairs = sd.top_eigenpairs(A, rank=2)
    assert sd.spectral_bounds(sd.deflate(A, pairs)).hi < pairs.values[1] * 1.05
    assert sd.spectral_bounds(sd.deflate(A, pairs)).lo >= -1e-12


def test_moments_of_a_positive_operator_within_its_own_interval_are_right():
    moments = sd.kpm(sd.gram(X), num_moments=80, num_probes=4)
    trace = moments.trace(np.square)
    assert abs(trace.value - np.sum(np.linalg.eigvalsh(X.T @ X) ** 2)) < 4 * trace.stderr
