"""Moments of a spectrum that the entries of a matrix give in one pass: tr A / n and ‖A‖²_F / n."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._operators.base import Operator
from specdens._operators.csr import SparseMatrix
from specdens._operators.dense import DenseMatrix

_ROWS = 2**22  # entries of a dense matrix that are squared at a time


def entry_moments(A: Operator) -> tuple[float, float] | None:
    """Return the exact means of λ and λ² over the spectrum of an explicit matrix; None for other operators.

    Examples
    --------
    >>> from specdens import as_operator
    >>> entry_moments(as_operator(np.diag([1.0, 3.0])))
    (2.0, 5.0)
    """
    n = A.shape[0]
    if isinstance(A, SparseMatrix):
        diagonal, squares = A.A.diagonal(), _sum_of_squares(A.A.data)
    elif isinstance(A, DenseMatrix):
        step = max(1, _ROWS // n)
        diagonal = np.diagonal(A.A)
        squares = sum(_sum_of_squares(A.A[start : start + step]) for start in range(0, n, step))
    else:
        return None
    return float(np.sum(diagonal.real, dtype=np.float64)) / n, squares / n


def _sum_of_squares(entries: NDArray[Any]) -> float:
    return float(np.sum(np.square(np.abs(entries), dtype=np.float64)))
