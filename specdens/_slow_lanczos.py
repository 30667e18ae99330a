"""SlowLanczos: full reorthogonalisation, for as many steps as memory bears [Papyan 2019, Algorithm 1]."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

from specdens._as_operator import as_operator
from specdens._errors import as_positive
from specdens._fast_lanczos import steps_within
from specdens._lanczos import Recurrence
from specdens._measure import SpectralMeasure
from specdens._operators import Operator
from specdens._probes import as_probes, start_block
from specdens._vectors import Array

_log = logging.getLogger("specdens")

DEFAULT_MEMORY_LIMIT = 4 * 2**30


@dataclass
class OrthogonalRecurrence(Recurrence):
    """A recurrence of one probe that keeps its vectors and orthogonalises every new one against them, twice."""

    basis: Array | None = None
    """The Lanczos vectors so far, as rows."""

    def _residual(self, A: Operator, alpha: Array, v: Array, w: Array) -> tuple[Array, Array]:
        vectors = A.vectors
        self.basis = vectors.assign(self.basis, (self.num_steps, ...), v)
        Q = self.basis[: self.num_steps + 1, :].T
        w = vectors.axpy(-alpha, v, w)
        for _ in range(2):  # twice is enough: the second pass removes what cancellation left of the first
            w = vectors.subtract(Q, vectors.coefficients(Q, w), w)
        return w, vectors.dot(w, w)


def slow_lanczos(
    A: Any,
    *,
    num_steps: int | None = None,
    num_probes: int = 1,
    seed: int = 0,
    probes: Any = "gaussian",
    check: bool = True,
    memory_limit: float = DEFAULT_MEMORY_LIMIT,
) -> SpectralMeasure:
    """Run Lanczos with full reorthogonalisation: no ghosts, exact after n steps, at the price of all its vectors.

    Parameters
    ----------
    A
        A real symmetric or complex Hermitian operator: anything that `as_operator` takes.
    num_steps
        The number of products per probe, up to the dimension; by default 128, or the dimension if that is less.
    num_probes, seed, probes, check
        As for `fast_lanczos`; probes run one after the other.
    memory_limit
        The number of bytes that the vectors may take, 4 GiB by default. What will be needed is logged (logger
        "specdens") and a run that needs more is refused before it starts.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> eigenvalues = np.linspace(-1, 1, 50)
    >>> measure = sd.slow_lanczos(np.diag(eigenvalues), num_steps=50)
    >>> bool(np.allclose(measure.nodes[0], eigenvalues))
    True
    """
    started = time.perf_counter()
    A = as_operator(A)
    num_steps = steps_within(A, num_steps)
    kind, num_probes = as_probes(A, probes, num_probes)
    _check_memory(A, num_steps, as_positive("memory_limit", memory_limit))
    runs = []
    for index in range(num_probes if A.bulk_dimension else 0):
        run = OrthogonalRecurrence.start(A, (index,), start_block(A, probes, (index,), seed))
        run.basis = A.vectors.zeros((num_steps, A.shape[0]))
        while run.num_steps < num_steps and run.active.any():
            run.step(A, check=check and index == 0)
        if run.num_steps == A.bulk_dimension:
            run.active[:] = False  # the Krylov space is the whole space: T is exact
        run.forget_vectors()
        run.basis = None
        runs.append(run)
    return SpectralMeasure.from_runs(
        A, runs, method="slow_lanczos", probes=kind, seed=seed, block_size=1,
        num_products=sum(run.num_products for run in runs), seconds=time.perf_counter() - started,
    )  # fmt: skip


def _check_memory(A: Operator, num_steps: int, limit: float) -> None:
    n = A.shape[0]
    needed = (num_steps + 3) * n * A.vectors.itemsize
    said = f"slow_lanczos keeps {num_steps} + 3 vectors of {n} entries: {needed / 2**30:.3g} GiB"
    if needed > limit:
        raise ValueError(
            f"{said}, more than `memory_limit` = {limit / 2**30:.3g} GiB. Raise the limit, take fewer steps, or use "
            "fast_lanczos, which keeps three vectors."
        )
    _log.info(said)
