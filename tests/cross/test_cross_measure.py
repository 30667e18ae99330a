"""Measures between two vectors and weighted by an operator, against dense linear algebra."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_cases import slow_after
from spectra import rotated

import specdens as sd
from specdens._chebyshev.kernels import kernel_coefficients

mpl.use("Agg")

N = 90


def ring(flux: float, seed: int = 0) -> np.ndarray:
    """Return a disordered ring with a flux through it: complex Hermitian, with a current at every energy."""
    hop = np.exp(1j * flux / N) * np.roll(np.eye(N), 1, axis=0)
    return hop + hop.conj().T + np.diag(np.random.default_rng(seed).uniform(-0.3, 0.3, N))


def vectors(seed: int, is_complex: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((2, N)) + (1j * rng.standard_normal((2, N)) if is_complex else 0)


def matrix_elements(A, a, b) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues of A and ⟨a|u⟩⟨u|b⟩ of its eigenvectors."""
    values, U = np.linalg.eigh(A)
    return values, (a.conj() @ U) * (U.conj().T @ b)


def drawn_exactly(density, eigenvalues, weights) -> np.ndarray:
    """Return the exact measure, drawn with the same kernel on the same cells."""
    measure = density.measure
    interval, m = measure.interval, int(density.kernel.split()[1])
    x = (eigenvalues - interval.center) / (interval.width / 2)
    moments = np.cos(np.outer(np.arange(m), np.arccos(x))) @ weights
    moments = moments * kernel_coefficients("jackson", m)
    phi = np.arccos(np.clip((density.edges - interval.center) / (interval.width / 2), -1.0, 1.0))
    i = np.arange(1, m)
    cumulative = moments[0] * (1 - phi / np.pi) - 2 / np.pi * np.sin(np.outer(phi, i)) @ (moments[1:] / i)
    return np.diff(cumulative) / np.diff(density.edges)


@given(st.integers(0, 2**16), st.booleans(), st.booleans(), st.integers(4, 40))
def test_k_steps_integrate_degree_k_minus_1_exactly(seed, complex_matrix, complex_vectors, num_steps):
    A = ring(0.7, seed) if complex_matrix else ring(0.7, seed).real
    a, b = vectors(seed, complex_vectors)
    measure = sd.cross_measure(A, a, b, num_steps=num_steps)
    assert measure.is_complex == (complex_matrix or complex_vectors)
    eigenvalues, weights = matrix_elements(A, a, b)
    for degree in (0, 1, num_steps - 1):
        exact = np.sum(weights * (eigenvalues / 2.3) ** degree)
        found = measure.integrate(lambda x, degree=degree: (x / 2.3) ** degree).value
        assert found == pytest.approx(exact, abs=1e-9 * np.linalg.norm(a) * np.linalg.norm(b))


@pytest.mark.parametrize("is_complex", [False, True])
def test_a_drawn_density_is_the_exact_one_at_its_resolution(is_complex):
    A = ring(2.0) if is_complex else ring(0.0).real
    a, b = vectors(1, is_complex)
    density = sd.cross_measure(A, a, b, num_steps=50).density(300)
    exact = drawn_exactly(density, *matrix_elements(A, a, b))
    np.testing.assert_allclose(density.values, exact, atol=1e-8 * np.max(np.abs(exact)))
    assert density.values.dtype == (np.complex128 if is_complex else np.float64)
    assert np.min(density.values.real) < 0 < np.max(density.values.real)
    assert density.integral() == pytest.approx(np.vdot(a, b))
    assert abs(density.outside) < 1e-9


