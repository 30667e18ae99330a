"""A wrapped operator has the spectrum of the dense matrix that it stands for, and keeps the hooks of what it wraps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from spectra import rotated

import specdens as sd
from specdens._operators.csr import SparseMatrix
from specdens._vectors.base import Terms

pytestmark = pytest.mark.usefixtures("_both_paths")

N = 24
EIGENVALUES = np.concatenate([np.linspace(-1.0, 2.0, N - 2), [5.0, -4.0]])
M = rotated(EIGENVALUES, 1)
OTHER = rotated(np.linspace(-0.5, 0.5, N), 2)


# -- the registry: kinds of operators, and ways to wrap one ------------------------------------------------------------


def from_jax(matrix):
    jnp = pytest.importorskip("jax.numpy")
    return sd.as_operator(jnp.asarray(matrix, dtype="float32"))


def from_torch(matrix):
    return sd.as_operator(pytest.importorskip("torch").tensor(matrix))


KINDS = {
    "csr": lambda matrix: sd.as_operator(sp.csr_array(matrix)),
    "csr float32": lambda matrix: sd.as_operator(sp.csr_array(matrix.astype("float32"))),
    "dense": sd.as_operator,
    "function": lambda matrix: sd.as_operator(lambda x: matrix @ x, shape=N, dtype="float64"),
    "torch": from_torch,
    "jax": from_jax,
}


def counted(A, dense):
    return sd.Counted(A), dense


def multiple(A, dense):
    return -2.5 * A, -2.5 * dense


def shifted(A, dense):
    return A.shifted(1.5), dense + 1.5 * np.eye(N)


def both(A, dense):
    return sd.Combination([(0.5, A)], shift=-3.0), 0.5 * dense - 3.0 * np.eye(N)


def added(A, dense):
    other = sd.as_operator(A.vectors.from_host(OTHER))
    return A - 2.0 * other, dense - 2.0 * OTHER


def normalized(A, dense):
    return sd.normalize(A, bounds=(-13, 13)), dense / 13


def projected(A, dense, rank=5):
    """Project out vectors that mix eigenvectors, within the subspace in which A is not known."""
    Q = np.random.default_rng(0).standard_normal((N, rank))
    Q = np.linalg.qr(A.vectors.to_host(A.project(A.vectors.from_host(Q))))[0]
    P = np.eye(N) - Q @ Q.T
    return sd.Projected(A, A.vectors.from_host(Q)), P @ dense @ P


def deflated(A, dense, rank=3):
    """Take out the pairs of largest magnitude that are not known yet."""
    values, vectors = np.linalg.eigh(dense)
    known = A.known_atoms.positions
    new = [i for i in range(N) if not known.size or np.min(np.abs(values[i] - known)) > 1e-4]
    chosen = sorted(new, key=lambda i: -abs(values[i]))[:rank]
    Q = A.vectors.from_host(np.ascontiguousarray(vectors[:, chosen]))
    pairs = sd.EigenPairs(values[chosen], Q, np.zeros(rank), np.ones(rank, dtype=bool), num_products=0, seconds=0.0)
    return sd.deflate(A, pairs), dense


WRAPPINGS = [
    [counted],
    [multiple],
    [shifted],
    [both],
    [added],
    [normalized],
    [projected],
    [deflated],
    [multiple, counted],
    [both, multiple],
    [counted, deflated, both],
    [projected, shifted],
    [shifted, projected],
    [deflated, projected],
    [projected, deflated],
    [multiple, deflated, normalized],
    [deflated, multiple, deflated, counted],
    [added, both, projected, normalized],
]


CASES = {
    f"{kind}, {' '.join(step.__name__ for step in steps)}": (kind, steps)
    for steps in WRAPPINGS
    for kind in KINDS
    if kind != "jax" or len(steps) == 1  # JAX compiles anew for every shape
}


# In the fast loop every kind is wrapped once, and two kinds several times. JAX compiles for a second and more.
PARAMS = [
    pytest.param(
        name, marks=[pytest.mark.slow] if kind == "jax" or (len(steps) > 1 and kind not in ("csr", "torch")) else []
    )
    for name, (kind, steps) in CASES.items()
]


@pytest.fixture(params=PARAMS)
def wrapped(request):
    """Return an operator, the dense matrix that it stands for, and the tolerance of its dtype."""
    kind, steps = CASES[request.param]
    A, dense = KINDS[kind](M), M
    for step in steps:
        A, dense = step(A, dense)
    return A, dense, (2e-4 if A.vectors.name == "float32" else 1e-9)


# -- the laws ----------------------------------------------------------------------------------------------------------


def test_known_atoms_and_ritz_values_are_the_eigenvalues(wrapped):
    A, dense, tolerance = wrapped
    atoms = A.known_atoms
    counts = np.rint(atoms.masses * A.dimension).astype(int)
    np.testing.assert_allclose(atoms.masses * A.dimension, counts, atol=1e-12)
    assert A.dimension == A.bulk_dimension + counts.sum() == N
    nodes = sd.slow_lanczos(A, num_steps=A.bulk_dimension).nodes[0]
    found = np.sort(np.concatenate([np.repeat(atoms.positions, counts), nodes]))
    np.testing.assert_allclose(found, np.linalg.eigvalsh(dense), atol=tolerance * np.abs(found).max())


@pytest.mark.slow
def test_moments_and_counts_are_those_of_the_dense_matrix(wrapped):
    A, dense, tolerance = wrapped
    values = np.linalg.eigvalsh(dense)
    scale = np.abs(values).max()
    lanczos = sd.fast_lanczos(A, num_probes=24, seed=1)
    for measure in (lanczos, sd.kpm(A, num_moments=60, num_probes=24, seed=1)):
        for power in (1, 2, 3):
            estimate = measure.trace(lambda x, power=power: x**power)
            error = abs(estimate.value - np.sum(values**power))
            assert error < 5 * estimate.stderr + N * tolerance * scale**power
    for atom in A.known_atoms.positions:
        near = np.abs(values - atom) < 1e-3 * scale
        gap = np.min(np.abs(values[~near] - atom))
        if gap > 0.02 * scale:
            assert lanczos.count(atom - gap / 2, atom + gap / 2).value == pytest.approx(near.sum(), abs=1e-3)


def test_products_are_those_of_the_dense_matrix_within_the_subspace(wrapped):
    A, dense, tolerance = wrapped
    scale = np.abs(dense).max() * N
    for shape in [(N,), (N, 3)]:
        x = A.project(A.vectors.from_host(np.random.default_rng(3).standard_normal(shape)))
        expected = dense @ A.vectors.to_host(x)
        for product in (A @ x, A.apply_within(x)):
            np.testing.assert_allclose(A.vectors.to_host(product), expected, atol=tolerance * scale)


def test_fused_steps_are_those_of_the_dense_matrix(wrapped):
    A, dense, tolerance = wrapped
    vectors = A.vectors
    rng = np.random.default_rng(4)
    v, z = (vectors.to_host(A.project(vectors.from_host(rng.standard_normal((N, 3))))) for _ in range(2))
    for given in ("", "a", "c", "ab", "abc"):
        numbers = {name: rng.standard_normal(3) for name in given}
        terms = Terms(**{name: vectors.from_host(value, vectors.wide) for name, value in numbers.items()})
        a, b, c = numbers.get("a", 1.0), numbers.get("b", 0.0), numbers.get("c", 0.0)
        expected = a * (dense @ v + b * v) + c * z
        scale = np.abs(expected).max() * N
        for in_buffer in {False, A.fills_given_memory}:
            v_prev = vectors.from_host(z)
            w, vw, ww = A.three_term(vectors.from_host(v), v_prev, terms, out=v_prev if in_buffer else None)
            np.testing.assert_allclose(vectors.to_host(w), expected, atol=tolerance * scale)
            np.testing.assert_allclose(vectors.to_host(vw), np.sum(v * expected, axis=0), atol=tolerance * scale * N)
            np.testing.assert_allclose(vectors.to_host(ww), np.sum(expected**2, axis=0), atol=tolerance * scale**2)


def test_the_null_space_of_a_projection_is_counted_exactly():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((60, 60))
    Q = np.linalg.qr(rng.standard_normal((60, 20)))[0]
    A = sd.Projected(Z @ Z.T / 60 + 0.5 * np.eye(60), Q)
    P = np.eye(60) - Q @ Q.T
    for measure in (sd.fast_lanczos(A, num_probes=8), sd.slow_lanczos(A), sd.kpm(A, num_probes=8)):
        assert measure.atoms.positions[0] == 0.0
        assert measure.count(-0.1, 0.1).value == pytest.approx(
            20, abs=0.1 if isinstance(measure, sd.ChebyshevMoments) else 1e-6
        )
        trace = measure.trace(lambda x: x)
        assert abs(trace.value - np.trace(P @ (Z @ Z.T / 60 + 0.5 * np.eye(60)))) < 5 * trace.stderr


# -- hooks -------------------------------------------------------------------------------------------------------------

DERIVED = {"combination_type", "device", "dtype", "shifted"}
"""Names of `Operator` that follow from others and are no hooks."""


def test_the_base_class_forwards_every_hook():
    names = {name for name in dir(sd.Operator) if not name.startswith("_")} - DERIVED
    assert names == {name for name in vars(sd.Wrapper) if not name.startswith("_")}


class Answering(sd.Operator):
    """An operator whose hooks give answers that no default gives."""

    has_block_products, fills_given_memory, dimension, bulk_dimension = False, True, 99, 7
    known_atoms = sd.Atoms(np.array([3.0]), np.array([0.5]))
    is_matrix, known_bounds = True, sd.Interval(-3.0, 7.0)

    def __init__(self):
        super().__init__(2, sd.as_operator(np.eye(2)).vectors)
        self.form = sd.CheaperForm(sd.as_operator(np.eye(2)), "note", 3, lambda pairs: pairs)

    def apply(self, x):
        return 2 * x

    def apply_within(self, x):
        return 3 * x

    def project(self, x):
        return 5 * x

    def three_term(self, v, v_prev, terms, *, squares=True, out=None):
        return "three_term", v, v_prev, terms, squares, out

    def cheaper_form(self):
        return self.form

    def probe_index(self, column):
        return column + 100


@pytest.mark.parametrize("wrap", [sd.Wrapper, sd.Counted, lambda A: 1.0 * A])
def test_answers_pass_through_wrappers_that_change_nothing(wrap):
    A, x = Answering(), np.ones(2)
    W = wrap(A)
    for name in (
        *("has_block_products", "fills_given_memory", "dimension", "bulk_dimension", "shape", "device", "dtype"),
        *("is_matrix", "known_bounds"),
    ):
        assert getattr(W, name) == getattr(A, name), name
    assert np.array_equal(W.known_atoms, A.known_atoms)
    np.testing.assert_array_equal([W @ x, W.apply_within(x), W.project(x.copy())], [2 * x, 3 * x, 5 * x])
    assert W.three_term(x, 2, Terms(), squares=False, out=3) == ("three_term", x, 2, Terms(), False, 3)
    assert W.cheaper_form().note == "note"
    assert W.probe_index(3) == 103


def test_the_cheaper_form_of_a_multiple_is_the_multiple_of_the_cheaper_form():
    A = Answering()
    form = sd.Combination([(2.0, A)], shift=-1.0).cheaper_form()
    np.testing.assert_allclose(form.operator @ np.ones(2), np.ones(2))
    seen = []
    A.form = sd.CheaperForm(A.form.operator, "note", 3, lambda pairs: seen.append(pairs.values) or pairs)
    pairs = sd.EigenPairs(np.array([5.0, 1.0]), np.eye(2), np.array([0.1, 0.3]), np.ones(2, dtype=bool), 0, 0.0)
    lifted = sd.Combination([(2.0, A)], shift=-1.0).cheaper_form().lift(pairs)
    np.testing.assert_allclose(seen[0], [3.0, 1.0])
    np.testing.assert_allclose(lifted.values, pairs.values)
    np.testing.assert_allclose(lifted.residuals, pairs.residuals)
    assert (0.0 * A).cheaper_form() is None


def test_products_with_the_cheaper_form_are_counted():
    A = sd.Counted(Answering())
    A.cheaper_form().operator @ np.ones((2, 3))
    assert A.num_products == 3
    A.num_products = 0
    assert A.num_products == 0


def test_counting_changes_no_bit():
    A = sp.csr_array(M)
    for run in (sd.fast_lanczos, sd.slow_lanczos):
        bare, counted = run(A, num_probes=3), run(sd.Counted(A), num_probes=3)
        np.testing.assert_array_equal(bare.alphas, counted.alphas)
        np.testing.assert_array_equal(bare.betas, counted.betas)
    np.testing.assert_array_equal(sd.kpm(A, num_probes=3).mus, sd.kpm(sd.Counted(A), num_probes=3).mus)


@pytest.mark.parametrize("wrap", [counted, multiple, shifted, both, normalized, deflated, projected])
def test_wrapped_sparse_matrices_take_the_fused_step(wrap, monkeypatch):
    calls = []
    fused = SparseMatrix.three_term
    monkeypatch.setattr(SparseMatrix, "three_term", lambda *args, **options: calls.append(1) or fused(*args, **options))
    A, _ = wrap(sd.as_operator(sp.csr_array(M)), M)
    assert A.fills_given_memory
    sd.fast_lanczos(A, num_steps=10)
    assert len(calls) == 8  # the first two products are checked on the way


@pytest.mark.parametrize(("c", "s"), [(0.0, 2.0), (1e-200, 0.0), (1e-20, 1.0), (1e18, 0.0), (1.0, 1e18), (1e30, 1e30)])
def test_coefficients_of_any_size_give_the_right_step(c, s):
    A = sd.Combination([(c, sp.csr_array(M))], shift=s)
    v, z = np.random.default_rng(0).standard_normal((2, N))
    expected = c * (M @ v) + s * v - 2.0 * z
    w, vw, ww = A.three_term(v, z, Terms(c=np.asarray(-2.0)))
    np.testing.assert_allclose(w, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose([vw, ww], [v @ expected, expected @ expected], rtol=1e-10)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Q", [np.ones((N, 1)), np.zeros((N, 2)), np.full((N, 1), np.nan)])
def test_a_basis_must_be_orthonormal(Q):
    with pytest.raises(ValueError, match=r"`Q` must have orthonormal columns; got QᴴQ − I of size "):
        sd.Projected(M, Q)


def test_a_basis_must_be_orthogonal_to_known_eigenvectors():
    A, _ = deflated(sd.as_operator(M), M)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((N, 2)))[0]
    with pytest.raises(ValueError, match=r"`Q` must be orthogonal to the known eigenvectors of A; got a component of "):
        sd.Projected(A, Q)
