"""Matrices from files, and whether a density makes sense for them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse
from numpy.typing import NDArray

from specdens._files import read_header

KINDS = ".mtx, .mtx.gz (Matrix Market), .npz (scipy.sparse.save_npz) or .npy (numpy.save)"

_BLOCK_ENTRIES = 2**22  # of a dense matrix, compared with their transposes at a time


def read_matrix(path: Path) -> Any:
    """Return the matrix in a file as a NumPy array or a SciPy sparse array, or say why it cannot be read."""
    try:
        if path.name.endswith((".mtx", ".mtx.gz")):
            A: Any = scipy.io.mmread(path, spmatrix=False)
            return A.tocsr() if is_sparse(A) else np.asarray(A)
        if path.suffix == ".npz":
            return _read_npz(path)
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
    except (ValueError, OverflowError, EOFError, zipfile.BadZipFile) as error:
        what = "holds pickled objects" if "allow_pickle" in str(error) else error
        raise ValueError(f"{path} cannot be read: {what}") from error
    raise ValueError(f"{path}: must be {KINDS}")


def _read_npz(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as content:
        names = list(content.files)
    if "format" in names and "shape" in names:
        return scipy.sparse.load_npz(path)
    if "metadata" in names:
        raise ValueError(f"it is a {read_header(path)['kind']}, a result of specdens; see specdens info")
    raise ValueError(f"it has no sparse matrix of scipy.sparse.save_npz, but the arrays {', '.join(names)}")


def check_matrix(path: Path, A: Any) -> None:
    """Refuse a matrix that is not square, not finite or not symmetric (Hermitian), with the largest difference."""
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"{path}: the matrix must be square; got shape {' × '.join(map(str, A.shape))}")
    if A.shape[0] == 0:
        raise ValueError(f"{path}: the matrix must not be empty")
    if not np.issubdtype(A.dtype, np.number) and A.dtype != np.bool_:
        raise ValueError(f"{path}: the matrix must be of numbers; got dtype {A.dtype}")
    entries = A.data if is_sparse(A) else A
    if not np.all(np.isfinite(entries)):
        raise ValueError(f"{path}: the matrix must be finite; it has {np.sum(~np.isfinite(entries))} nan or inf")
    largest, i, j = _asymmetry(A)
    # half the digits, as in the recurrence of `fast_lanczos`
    precision = np.finfo(A.dtype).eps if np.issubdtype(A.dtype, np.inexact) else np.finfo(np.float64).eps
    if largest > np.sqrt(precision) * float(np.max(np.abs(entries), initial=0.0)):
        symmetric, transpose = ("Hermitian", "Aᴴ") if np.iscomplexobj(A) else ("symmetric", "Aᵀ")
        raise ValueError(
            f"{path}: the matrix must be {symmetric}; the largest entry of |A − {transpose}| is {largest:.6g}: "
            f"A[{i}, {j}] = {_entry(A, i, j):.6g} but A[{j}, {i}] = {_entry(A, j, i):.6g}"
        )


def _asymmetry(A: Any) -> tuple[float, int, int]:
    """Return the largest entry of |A − Aᴴ| with its row and column, counted from 0."""
    if is_sparse(A):
        A = _inexact(A.tocsr())
        difference = abs(A - A.conj().T).tocoo()
        if not difference.nnz:
            return 0.0, 0, 0
        k = int(np.argmax(difference.data))
        return float(difference.data[k]), int(difference.row[k]), int(difference.col[k])
    n = A.shape[0]
    found, rows = (0.0, 0, 0), max(1, _BLOCK_ENTRIES // n)
    for start in range(0, n, rows):
        # what lies left of the block has been compared before, from the other side
        block = _inexact(A[start : start + rows, start:])
        difference = np.abs(block - _inexact(A[start:, start : start + rows]).conj().T)
        i, j = np.unravel_index(int(np.argmax(difference)), difference.shape)
        found = max(found, (float(difference[i, j]), start + int(i), start + int(j)))
    return found


def is_sparse(A: Any) -> bool:
    """Return whether a matrix is one of SciPy's sparse ones."""
    return bool(scipy.sparse.issparse(A))


def _inexact(A: Any) -> Any:
    """Return integers and booleans as numbers that can be subtracted."""
    return A if np.issubdtype(A.dtype, np.inexact) else A.astype(np.float64)


def _entry(A: Any, i: int, j: int) -> complex:
    value: NDArray[Any] = _inexact(np.asarray((A.tocsr() if is_sparse(A) else A)[i, j]))
    return complex(value) if np.iscomplexobj(value) else float(value)
