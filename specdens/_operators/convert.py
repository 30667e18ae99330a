"""Conversion of matrices, functions and objects to `Operator`: one function per kind of operand."""

from __future__ import annotations

import importlib
import operator
from functools import partial
from typing import Any

import array_api_compat as aac
import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from specdens._operators.base import Operator
from specdens._operators.csr import SparseMatrix
from specdens._operators.dense import DenseMatrix
from specdens._operators.function import Products
from specdens._operators.given_arrays import check_finite, plain_array
from specdens._operators.graph import is_graph
from specdens._operators.sparse_format import check_indices
from specdens._typing import Array, LinearOperator, OperatorLike
from specdens._validate import as_count
from specdens._vectors.base import Vectors, dtype_name
from specdens._vectors.factory import vectors_like, vectors_of

_DTYPES = ("float32", "float64", "complex64", "complex128")
_LARGEST_EXACT_INTEGER = 2**53


def as_operator(A: OperatorLike, *, shape: Any = None, dtype: Any = None, like: Array | None = None) -> Operator:
    """Return A as an operator that every estimator of specdens runs on.

    An `Operator` is returned as it is, so that functions may convert what they are given without cost.

    Parameters
    ----------
    A : OperatorLike
        A NumPy array, nested lists or a table with ``to_numpy`` (pandas, polars), a SciPy sparse array or matrix of any
        format, a SciPy ``LinearOperator``, a torch tensor (dense or sparse), a JAX array, a function
        ``x -> A @ x`` of vectors (n,) together with `shape` and `dtype`, or any object that satisfies `LinearOperator`.
    shape : int or (int, int), optional
        (n, n) or n. Needed for a function; otherwise checked against A's.
    dtype : dtype, optional
        float32, float64, complex64 or complex128. Needed for a function; a matrix is converted to it. By default
        integers and booleans become float64 and half precision becomes float32.
    like : array, optional
        An array whose library and device the vectors shall have, where A does not tell.

    Returns
    -------
    Operator
        The operator, whose products are checked.

    Raises
    ------
    TypeError
        If A is no operator, if a function comes without `shape` and `dtype`, or if a dtype cannot be used.
    ValueError
        If A is empty or not square, if a NumPy or SciPy matrix has entries that are not finite, or if `shape` or
        `dtype` disagree with it.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> sd.as_operator(np.eye(3)) @ np.ones(3)
    array([1., 1., 1.])
    >>> sd.as_operator(lambda x: 2 * x, shape=3, dtype="float64")
    Products(n=3, dtype=float64, device=cpu)
    """
    if isinstance(A, Operator) and shape is None and dtype is None:
        return A
    return _convert(A, shape, dtype, like)


def _convert(A: Any, shape: Any, dtype: Any, like: Array | None) -> Operator:
    if isinstance(A, Operator):
        _check_shape(A.shape, shape)
        if dtype is not None and dtype_name(dtype) != A.vectors.name:
            raise ValueError(
                f"`dtype` must be that of the operator, {A.vectors.name}; got {dtype_name(dtype)}. "
                "Make the operator from a matrix or function of that dtype."
            )
        return A
    A = plain_array("A", A)
    if scipy.sparse.issparse(A):
        return _from_scipy_sparse(A, shape, dtype)
    if isinstance(A, scipy.sparse.linalg.LinearOperator):
        return _from_scipy_operator(A, shape, dtype)
    if aac.is_array_api_obj(A):
        return _from_array(A, shape, dtype)
    if is_graph(A):
        raise TypeError(
            f"`A` must be a matrix or an operator; got a graph ({type(A).__module__.split('.')[0]}). Its Laplacian is "
            "sd.graph_laplacian(G); its adjacency matrix is networkx.to_scipy_sparse_array(G, dtype=float), or "
            "G.get_adjacency_sparse() in igraph."
        )
    if isinstance(A, LinearOperator):
        n = _check_shape(A.shape, shape)
        return Products(
            n, _vectors_for(A, A.dtype if dtype is None else dtype, like), partial(operator.matmul, A), blocks=True
        )
    if callable(A):
        if shape is None or dtype is None:
            raise TypeError(
                "`shape` and `dtype` must be given with a function, for instance shape=(n, n), dtype='float64'"
            )
        return Products(_check_shape(_as_shape(shape), None), _vectors_for(A, dtype, like), A, blocks=False)
    raise TypeError(
        f"`A` must be an array, a sparse matrix, a function with `shape` and `dtype`, or an object with .shape, .dtype "
        f"and @; got {type(A).__name__}"
    )


# -- one function per kind of operand --------------------------------------------------------------------------


def _from_array(A: Array, shape: Any, dtype: Any) -> Operator:
    n = _check_shape(A.shape, shape)
    xp = aac.array_namespace(A)
    if aac.is_torch_array(A):
        A = A.detach()
    name = _vector_dtype(A.dtype if dtype is None else dtype)
    if aac.is_numpy_array(A):
        check_finite("A", A)
    if not xp.isdtype(A.dtype, ("real floating", "complex floating", "bool")):
        entries = _stored_entries(A)
        if aac.size(entries):
            _check_integers(int(xp.max(entries)), int(xp.min(entries)))
    _check_complex_to_real(A.dtype, name)
    A = xp.astype(A, getattr(xp, name), copy=False)
    if aac.is_numpy_array(A):
        return DenseMatrix(A)
    return Products(n, vectors_of(A, A.dtype), partial(operator.matmul, A), blocks=True, is_matrix=True)


