"""All eigenvalues of operators that are small enough: an exact measure."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from specdens._measure.lanczos import SpectralMeasure
from specdens._operators.base import Operator
from specdens._operators.csr import SparseMatrix
from specdens._operators.dense import DenseMatrix

LARGEST_MATRIX = 1024
"""Rows of an explicit matrix whose eigenvalues take less time than a person notices."""

_BLOCK = 64  # columns of the identity that are multiplied at a time


def is_explicit(A: Operator) -> bool:
    """Return whether the entries of an operator are at hand."""
    return isinstance(A, DenseMatrix | SparseMatrix)


def exact_measure(A: Operator) -> SpectralMeasure | None:
    """Return the measure of all eigenvalues of an operator; None if it is not Hermitian to working precision.

    Explicit matrices cost no product. Of others every column is computed: as many products as there are rows.

    Parameters
    ----------
    A
        An operator without known atoms.
    """
    started = time.perf_counter()
    matrix, num_products = _entries(A)
    size = float(np.max(np.abs(matrix), initial=0.0))
    # what is not Hermitian or not finite is refused by a run of Lanczos, in words
    if not np.isfinite(size) or np.max(np.abs(matrix - matrix.conj().T), initial=0.0) > A.vectors.eps**0.5 * size:
        return None
    values = scipy.linalg.eigvalsh(matrix, check_finite=False)
    return replace(
        SpectralMeasure.from_eigenvalues(values),  # in float64, whatever the vectors of A are
        num_products=num_products,
        seconds=time.perf_counter() - started,
    )


def _entries(A: Operator) -> tuple[NDArray[Any], int]:
    """Return the matrix of an operator in double precision, and how many products it took."""
    wide = np.complex128 if A.vectors.is_complex else np.float64
    if isinstance(A, DenseMatrix):
        return A.A.astype(wide), 0
    if isinstance(A, SparseMatrix):
        return A.A.toarray().astype(wide), 0
    n = A.shape[0]
    identity = np.eye(n)
    width = _BLOCK if A.has_block_products else 1
    blocks = [identity[:, j : j + width] for j in range(0, n, width)]
    columns = [
        A.vectors.to_host(A @ A.vectors.from_host(np.ascontiguousarray(block if width > 1 else block[:, 0])))
        for block in blocks
    ]
    return np.concatenate([column.reshape(n, -1) for column in columns], axis=1).astype(wide), n
