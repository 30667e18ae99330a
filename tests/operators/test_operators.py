"""Whatever multiplies a vector becomes an operator whose products are right, checked and in fresh memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from optional import optional

import specdens as sd
from specdens._operators.products import ReusedMemoryError

torch = optional("torch")

N = 6
RNG = np.random.default_rng(0)
INTEGERS = (lambda Z: Z + Z.T)(RNG.integers(-3, 4, (N, N)))
REAL = (lambda Z: Z + Z.T)(RNG.standard_normal((N, N)))
HERMITIAN = (lambda Z: Z + Z.conj().T)(RNG.standard_normal((N, N)) + 1j * RNG.standard_normal((N, N)))


def assert_products(A, dense, dtype):
    """Check the products with a vector and with blocks against a dense matrix, in the operator's own library."""
    assert isinstance(A, sd.Operator)
    assert isinstance(A, sd.LinearOperator)
    assert A.shape == (N, N)
    assert A.vectors.name == dtype
    rtol = 1e-5 if dtype in ("float32", "complex64") else 1e-13
    for shape in [(N,), (N, 1), (N, 4)]:
        host = np.random.default_rng(1).standard_normal(shape)
        x = A.vectors.from_host(host + 1j * host[::-1] if A.vectors.is_complex else host)
        y = A @ x
        assert y.dtype == A.dtype
        expected = np.asarray(dense) @ np.asarray(A.vectors.to_host(x), dtype=np.complex128)
        np.testing.assert_allclose(A.vectors.to_host(y), expected, rtol=rtol, atol=10 * rtol)


class Diagonal:
    """A user's class: nothing but the protocol."""

    def __init__(self, d, dtype, **attributes):
        self.d, self.dtype, self.shape = d, dtype, (len(d), len(d))
        self.__dict__.update(attributes)

    def __matmul__(self, x):
        return self.d * x if x.ndim == 1 else self.d[:, None] * x


def from_function(f, n=N, dtype="float64", **kwargs):
    return sd.as_operator(f, shape=n, dtype=dtype, **kwargs)


# -- what is taken ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "dtype"),
    [
        (REAL, "float64"),
        (REAL.astype("float32"), "float32"),
        (INTEGERS.astype("float16"), "float32"),
        (HERMITIAN, "complex128"),
        (HERMITIAN.astype("complex64"), "complex64"),
        (INTEGERS, "float64"),
        (INTEGERS.astype("int8"), "float64"),
        (abs(INTEGERS).astype("uint64"), "float64"),
        (INTEGERS > 0, "float64"),
        (np.asfortranarray(HERMITIAN), "complex128"),
        (REAL[::-1, ::-1], "float64"),
        (np.asmatrix(REAL), "float64"),
        (INTEGERS.tolist(), "float64"),
        (tuple(map(tuple, REAL)), "float64"),
    ],
)
def test_numpy_arrays_multiply_as_they_are(matrix, dtype):
    assert_products(sd.as_operator(matrix), np.asarray(matrix), dtype)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize(
    ("matrix", "dtype"),
    [(REAL, "float64"), (REAL.astype("float32"), "float32"), (HERMITIAN, "complex128"), (INTEGERS, "float64")],
    ids=["float64", "float32", "complex128", "int"],
)
def test_sparse_formats_multiply_as_dense_ones(kind, form, matrix, dtype):
    A = getattr(sp, f"{form}_{kind}")(matrix)
    assert_products(sd.as_operator(A), matrix, dtype)


def test_a_sparse_matrix_without_entries_is_zero():
    assert_products(sd.as_operator(sp.csr_array((N, N), dtype=int)), np.zeros((N, N)), "float64")
    assert_products(sd.as_operator(torch.zeros(N, N, dtype=torch.int64).to_sparse()), np.zeros((N, N)), "float64")


class NoDtype(sla.LinearOperator):
    def __init__(self):
        self.dtype, self.shape = None, (N, N)

    def _matvec(self, x):
        return HERMITIAN @ x


@pytest.mark.parametrize(
    ("A", "dense", "dtype", "blocks"),
    [
        (sla.aslinearoperator(REAL), REAL, "float64", True),
        (sla.aslinearoperator(INTEGERS), INTEGERS, "float64", True),
        (sla.aslinearoperator(sp.csr_array(REAL)), REAL, "float64", True),
        (sla.LinearOperator((N, N), matvec=lambda x: REAL @ x), REAL, "float64", False),
        (sla.LinearOperator((N, N), matvec=lambda x: REAL @ x, dtype="float32"), REAL, "float32", False),
        (
            sla.LinearOperator(
                (N, N), matvec=lambda x: REAL @ x, rmatvec=lambda x: REAL @ x, matmat=lambda X: REAL @ X, dtype=float
            ),
            REAL,
            "float64",
            True,
        ),
        (NoDtype(), HERMITIAN, "complex128", False),
    ],
    ids=["matrix", "int matrix", "sparse", "matvec", "float32 matvec", "matmat", "no dtype"],
)
def test_scipy_operators_multiply_and_say_whether_they_know_blocks(A, dense, dtype, blocks):
    operator = sd.as_operator(A)
    assert_products(operator, dense, dtype)
    assert operator.has_block_products is blocks


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", ["to_dense", "to_sparse", "to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("matrix", [REAL, HERMITIAN], ids=["real", "complex"])
def test_torch_tensors_of_every_layout_multiply_without_gradients(layout, matrix, grad):
    A = getattr(torch.asarray(matrix), layout)().requires_grad_(grad)
    operator = sd.as_operator(A)
    assert_products(operator, matrix, str(matrix.dtype))
    assert not (operator @ operator.vectors.zeros((N,))).requires_grad