def test_ghosts_do_not_disturb_it():
    """Outliers converge early and return as ghosts in many steps without reorthogonalisation."""
    e = np.concatenate([np.linspace(-1, 1, 290), np.arange(10.0, 20.0)])
    A, (a, b) = rotated(e), np.random.default_rng(0).standard_normal((2, 300))
    measure = sd.cross_measure(A, a, b, num_steps=200)
    assert np.sum(np.diff(measure.nodes[0]) < 1e-9) > 3  # there are ghosts
    eigenvalues, weights = matrix_elements(A, a, b)
    for f in (np.ones_like, np.square, lambda x: np.exp(-x), lambda x: 1 / (x - 3.0)):
        size = np.linalg.norm(a) * np.linalg.norm(b) * np.max(np.abs(f(eigenvalues)))
        assert measure.integrate(f).value == pytest.approx(np.sum(weights * f(eigenvalues)), abs=1e-10 * size)


def test_the_same_vector_twice_is_the_local_density():
    A, (v, _) = ring(0.0).real, vectors(3, False)
    cross, local = sd.cross_measure(A, v, v, num_steps=60), sd.fast_lanczos(A, probes=v, num_steps=60)
    np.testing.assert_allclose(cross.weights[0], v @ v * local.weights[0], atol=1e-10 * (v @ v))
    assert np.all(cross.density().values > -1e-9)


def test_the_resolvent_is_an_entry_of_the_inverse():
    A, z = ring(1.0), np.array([0.3 + 0.2j, -1.0 - 0.5j])
    a, b = vectors(5, True)
    found = sd.cross_measure(A, a, b).resolvent(z)
    exact = [a.conj() @ np.linalg.solve(each * np.eye(N) - A, b) for each in z]
    np.testing.assert_allclose(found.value, exact, rtol=1e-6)  # at 0.2 from the real axis 90 steps leave 2e-7
    assert np.all(np.abs(found.value - exact) < 3 * found.stderr + 1e-9)


def test_the_edge_current_of_a_lattice_in_a_magnetic_field():
    """The current 2 Im t ⟨x|δ|x+1⟩ along the edge of a strip is that of the eigenvectors, and has both signs."""
    x, y = np.divmod(np.arange(N), 9)
    across, along = (np.abs(y[:, None] - y) == 1) & (x[:, None] == x), (y[:, None] == y) * (x[:, None] - x)
    A = across + (np.abs(along) == 1) * np.exp(2j * np.pi / 5 * y * along)
    np.testing.assert_allclose(A, A.conj().T)
    one = np.eye(N)
    t = A[45, 36]  # y = 0
    density = sd.cross_measure(A, one[36], one[45]).density(400, width=0.11)
    eigenvalues, weights = matrix_elements(A, one[36], one[45])
    current = 2 * np.imag(t * density.values)
    exact = drawn_exactly(density, eigenvalues, 2 * np.imag(t * weights))
    np.testing.assert_allclose(current, exact, atol=1e-8)
    assert np.min(exact) < -0.01
    assert np.max(exact) > 0.01
    exact_part = np.sum(weights[(eigenvalues > -1) & (eigenvalues < 0.5)])
    found = sd.cross_measure(A, one[36], one[45], num_steps=60).weight(-1, 0.5)
    assert abs(found.value - exact_part) < max(2 * found.stderr, 1e-6)


WEIGHTS = {
    "projector": (ring(0.0).real, np.diag((np.arange(N) % 3 == 0) * 1.0)),
    "current": (ring(20.0), 1j * (np.roll(np.eye(N), 1, axis=0) - np.roll(np.eye(N), -1, axis=0))),
    "rotated": (ring(0.0).real, rotated(np.linspace(-1, 3, N), seed=4)),
}


