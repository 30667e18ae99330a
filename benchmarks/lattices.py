"""The matrices of the benchmarks, in CSR: rows in order, entries of a row sorted by column, 32-bit indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def square_lattice(m: int, dtype: Any = np.float64, *, diagonal: float = 0.0, hopping: float = -1.0) -> sp.csr_matrix:
    """Return nearest neighbours on m × m points with open ends.

    It is a `csr_matrix`, not a `csr_array`, as peers ask for that; products are the same.
    """
    chain = sp.diags_array([np.full(m - 1, hopping), np.full(m - 1, hopping)], offsets=[-1, 1])
    A = sp.kron(chain, sp.eye_array(m)) + sp.kron(sp.eye_array(m), chain)
    if diagonal:
        A = A + diagonal * sp.eye_array(m * m)
    A = sp.csr_matrix(A.tocsr().astype(dtype))
    A.sort_indices()
    return A


def laplacian_2d(m: int, dtype: Any = np.float64) -> sp.csr_matrix:
    """Return the 2-D Laplacian on m × m points, Dirichlet: 4 on the diagonal, −1 for every neighbour."""
    return square_lattice(m, dtype, diagonal=4.0)


def matrix_bytes(A: sp.csr_matrix) -> int:
    """Return what one pass over the matrix reads."""
    return int(A.data.nbytes + A.indices.nbytes + A.indptr.nbytes)
