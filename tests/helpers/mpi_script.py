"""Run by mpirun: a density by rows, and probes on an MPI pool, each compared with one process."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI
from mpi4py.futures import MPICommExecutor
from ranks import row_range
from spectra import rotated
from worker_operators import Diagonal

import specdens as sd

N = 200
EIGENVALUES = np.concatenate([np.linspace(-1.0, 2.0, N - 2), [5.0, 9.0]])


def by_rows(comm) -> None:
    """Compare a row-distributed density with that of one process, and between the ranks."""
    matrix = rotated(EIGENVALUES)
    rows = row_range(N, comm)
    local = matrix[rows.start : rows.stop]
    A = sd.RowDistributed(
        lambda x: local @ np.concatenate(comm.allgather(x)), rows=rows, dimension=N, reduce=comm.allreduce
    )
    settings = {"rank": 2, "num_steps": 40, "num_probes": 2, "method": "fast_lanczos"}
    found = sd.spectral_density(A, **settings)
    expected = sd.spectral_density(matrix, **settings)
    np.testing.assert_allclose(found.outliers.values, expected.outliers.values, rtol=1e-10)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6 * expected.values.max())
    for other in comm.allgather(found.values):
        np.testing.assert_array_equal(other, found.values)


def by_probes(comm) -> None:
    """Compare probes that the other ranks have run with those of one process."""
    with MPICommExecutor(comm, root=0) as executor:
        if executor is not None:
            A = Diagonal(EIGENVALUES)
            found = sd.fast_lanczos(A, num_steps=30, num_probes=4, executor=executor)
            expected = sd.fast_lanczos(A, num_steps=30, num_probes=4, block_size=1)
            np.testing.assert_array_equal(found.alphas, expected.alphas)
            assert not found.notes


if __name__ == "__main__":
    {"rows": by_rows, "probes": by_probes}[sys.argv[1]](MPI.COMM_WORLD)
    print(f"rank {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size} agrees")
