"""What `as_operator` refuses, and what an operator's products are refused for: in words that name the remedy."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from optional import optional

import specdens as sd
from specdens._operators.function import Products
from specdens._vectors.factory import vectors_like

torch = optional("torch")

N = 4
EYE = np.eye(N)


def from_function(f, dtype="float64", **kwargs):
    return sd.as_operator(f, shape=N, dtype=dtype, **kwargs)


# -- operands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, torch.asarray, sla.aslinearoperator, strict.asarray])
def test_a_matrix_must_be_square(make):
    with pytest.raises(ValueError, match=r"`A` must be square; got shape \(2, 3\)"):
        sd.as_operator(make(np.ones((2, 3))))


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), ()])
def test_a_matrix_must_have_two_dimensions(shape):
    with pytest.raises(ValueError, match="`A` must be square; got shape"):
        sd.as_operator(np.ones(shape))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, torch.asarray])
def test_a_matrix_must_not_be_empty(make):
    with pytest.raises(ValueError, match=r"`A` must not be empty; got shape \(0, 0\)"):
        sd.as_operator(make(np.ones((0, 0))))


@pytest.mark.parametrize("A", [EYE, sp.csr_array(EYE), sla.aslinearoperator(EYE), sd.as_operator(EYE)])
def test_a_given_shape_must_be_that_of_the_matrix(A):
    with pytest.raises(ValueError, match=r"`shape` must be that of A, \(4, 4\); got \(5, 5\)"):
        sd.as_operator(A, shape=5)


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((2, 3), ValueError, r"`A` must be square; got shape \(2, 3\)"),
        (0, ValueError, "`shape` must be at least 1; got 0"),
        (-1, ValueError, "`shape` must be at least 1; got -1"),
        (2.5, TypeError, "`shape` must be an integer; got 2.5"),
        ((3, "a"), TypeError, "`shape` must be an integer; got 'a'"),
    ],
)
def test_the_shape_of_a_function_must_be_square_and_whole(shape, error, message):
    with pytest.raises(error, match=message):
        sd.as_operator(lambda x: x, shape=shape, dtype="float64")


@pytest.mark.parametrize("given", [{}, {"shape": 3}, {"dtype": "float64"}])
def test_a_function_needs_a_shape_and_a_dtype(given):
    with pytest.raises(TypeError, match=r"`shape` and `dtype` must be given with a function, for instance shape=\(n"):
        sd.as_operator(lambda x: x, **given)


@pytest.mark.parametrize("A", [None, 3, b"matrix", {"a": 1}])
def test_what_cannot_multiply_is_refused_by_its_type(A):
    with pytest.raises(TypeError, match=f"or an object with .shape, .dtype and @; got {type(A).__name__}"):
        sd.as_operator(A)


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble, object, "U3", "datetime64[s]"])
def test_dtypes_without_vectors_are_refused_with_the_remedy(dtype):
    message = "`dtype` must be one of float32, float64, complex64, complex128; got .*. Convert the operator first."
    with pytest.raises(TypeError, match=message):
        sd.as_operator(np.zeros((N, N)).astype(dtype))
    with pytest.raises(TypeError, match=message):
        from_function(lambda x: x, dtype=dtype)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "make",
    [
        np.asarray,
        sp.csr_array,
        sp.dok_array,
        torch.asarray,
        strict.asarray,
        lambda A: torch.asarray(A).to_sparse(),
        lambda A: torch.asarray(A).to_sparse_csr(),
    ],
)
def test_integers_that_float64_cannot_hold_are_refused(make, sign):
    with pytest.raises(ValueError, match=r"integers beyond ±2\*\*53 \(from .*\), which float64 cannot hold. Scale A"):
        sd.as_operator(make(np.diag([1, sign * (2**53 + 1)])))
    largest = sd.as_operator(make(np.diag([1, sign * 2**53])))
    assert float((largest @ largest.vectors.from_host(np.ones(2)))[1]) == sign * 2**53


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, torch.asarray, sla.aslinearoperator, strict.asarray])
def test_a_complex_matrix_is_not_cast_to_real(make):
    with pytest.raises(TypeError, match="`dtype` must be complex for a complex matrix; got float64"):
        sd.as_operator(make(EYE * 1j), dtype="float64")


def test_a_scipy_operator_that_is_complex_after_all_is_refused():
    A = sd.as_operator(sla.LinearOperator((N, N), matvec=lambda x: 1j * x, dtype="float64"))
    with pytest.raises(TypeError, match="`dtype` must be complex for a complex matrix; got float64"):
        A @ np.ones(N)


def test_an_operator_is_not_converted_to_another_dtype():
    with pytest.raises(ValueError, match=r"`dtype` must be that of the operator, float64; got float32. Make the opera"):
        sd.as_operator(sd.as_operator(EYE), dtype="float32")


def test_like_must_be_an_array():
    with pytest.raises(TypeError, match="`like` must be an array; got str"):
        from_function(lambda x: x, like="torch")


# -- products --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [np.ones(3), np.ones((3, 4)), np.ones((4, 1, 1)), np.float64(1.0)])
def test_a_vector_must_fit_the_operator(x):
    with pytest.raises(ValueError, match=r"`x` must have shape \(4,\) or \(4, k\); got \("):
        sd.as_operator(EYE) @ x


def test_a_list_is_not_a_vector():
    with pytest.raises(ValueError, match=r"`x` must have shape \(4,\) or \(4, k\); got <class 'list'>"):
        sd.as_operator(EYE) @ [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("matmul", "error", "message"),
    [
        (lambda x: x[:-1], ValueError, r"A @ x must have the shape of x, \(4,\); got \(3,\)"),
        (lambda x: x[:, None], ValueError, r"A @ x must have the shape of x, \(4,\); got \(4, 1\)"),
        (lambda x: x.astype("float32"), TypeError, "must have the operator's dtype float64; got float32. Declare the"),
        (lambda x: 1j * x, TypeError, "A @ x must have the operator's dtype float64; got complex128"),
        (torch.asarray, TypeError, r"must return an array of .*numpy, as x is; got torch.Tensor. Name .* with `like=`"),
        (lambda x: x.tolist(), TypeError, "A @ x must return an array of .*numpy, as x is; got builtins.list"),
        (lambda x: None, TypeError, "A @ x must return an array of .*numpy, as x is; got builtins.NoneType"),
    ],
    ids=["short", "column", "float32", "complex", "torch", "list", "nothing"],
)
@pytest.mark.parametrize("shape", [(N,), (N, 2)])
def test_a_product_must_be_as_its_argument(matmul, error, message, shape):
    with pytest.raises(error, match=message):
        from_function(matmul) @ np.ones(shape)


def test_a_product_must_stay_on_the_device():
    A = from_function(lambda x: x.to("meta"), dtype=torch.float64)
    with pytest.raises(ValueError, match="A @ x must stay on the operator's device cpu; got meta"):
        A @ torch.ones(N, dtype=torch.float64)


def test_a_product_with_a_block_must_be_a_block():
    A = Products(N, vectors_like(np.ones(1)), lambda x: x[:, 0] if x.ndim == 2 else x, blocks=True)
    with pytest.raises(ValueError, match=r"A @ x must have the shape of x, \(4, 2\); got \(4,\)"):
        A @ np.ones((N, 2))
