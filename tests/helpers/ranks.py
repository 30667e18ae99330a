"""Several ranks in the threads of one process: what mpi4py's communicator does, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

TIMEOUT = 60.0  # seconds, after which ranks that wait for another one give up


class Communicator:
    """The communicator of one rank among threads."""

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, slots: list[Any]) -> None:
        self.rank, self.size = rank, size
        self._barrier, self._slots = barrier, slots
        self.num_reductions = self.largest_reduction = 0

    def allgather(self, x: Any) -> list[Any]:
        """Return what all ranks have given."""
        self._slots[self.rank] = x
        self._barrier.wait(TIMEOUT)
        gathered = list(self._slots)
        self._barrier.wait(TIMEOUT)
        return gathered

    def allreduce(self, x: Any) -> Any:
        """Return the sum over the ranks, in their order."""
        self.num_reductions += 1
        self.largest_reduction = max(self.largest_reduction, int(np.prod(np.shape(x))))
        return sum(self.allgather(x))


def on_ranks(size: int, work: Callable[[Communicator], Any]) -> list[Any]:
    """Run work(communicator) on so many ranks and return what they return; raise what the first of them raises."""
    barrier, slots = threading.Barrier(size), [None] * size
    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(work, Communicator(rank, size, barrier, slots)) for rank in range(size)]
        return [future.result() for future in futures]


def row_range(n: int, comm: Any) -> range:
    """Return the rows of a rank: uneven parts, so that nothing relies on equal ones."""
    ends = [0, *(n * (k + 1) // comm.size - 3 * (k + 1 < comm.size) for k in range(comm.size))]
    return range(ends[comm.rank], ends[comm.rank + 1])