@pytest.mark.parametrize("name", slow_after(1, WEIGHTS))
def test_weighted_densities_agree_with_dense_ones_within_their_error(name):
    """The root mean square of error/stderr over 25 seeds: sampling errors are bounds that are nearly reached."""
    A, B = WEIGHTS[name]
    eigenvalues, U = np.linalg.eigh(A)
    weights = np.einsum("ij,ik,kj->j", U.conj(), B, U).real
    readings, curves = [], []
    for seed in range(25):
        measure = sd.weighted_measure(A, B, num_steps=40, num_probes=3, seed=seed)
        for f in (np.ones_like, np.asarray, np.exp):
            found = measure.integrate(f)
            readings.append((found.value - np.sum(weights * f(eigenvalues))) / found.stderr)
        found = measure.weight(-0.5, 1.0)
        readings.append((found.value - np.sum(weights[(eigenvalues > -0.5) & (eigenvalues < 1.0)])) / found.stderr)
        density = measure.density(200)
        assert density.values.dtype == np.float64
        curves.append((density.values - drawn_exactly(density, eigenvalues, weights)) / density.stderr)
    assert 0.5 < np.sqrt(np.mean(np.square(readings))) < 1.25
    assert 0.5 < np.sqrt(np.mean(np.square(curves))) < 1.25


def test_the_identity_as_weight_gives_the_density_of_states():
    A = ring(0.0).real
    measure = sd.weighted_measure(A, np.eye(N), num_steps=30, num_probes=4)
    same = sd.fast_lanczos(A, num_steps=30, num_probes=4)
    assert measure.total().value == pytest.approx(N)
    assert measure.integrate(np.exp).value == pytest.approx(same.trace(np.exp).value, rel=1e-6)


def test_a_vector_as_weight_is_a_diagonal_matrix():
    A, w = ring(0.0).real, np.arange(float(N))
    vector, matrix = (sd.weighted_measure(A, B, num_steps=20) for B in (w, np.diag(w)))
    assert vector.integrate(np.exp).value == pytest.approx(matrix.integrate(np.exp).value, rel=1e-10)


def test_partial_densities_add_up_to_the_whole():
    A = ring(0.0).real
    halves = [np.diag((np.arange(N) % 2 == k) * 1.0) for k in (0, 1)]
    grid = np.linspace(-3, 3, 100)
    parts = [sd.weighted_measure(A, half, num_steps=50).density(grid=grid).values for half in halves]
    whole = sd.weighted_measure(A, np.eye(N), num_steps=50).density(grid=grid).values
    np.testing.assert_allclose(parts[0] + parts[1], whole, atol=1e-9 * np.max(whole))


