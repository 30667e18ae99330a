"""Operators whose rows, and those of all vectors, are distributed over processes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import array_api_compat as aac
import numpy as np

from specdens._operators.function import Products
from specdens._typing import Array
from specdens._validate import as_count
from specdens._vectors.base import dtype_name
from specdens._vectors.distributed import DistributedVectors
from specdens._vectors.factory import vectors_like

_DTYPES = ("float32", "float64", "complex64", "complex128")


class RowDistributed(Products):
    """An operator of which every process holds some consecutive rows, and the same rows of all vectors.

    All processes make the same calls. `shape` is that of the local rows, `dimension` the number of all rows. No vector
    is ever gathered: every inner product is followed by a sum of a few numbers over the processes, and every process
    draws its own rows of a probe, the same as in one process. All algorithms run on it except `subspace_iteration`;
    results are the same on every process, and those of one process to rounding.

    Parameters
    ----------
    product : callable
        From the local rows of x, of shape (num_rows,), to those of A x. What it needs of other rows it communicates
        itself.
    rows : range
        The rows of this process, ``range(start, stop)``; not empty.
    dimension : int
        The number of rows in all.
    reduce : callable
        From a small array to its sum over all processes, which must be the same on each of them, such as
        ``comm.allreduce`` of mpi4py.
    dtype : dtype
        float32, float64, complex64 or complex128.
    like : array, optional
        An array whose library (not JAX) and device the vectors shall have; NumPy by default.
    blocks : bool
        Whether `product` also takes blocks of shape (num_rows, k).

    Raises
    ------
    ValueError
        If the rows of all processes are not those from 0 to `dimension`, once each; on all processes.

    Examples
    --------
    With mpi4py, run by ``mpirun -n 4 python script.py``::

        comm = MPI.COMM_WORLD
        rows = range(n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size)
        local = matrix[rows.start : rows.stop]
        A = sd.RowDistributed(
            lambda x: local @ np.concatenate(comm.allgather(x)), rows=rows, dimension=n, reduce=comm.allreduce
        )
        density = sd.spectral_density(A)

    One process alone:

    >>> import numpy as np, specdens as sd
    >>> A = sd.RowDistributed(lambda x: 2 * x, rows=range(5), dimension=5, reduce=lambda x: x)
    >>> sd.fast_lanczos(A).nodes[0]
    array([2.])
    """

    def __init__(
        self,
        product: Callable[[Array], Array],
        *,
        rows: range,
        dimension: int,
        reduce: Callable[[Array], Array],
        dtype: Any = "float64",
        like: Array | None = None,
        blocks: bool = False,
    ) -> None:
        if not isinstance(rows, range) or rows.step != 1:
            raise TypeError(f"`rows` must be range(start, stop), the rows of this process; got {rows!r}")
        if not callable(product) or not callable(reduce):
            raise TypeError("`product` and `reduce` must be functions")
        length = as_count("dimension", dimension)
        name = dtype_name(dtype)
        if name not in _DTYPES:
            raise TypeError(f"`dtype` must be one of {', '.join(_DTYPES)}; got {name}")
        if like is not None and aac.is_jax_array(like):
            raise TypeError("`like` must not be a JAX array: shard the array itself with jax.sharding")
        xp: Any = importlib.import_module("array_api_compat.numpy") if like is None else aac.array_namespace(like)
        device = None if like is None else aac.device(like)
        local = vectors_like(xp.empty((0,), dtype=getattr(xp, name), device=device))
        vectors = DistributedVectors(local, reduce, rows=[rows], length=length, is_first=rows.start == 0)
        _check_rows(vectors, rows, length)
        super().__init__(len(rows), vectors, product, blocks=blocks)

    def __repr__(self) -> str:
        return f"RowDistributed(n={self.shape[0]} of {self.dimension}, dtype={self.vectors.name}, device={self.device})"


def _check_rows(vectors: DistributedVectors, rows: range, length: int) -> None:
    """Refuse rows that are missing, double or empty, on every process alike."""
    first, last = float(rows.start), float(rows.stop - 1)
    mine = [len(rows), (first + last) * len(rows) / 2, float(len(rows) == 0), float(rows.start < 0), 1.0]
    numbers = vectors.from_host(np.array(mine), vectors.wide)
    num_rows, total, empty, negative, num_processes = np.real(vectors.to_host(vectors._summed(numbers)))
    expected = (length - 1) * length / 2
    if num_rows != length or empty or negative or abs(total - expected) > 1e-12 * expected:
        raise ValueError(
            f"`rows` must be those from 0 to {length} over all processes, once each and some on every one; got "
            f"{num_rows:.0f} rows on {num_processes:.0f} processes, {rows.start} to {rows.stop} on this one"
        )
