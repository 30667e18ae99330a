"""The matrices of the benchmarks, in CSR: rows in order, entries of a row sorted by column, 32-bit indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def square_lattice(m: int, dtype: Any = np.float64, *, diagonal: float = 0.0, hopping: float = -1.0) -> sp.csr_matrix:
    """Return nearest neighbours on m × m points with open ends.

    It is a `csr_matrix`, not a `csr_array`, as peers ask for that; products are the same.
    """
    n = m * m
    within = np.full(n - 1, hopping, dtype)
    within[m - 1 :: m] = 0  # the end of a row of points; zeros are not stored
    across = np.full(n - m, hopping, dtype)
    diagonals = {-m: across, -1: within, 1: within, m: across}
    if diagonal:
        diagonals[0] = np.full(n, diagonal, dtype)
    A = sp.csr_matrix(sp.diags_array(list(diagonals.values()), offsets=list(diagonals), shape=(n, n)).tocsr())
    A.sort_indices()
    return A


def laplacian_2d(m: int, dtype: Any = np.float64) -> sp.csr_matrix:
    """Return the 2-D Laplacian on m × m points, Dirichlet: 4 on the diagonal, −1 for every neighbour."""
    return square_lattice(m, dtype, diagonal=4.0)


def matrix_bytes(A: sp.csr_matrix) -> int:
    """Return what one pass over the matrix reads."""
    return int(A.data.nbytes + A.indices.nbytes + A.indptr.nbytes)