@pytest.mark.parametrize("layout", ["to_dense", "to_sparse", "to_sparse_csr"])
def test_torch_integers_are_exact_and_half_precision_becomes_float32(layout):
    A = getattr(torch.asarray(INTEGERS), layout)()
    assert_products(sd.as_operator(A), INTEGERS, "float64")
    assert_products(sd.as_operator(A.bool()), INTEGERS != 0, "float64")
    assert_products(sd.as_operator(torch.asarray(INTEGERS).to(torch.bfloat16)), INTEGERS, "float32")


def test_arrays_of_every_library_multiply_in_their_library(library):
    A = sd.as_operator(library.array(REAL))
    assert_products(A, REAL, library.real)
    assert type(A @ A.vectors.zeros((N,))) is type(library.array([1.0]))
    assert_products(sd.as_operator(library.array(HERMITIAN)), HERMITIAN, library.complex)


@pytest.mark.slow
def test_jax_sparse_matrices_multiply_in_jax():
    jsparse = pytest.importorskip("jax.experimental.sparse")
    A = sd.as_operator(jsparse.BCOO.fromdense(REAL.astype("float32")))
    assert_products(A, REAL, "float32")


@pytest.mark.parametrize("shape", [N, (N, N), np.int64(N), [N, N]])
def test_a_function_needs_a_shape_as_a_number_or_a_pair(shape):
    assert_products(sd.as_operator(lambda x: REAL @ x, shape=shape, dtype="float64"), REAL, "float64")


def test_a_function_is_called_with_vectors_only():
    seen = []
    A = from_function(lambda x: seen.append(x.shape) or REAL @ x)
    A @ np.ones((N, 3))
    assert seen == [(N,)] * 3
    assert not A.has_block_products


def test_like_names_the_library_of_a_function(library):
    M = library.array(REAL)
    A = from_function(lambda x: M @ x, dtype=library.real, like=M[0, ...])
    assert_products(A, REAL, library.real)
    assert type(A @ A.vectors.zeros((N,))) is type(M)


def test_a_torch_dtype_names_torch_without_like():
    A = from_function(lambda x: torch.asarray(REAL) @ x, dtype=torch.float64)
    assert_products(A, REAL, "float64")
    assert isinstance(A @ torch.ones(N, dtype=torch.float64), torch.Tensor)


def test_a_class_of_the_protocol_is_an_operator():
    d = np.arange(1.0, N + 1)
    there = Diagonal(torch.asarray(d), torch.float64, device=torch.device("cpu"))
    for A in (Diagonal(d, np.dtype("float64")), Diagonal(d, "float64"), Diagonal(d, np.float64), there):
        assert isinstance(A, sd.LinearOperator)
        assert_products(sd.as_operator(A), np.diag(d), "float64")
    assert sd.as_operator(there).device == torch.device("cpu")


def test_only_what_has_a_shape_a_dtype_and_products_satisfies_the_protocol():
    assert isinstance(REAL, sd.LinearOperator)
    assert isinstance(sp.csr_array(REAL), sd.LinearOperator)
    assert not isinstance(lambda x: x, sd.LinearOperator)
    assert not isinstance(3, sd.LinearOperator)


def test_an_operator_stays_itself_and_says_what_it_is():
    A = sd.as_operator(REAL)
    assert sd.as_operator(A) is A
    assert sd.as_operator(A, shape=N, dtype="float64") is A
    assert repr(A) == "DenseMatrix(n=6, dtype=float64, device=cpu)"


def test_a_matrix_is_converted_to_the_dtype_asked_for():
    for matrix in (REAL, sp.csr_array(REAL), torch.asarray(REAL)):
        assert_products(sd.as_operator(matrix, dtype="float32"), REAL, "float32")
        assert_products(sd.as_operator(matrix, dtype="complex128"), REAL, "complex128")


# -- fresh memory ------------------------------------------------------------------------------------------------------


def returns_transposed(x):
    return np.asfortranarray(2 * x)


def returns_read_only(x):
    y = 2 * x
    y.flags.writeable = False
    return y


def returns_broadcast(x):
    return np.broadcast_to(x.sum(axis=0), x.shape)


