"""Matrices from files, and whether a density makes sense for them."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from specdens._cli.matrix_market import read_matrix_market
from specdens._operators.sparse_format import check_indices
from specdens._storage.npz import ALWAYS_ALLOWED, EXPANSION, NpzReader, damage_of, open_npz, read_array_header
from specdens._storage.save_load import read_header
from specdens._vectors.memory import available_bytes

KINDS = ".mtx, .mtx.gz (Matrix Market), .npz (scipy.sparse.save_npz) or .npy (numpy.save)"

_BLOCK_ENTRIES = 2**22  # of a dense matrix, compared with their transposes at a time


def read_matrix(path: Path, *, max_bytes: float | None = None) -> Any:
    """Return the matrix in a file as a NumPy array or a SciPy sparse array, or say why it cannot be read.

    `max_bytes` is the memory that it may take; by default 20 times the size of the file, 256 MiB at least, and never
    more than is free.
    """
    if max_bytes is None:
        max_bytes = min(max(EXPANSION * path.stat().st_size, ALWAYS_ALLOWED), available_bytes())
    try:
        if path.name.endswith((".mtx", ".mtx.gz")):
            A = read_matrix_market(path, max_bytes)
            return A.tocsr() if is_sparse(A) else np.asarray(A)
        if path.suffix == ".npz":
            return _read_npz(path, max_bytes)
        if path.suffix == ".npy":
            return _read_npy(path)
    except (ValueError, OverflowError, EOFError, zlib.error, gzip.BadGzipFile, MemoryError) as error:
        raise ValueError(f"{path} cannot be read: {str(error).removeprefix(f'{path} ')}") from error
    raise ValueError(f"{path}: must be {KINDS}")


def _read_npy(path: Path) -> NDArray[Any]:
    with damage_of(str(path)):
        with open(path, "rb") as file:
            shape, _, dtype = read_array_header(file)
            if math.prod(shape) * dtype.itemsize != path.stat().st_size - file.tell():
                raise ValueError("it is shorter or longer than its header says")
        return np.asarray(np.load(path, allow_pickle=False))


def _read_npz(path: Path, max_bytes: float) -> Any:
    with open_npz(path, max_bytes=max_bytes) as file:
        names = sorted(file.names)
        if {"format", "shape"} <= file.names:
            return _read_sparse(file)
    if "metadata" in names:
        raise ValueError(f"it is a {read_header(path)['kind']}, a result of specdens; see specdens info")
    raise ValueError(f"it has no sparse matrix of scipy.sparse.save_npz, but the arrays {', '.join(names)}")


def _read_sparse(file: NpzReader) -> Any:
    """Return the matrix that scipy.sparse.save_npz wrote, with every index checked."""
    kind = file.read("format").item()
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    shape = tuple(int(length) for length in file.read("shape").ravel())
    if len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"a sparse matrix of shape {shape}")
    data = file.read("data")
    names = {"coo": ("row", "col"), "dia": ("offsets",)}.get(kind, ("indices", "indptr"))
    if kind not in ("csr", "csc", "bsr", "coo", "dia"):
        raise ValueError(f"a sparse matrix of format {kind!r} is not known")
    indices = tuple(file.read(name) for name in names)
    if any(not np.issubdtype(index.dtype, np.integer) for index in indices):
        raise ValueError("indices must be integers")
    parts = {"coo": (data, indices), "dia": (data, indices[0])}.get(kind, (data, *indices))
    try:
        A = getattr(scipy.sparse, f"{kind}_array")(parts, shape=shape)
        check_indices(A)
        return A
    except (TypeError, IndexError) as error:
        raise ValueError(f"its arrays make no sparse matrix: {error}") from None


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