def _stored_entries(A: Array) -> Array:
    """Return A itself, or the values of a sparse torch tensor of any layout."""
    if not aac.is_torch_array(A) or str(A.layout) == "torch.strided":
        return A
    return A.coalesce().values() if A.is_sparse else A.values()


def _from_scipy_sparse(A: Any, shape: Any, dtype: Any) -> Operator:
    n = _check_shape(A.shape, shape)
    try:
        check_indices(A)
    except ValueError as error:
        raise ValueError(f"`A` must be a valid sparse matrix: {error}") from None
    name = _vector_dtype(A.dtype if dtype is None else dtype)
    _check_complex_to_real(A.dtype, name)
    if A.format not in ("csr", "bsr", "dia"):  # the other formats multiply slowly, or by way of one of these
        A = A.tocsr()
    check_finite("A", A.data)
    if np.issubdtype(A.dtype, np.integer) and A.data.size:
        _check_integers(int(A.data.max()), int(A.data.min()))
    A = A.astype(name, copy=False)
    if A.format == "csr":
        return SparseMatrix(A)
    matmul = partial(operator.matmul, A)
    return Products(n, vectors_like(np.empty(0, dtype=name)), matmul, blocks=True, is_matrix=True)


def _from_scipy_operator(A: Any, shape: Any, dtype: Any) -> Operator:
    n = _check_shape(A.shape, shape)
    if dtype is None:
        # SciPy leaves the dtype open for some subclasses; the product with a zero vector tells it.
        dtype = A.dtype if A.dtype is not None else A.matvec(np.zeros(n)).dtype
    name = _vector_dtype(dtype)
    if A.dtype is not None:
        _check_complex_to_real(A.dtype, name)
    matmul = partial(_scipy_product, A, name)
    return Products(n, vectors_like(np.empty(0, dtype=name)), matmul, blocks=_multiplies_blocks(A))


def _scipy_product(A: Any, name: str, x: Array) -> Array:
    # SciPy's dtype is what the operator was seen to return, or int8 by default; vectors are float
    y = np.asarray(A.matvec(x) if x.ndim == 1 else A.matmat(x))
    _check_complex_to_real(y.dtype, name)
    return y.astype(name, copy=False)


def _multiplies_blocks(A: Any) -> bool:
    """Return whether a SciPy operator multiplies blocks by other means than column after column.

    A block without columns tells: SciPy's loop over columns raises, as it has nothing to put together, and a product
    with blocks has nothing to compute.
    """
    try:
        return bool(A.matmat(np.empty((A.shape[1], 0))).shape == (A.shape[0], 0))
    except Exception:  # a user's function may raise anything; columns are always right
        return False


def _vectors_for(A: Any, dtype: Any, like: Array | None) -> Vectors:
    """Return the vectors of an operator that is not an array: from `like`, from A's own dtype, else NumPy's."""
    name = _vector_dtype(dtype)
    module = type(dtype).__module__.split(".")[0]
    if like is not None:
        if not aac.is_array_api_obj(like):
            raise TypeError(f"`like` must be an array; got {type(like).__name__}")
        return vectors_of(like, getattr(aac.array_namespace(like), name))
    if module == "torch":
        xp, device = importlib.import_module("array_api_compat.torch"), getattr(A, "device", None)
    elif type(A).__module__.split(".")[0] == "jax":
        xp, device = importlib.import_module("jax.numpy"), None
    else:
        xp, device = importlib.import_module("array_api_compat.numpy"), None
    return vectors_like(xp.empty((0,), dtype=getattr(xp, name), device=device))


# -- checks ------------------------------------------------------------------------------------------------------


def _as_shape(shape: Any) -> tuple[int, ...]:
    return (as_count("shape", shape),) * 2 if np.ndim(shape) == 0 else tuple(as_count("shape", n) for n in shape)


def _check_shape(shape: Any, wanted: Any) -> int:
    shape = tuple(shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"`A` must be square; got shape {shape}. For rectangular data see sd.gram.")
    if shape[0] == 0:
        raise ValueError("`A` must not be empty; got shape (0, 0)")
    if wanted is not None and shape != _as_shape(wanted):
        raise ValueError(f"`shape` must be that of A, {shape}; got {_as_shape(wanted)}")
    return int(shape[0])


def _vector_dtype(dtype: Any) -> str:
    """Return the dtype of the vectors for a matrix of the given dtype: float32 at least, float64 for integers."""
    name = dtype_name(dtype)
    if name in _DTYPES:
        return name
    if name in ("float16", "bfloat16"):
        return "float32"
    if name.startswith(("int", "uint", "bool")):
        return "float64"
    raise TypeError(f"`dtype` must be one of {', '.join(_DTYPES)}; got {name}. Convert the operator first.")


def _check_integers(largest: int, smallest: int) -> None:
    if max(largest, -smallest) > _LARGEST_EXACT_INTEGER:
        raise ValueError(
            f"`A` has integers beyond ±2**53 (from {smallest} to {largest}), which float64 cannot hold. Scale A first."
        )


def _check_complex_to_real(have: Any, want: str) -> None:
    if dtype_name(have).startswith("complex") and not want.startswith("complex"):
        raise TypeError(f"`dtype` must be complex for a complex matrix; got {want}")