def test_blocks_of_probes_change_nothing_but_rounding():
    A, B = WEIGHTS["rotated"]
    one, many = (sd.weighted_measure(A, B, num_steps=20, num_probes=5, block_size=k) for k in (1, 5))
    for a, b in zip(one.overlaps, many.overlaps, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_torch_operators_and_vectors_work():
    torch = pytest.importorskip("torch")
    A, (a, b) = ring(0.0).real, vectors(2, False)
    there = sd.cross_measure(*(torch.from_numpy(x.copy()) for x in (A, a, b)), num_steps=20)
    here = sd.cross_measure(A, a, b, num_steps=20)
    np.testing.assert_allclose(there.overlaps[0], here.overlaps[0], atol=1e-9)
    B = np.diag(np.arange(float(N)))
    found = sd.weighted_measure(torch.from_numpy(A.copy()), torch.from_numpy(B), num_steps=9)
    assert found.total().value == pytest.approx(sd.weighted_measure(A, B, num_steps=9).total().value, rel=1e-12)


@pytest.mark.parametrize("draw", [False, True], ids=["measure", "density"])
@pytest.mark.parametrize("name", ["cross", "complex", "weighted"])
def test_they_are_saved_and_loaded(tmp_path, name, draw):
    A, B = WEIGHTS["current"]
    a, b = vectors(2, name == "complex")
    made = sd.weighted_measure(A, B, num_steps=9) if name == "weighted" else sd.cross_measure(A.real, a, b)
    result = made.density(50) if draw else made
    sd.save(tmp_path / "it.npz", result)
    again = sd.load(tmp_path / "it.npz")
    assert repr(again) == repr(result)
    measure = again.measure if draw else again
    for one, other in zip(measure.overlaps, made.overlaps, strict=True):
        np.testing.assert_array_equal(one, other)
    if draw:
        np.testing.assert_array_equal(again.values, result.values)


def test_pictures_show_both_signs_and_both_parts():
    a, b = vectors(2, True)
    ax = sd.cross_measure(ring(1.0), a, b).plot()
    assert [text.get_text()[:2] for text in ax.get_legend().get_texts()] == ["Re", "Im"]
    lo, hi = ax.get_ylim()
    assert lo < 0 < hi
    ax = sd.weighted_measure(*WEIGHTS["current"]).plot(label="current")
    assert ax.get_legend().get_texts()[0].get_text() == "current"
    assert "tr B δ(λ − A)" in ax.get_ylabel()
    assert len(ax.collections) == 1  # the band of the sampling error
    mpl.pyplot.close("all")


def test_wrong_arguments_are_named():
    A, (a, b) = ring(0.0).real, vectors(0, False)
    with pytest.raises(ValueError, match=r"`left` must have shape \(90,\); got \(3,\)"):
        sd.cross_measure(A, np.ones(3), b)
    with pytest.raises(ValueError, match="`right` must be finite and not zero"):
        sd.cross_measure(A, a, np.zeros(N))
    with pytest.raises(ValueError, match="`A` must be the operator itself"):
        sd.cross_measure(sd.deflate(A, sd.top_eigenpairs(A, rank=1)), a, b)
    with pytest.raises(ValueError, match="`weight` must be Hermitian"):
        sd.weighted_measure(A, np.eye(N, k=1) - np.eye(N, k=-1))
    with pytest.raises(ValueError, match="`weight` must act on the vectors of A"):
        sd.weighted_measure(A, np.eye(3))
    with pytest.raises(TypeError, match="`probes` must be gaussian or rademacher"):
        sd.weighted_measure(A, np.eye(N), probes=a)
    with pytest.raises(ValueError, match="without a checkpoint"):
        sd.weighted_measure(A, np.eye(N), monitor=sd.Monitor(checkpoint="run.npz"))
    with pytest.raises(ValueError, match="`f` must be finite"):
        sd.cross_measure(A, a, b).integrate(lambda x: np.full(x.shape, np.nan))
    with pytest.raises(ValueError, match="`width` must be at least"):
        sd.cross_measure(A, a, b, num_steps=20).density(width=1e-3)


def test_the_part_of_an_interval_is_within_its_error():
    ratios = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        eigenvalues, a, b = rng.standard_normal(200), *rng.standard_normal((2, 200))
        found = sd.cross_measure(np.diag(eigenvalues), a, b, num_steps=30).weight(0, np.inf)
        ratios.append(abs(found.value - np.sum((a * b)[eigenvalues >= 0])) / found.stderr)
    assert np.mean(np.array(ratios) > 2) <= 0.1
    assert max(ratios) < 5


def test_one_step_knows_that_it_knows_little():
    A = np.diag(np.linspace(-1, 1, 300))
    found = sd.cross_measure(A, np.ones(300), np.arange(300.0), num_steps=1)
    exact = np.sum(np.exp(3 * np.diag(A)) * np.arange(300))
    value, stderr = found.integrate(lambda x: np.exp(3 * x))
    assert abs(value - exact) < 2 * stderr
    assert abs(found.weight(0, 1).value - np.arange(150, 300).sum()) < 2 * found.weight(0, 1).stderr


@pytest.mark.parametrize("weight", [np.arange(60) < 30, np.arange(60), np.ones(60, np.float32)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_vector_of_any_kind_is_a_diagonal_weight(weight, dtype):
    A = rotated(np.linspace(-1, 1, 60)).astype(dtype)
    value, stderr = sd.weighted_measure(A, weight, num_probes=8).total()
    assert abs(value - np.sum(weight)) < 4 * stderr
