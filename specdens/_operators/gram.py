"""The Gram matrix of rectangular data: covariances and singular values without forming them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat as aac
import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from specdens._distributions.atoms import Atoms
from specdens._distributions.interval import Interval
from specdens._operators.base import Operator
from specdens._operators.given_arrays import check_finite, plain_array
from specdens._typing import Array
from specdens._validate import as_positive
from specdens._vectors.base import Vectors
from specdens._vectors.factory import vectors_like


class Gram(Operator):
    """The n × n matrix XᴴX / divisor of data X with m rows and n columns, on vectors of length min(m, n).

    Made by `gram`. Where there are fewer rows than columns it acts on the rows, and the n − m zeros are an atom.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> X = np.random.default_rng(0).standard_normal((50, 400))  # 50 samples of 400 features
    >>> covariance = sd.gram(X, divisor=50)
    >>> covariance.known_atoms.masses.round(12).tolist()  # 350 of 400 eigenvalues are zero
    [0.875]
    """

    def __init__(
        self,
        shape: tuple[int, int],
        vectors: Vectors,
        forward: Callable[[Array], Array],
        adjoint: Callable[[Array], Array],
        divisor: float,
    ) -> None:
        super().__init__(min(shape), vectors)
        self._data_shape = shape
        self._forward, self._adjoint, self._divisor = forward, adjoint, divisor

    @property
    def dimension(self) -> int:
        """The number of columns of the data: the number of eigenvalues, zeros included."""
        return self._data_shape[1]

    @property
    def known_atoms(self) -> Atoms:
        """The zeros that data with fewer rows than columns have."""
        m, n = self._data_shape
        return Atoms(np.zeros(1), np.array([(n - m) / n])) if m < n else Atoms.none()

    @property
    def known_bounds(self) -> Interval:
        """From 0 on: a Gram matrix is positive semi-definite."""
        return Interval(0.0, np.inf)

    def apply(self, x: Array) -> Array:
        m, n = self._data_shape
        y = self._forward(self._adjoint(x)) if m < n else self._adjoint(self._forward(x))
        return y / self._divisor


def gram(X: Any, *, center: bool = False, divisor: float | None = None) -> Gram:
    """Return the Gram matrix XᴴX of rectangular data as an operator.

    Its eigenvalues are the squared singular values of X; with ``center=True`` and ``divisor=m - 1`` it is the sample
    covariance of m rows. X is used through products alone and may be sparse or matrix-free.

    Parameters
    ----------
    X : array, sparse array or LinearOperator of shape (m, n)
        The data, one row per sample: a NumPy, torch, JAX or CuPy array, a table with ``to_numpy`` (pandas, polars), a
        SciPy sparse array, or a SciPy ``LinearOperator`` with products from both sides.
    center : bool, default False
        Whether to subtract the mean of every column, without changing X.
    divisor : float, optional
        What to divide by, for instance m; by default 1.

    Returns
    -------
    Gram
        An operator with n eigenvalues. With m < n it acts on vectors of length m, and n − m zeros are an exact atom.

    Raises
    ------
    TypeError
        If X is none of these.
    ValueError
        If X is not two-dimensional or has entries that are not finite, or `divisor` is not positive.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> X = np.random.default_rng(0).standard_normal((200, 500))
    >>> measure = sd.fast_lanczos(sd.gram(X, divisor=200), num_steps=60)
    >>> measure.count(0, 1e-9).value  # rank deficiency: 500 − 200
    300.0
    """
    X = plain_array("X", X)
    shape = tuple(getattr(X, "shape", ()))
    if len(shape) != 2 or min(shape) == 0:
        raise ValueError(f"`X` must be data of shape (m, n); got shape {shape}")
    divisor = 1.0 if divisor is None else as_positive("divisor", divisor)
    vectors, forward, adjoint = _products(X)
    if center:
        forward, adjoint = _centered(forward, adjoint, vectors)
    return Gram((int(shape[0]), int(shape[1])), vectors, forward, adjoint, divisor)


def _products(X: Any) -> tuple[Vectors, Callable[[Array], Array], Callable[[Array], Array]]:
    """Return the vectors of the data's library and products with X and with its adjoint."""
    if isinstance(X, scipy.sparse.linalg.LinearOperator):
        return vectors_like(np.empty(0, dtype=_inexact(X.dtype))), lambda x: X @ x, lambda y: X.H @ y
    if scipy.sparse.issparse(X):
        matrix: Any = X
        check_finite("X", matrix.data)
        matrix = matrix.astype(_inexact(matrix.dtype)).tocsr()
        adjoint = matrix.conj().T.tocsr()
        return vectors_like(np.empty(0, dtype=matrix.dtype)), lambda x: matrix @ x, lambda y: adjoint @ y
    if not aac.is_array_api_obj(X):
        raise TypeError(f"`X` must be an array, a sparse array or a SciPy LinearOperator; got {type(X).__name__}")
    if aac.is_numpy_array(X):
        check_finite("X", X)
        X = X.astype(_inexact(X.dtype), copy=False)
    if aac.is_torch_array(X):
        X = X.detach()
    xp = aac.array_namespace(X)
    transposed = xp.conj(X).T if xp.isdtype(X.dtype, "complex floating") else X.T
    like = xp.empty((0,), dtype=X.dtype, device=aac.device(X))
    return vectors_like(like), lambda x: X @ x, lambda y: transposed @ y


def _inexact(dtype: Any) -> Any:
    return dtype if np.issubdtype(dtype, np.inexact) else np.dtype(np.float64)


def _centered(
    forward: Callable[[Array], Array], adjoint: Callable[[Array], Array], vectors: Vectors
) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return products with X − 1μᵀ and its adjoint, where μ are the means of the columns."""
    xp = vectors.xp

    def remove_mean(y: Array) -> Array:
        """Return (I − 11ᵀ/m) y: a projection in the space of the rows, which is its own adjoint."""
        return y - (xp.mean(y, axis=0) if y.ndim == 1 else xp.mean(y, axis=0)[None, :])

    return lambda x: remove_mean(forward(x)), lambda y: adjoint(remove_mean(y))