@pytest.mark.parametrize("matmul", [lambda x: x, lambda x: x[:], returns_transposed, returns_read_only])
@pytest.mark.parametrize("shape", [(N,), (N, 3)])
def test_products_may_be_overwritten_whatever_the_operator_returns(matmul, shape):
    A = Diagonal(np.ones(N), "float64")
    A.__class__ = type("Wrapped", (Diagonal,), {"__matmul__": lambda self, x: matmul(x)})
    x = np.ones(shape)
    y = sd.as_operator(A) @ x
    expected = matmul(x).copy()
    y *= 5.0
    np.testing.assert_array_equal(x, np.ones(shape))
    np.testing.assert_array_equal(y, 5 * expected)
    assert y.flags.c_contiguous


def test_a_broadcast_product_is_made_whole():
    y = from_function(returns_broadcast) @ np.ones(N)
    y[0] = 99.0
    np.testing.assert_array_equal(y[1:], np.full(N - 1, N))


def test_torch_views_and_inference_tensors_may_be_overwritten():
    x = torch.ones(N, dtype=torch.float64)

    def inferred(x):
        with torch.inference_mode():
            return 2 * x

    for matmul, size in [(lambda x: x, 1), (lambda x: x.view(-1), 1), (lambda x: x[0].expand(N), 1), (inferred, 2)]:
        y = from_function(matmul, dtype=torch.float64) @ x
        y[:] *= 5.0  # by way of a view, as chunks are written
        np.testing.assert_array_equal(y, np.full(N, 5.0 * size))
        np.testing.assert_array_equal(x, np.ones(N))


def test_an_identity_of_any_library_does_not_hand_out_its_argument(library):
    x = library.array(np.ones(N))
    A = from_function(lambda x: x, dtype=library.real, like=x)
    assert (A @ x) is not x
    assert sd.fast_lanczos(A).nodes[0] == pytest.approx(1.0)


def with_buffers(xp, number, n=60):
    """Return a diagonal operator that answers from `number` buffers in turn, and the same without buffers."""
    d = xp.asarray(np.linspace(-1, 1, n))
    buffers, calls = [xp.asarray(np.zeros(n)) for _ in range(number)], []

    def matmul(x):
        calls.append(1)
        return xp.multiply(d, x, out=buffers[len(calls) % number])

    return from_function(matmul, n, like=d), from_function(lambda x: d * x, n, like=d)


@pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
def test_an_operator_that_answers_from_its_own_buffer_is_copied(xp):
    reusing, fresh = with_buffers(xp, 1)
    found, expected = (sd.fast_lanczos(A, num_steps=20, num_probes=2) for A in (reusing, fresh))
    for j in range(2):
        np.testing.assert_array_equal(found.alphas[j], expected.alphas[j])
        np.testing.assert_array_equal(found.betas[j], expected.betas[j])


@pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize(("number", "check"), [(1, False), (2, False), (2, True), (3, True)])
def test_reused_memory_is_an_error_where_it_is_seen_too_late(xp, number, check):
    with pytest.raises(ReusedMemoryError, match=r"the memory of an earlier product that is still in use. Return a new"):
        sd.fast_lanczos(with_buffers(xp, number)[0], num_steps=20, check=check)


@pytest.mark.parametrize("is_symmetric", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_large_dense_blocks_are_multiplied_right_whatever_the_order(is_symmetric, dtype):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((1100, 1100)).astype(dtype)
    A = A + A.T
    A[3, 900] += 0 if is_symmetric else 1
    x = rng.standard_normal((1100, 3)).astype(dtype)
    found = sd.as_operator(A) @ x
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, A @ x, rtol=0, atol=1e-3 if dtype == "float32" else 1e-10)


class OwnBlocks(sla.LinearOperator):
    """A subclass of SciPy's operator with products of blocks."""

    def __init__(self):
        super().__init__(np.dtype("float64"), (N, N))

    def _matvec(self, x):
        return 2 * x

    def _matmat(self, X):
        return 2 * X


class NoBlocks(OwnBlocks):
    """One that refuses blocks without columns, as any error leads to columns."""

    def _matmat(self, X):
        raise RuntimeError("no blocks")


MATVEC = sla.LinearOperator((N, N), matvec=lambda x: 2 * x, dtype="float64")


@pytest.mark.parametrize(
    ("A", "blocks"),
    [
        (MATVEC, False),
        (sla.LinearOperator((N, N), matvec=lambda x: 2 * x, matmat=lambda X: 2 * X, dtype="float64"), True),
        (OwnBlocks(), True),
        (NoBlocks(), False),
        (sla.aslinearoperator(2 * np.eye(N)), True),
        (0.5 * MATVEC + 0.5 * MATVEC, False),
    ],
)
def test_scipy_operators_tell_by_their_behaviour_whether_they_multiply_blocks(A, blocks):
    operator = sd.as_operator(A)
    assert operator.has_block_products == blocks
    np.testing.assert_array_equal(operator @ np.ones((N, 3)), np.full((N, 3), 2.0))


def test_a_matrix_is_converted_once_along_a_call(monkeypatch):
    from specdens._operators import convert

    calls = []
    original = convert._convert
    monkeypatch.setattr(convert, "_convert", lambda *args: calls.append(args) or original(*args))
    sd.spectral_density(np.diag(np.linspace(-1, 1, 300)), rank=2, num_steps=20)
    sd.normalize(sp.csr_array(np.eye(4)))
    assert len(calls) == 2
