"""SlowLanczos: full reorthogonalisation, with all vectors in memory [Papyan 2019, SlowLanczos]."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from numpy.typing import NDArray

from specdens._lanczos.fast import steps_within, total_products
from specdens._lanczos.recurrence import Recurrence
from specdens._measure.lanczos import SpectralMeasure
from specdens._operators.base import Operator
from specdens._operators.complexified import with_vectors_of
from specdens._operators.convert import as_operator
from specdens._running.block_runner import BlockRunner
from specdens._running.executor import ExecutorLike, as_executor
from specdens._running.monitor import Monitor
from specdens._running.start_vectors import as_probes, describe_probes, start_block
from specdens._validate import as_positive, as_seed
from specdens._vectors.base import Array

_log = logging.getLogger("specdens")

DEFAULT_MEMORY_LIMIT = 4 * 2**30


@dataclass(kw_only=True)
class OrthogonalRecurrence(Recurrence):
    """A recurrence of one probe that keeps its vectors, and orthogonalises every new one against them twice."""

    basis: Array | None = None
    """The Lanczos vectors so far, as rows, and room for more."""
    vector_names: ClassVar[Sequence[str]] = ("v", "v_prev", "basis")
    log2_range: ClassVar[float] = 0.0
    watch_every: ClassVar[int] = 1  # reorthogonalisation hides a fault from later steps, and costs far more

    def reserve(self, A: Operator, num_steps: int) -> None:
        """Make room for so many steps, and copy what is there."""
        rows = A.vectors.zeros((num_steps, A.shape[0]))
        if self.basis is not None and self.num_steps:
            rows = A.vectors.assign(rows, (slice(0, self.num_steps), ...), self.basis[: self.num_steps, :])
        self.basis = rows

    def forget_vectors(self) -> None:
        super().forget_vectors()
        self.basis = None

    def load_vectors(self, A: Operator, read: Callable[[str], NDArray[Any]]) -> None:
        super().load_vectors(A, read)
        basis = read("basis")
        if basis.dtype != A.vectors.name or basis.shape != (self.num_steps, A.shape[0]):
            raise ValueError(f"a basis of dtype {basis.dtype} and shape {basis.shape}")
        self.basis = A.vectors.from_host(basis)

    def state(self, A: Operator) -> dict[str, Callable[[], NDArray[Any]]]:
        arrays = super().state(A)
        if self.basis is not None:
            arrays["basis"] = partial(A.vectors.to_host, self.basis[: self.num_steps, :])
        return arrays

    def _next_vector(self, A: Operator, v: Array, w: Array, vw: Array, g: list[float]) -> tuple[Array, Array, Array]:
        vectors = A.vectors
        self.basis = vectors.assign(self.basis, (self.num_steps, ...), v)
        Q = self.basis[: self.num_steps + 1, :].T
        w, minus_alpha, _ = super()._next_vector(A, v, w, vw, g)
        # SlowLanczos, line 10: w ← w − V_m V_mᵀ w. Twice: the second pass removes what cancellation left of the first.
        for _ in range(2):
            w = vectors.subtract(Q, vectors.coefficients(Q, w), w)
        return w, minus_alpha, vectors.dot(w, w)


def slow_lanczos(
    A: Any,
    *,
    num_steps: int | None = None,
    num_probes: int = 1,
    seed: int = 0,
    probes: Any = "gaussian",
    check: bool = True,
    memory_limit: float = DEFAULT_MEMORY_LIMIT,
    monitor: Monitor | None = None,
    executor: ExecutorLike | None = None,
) -> SpectralMeasure:
    """Run Lanczos with full reorthogonalisation: no ghosts, exact after n steps, at the price of all its vectors.

    Parameters
    ----------
    A : OperatorLike
        A real symmetric or complex Hermitian operator: anything that `as_operator` takes.
    num_steps : int, optional
        The number of products per probe, up to the dimension; by default 128, or the dimension if that is less.
    num_probes, seed, probes, check
        As for `fast_lanczos`; probes run one after the other.
    memory_limit : float, default 4 GiB
        The number of bytes that the vectors may take, 4 GiB by default. What will be needed is logged (logger
        "specdens") and a run that needs more is refused before it starts.
    monitor, executor
        Progress and checkpoints, and where to run the probes, as for `fast_lanczos`.

    Returns
    -------
    SpectralMeasure
        The coefficients of the recurrence of every probe.

    Raises
    ------
    TypeError, ValueError
        As for `fast_lanczos`, and if the vectors need more than `memory_limit`.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> eigenvalues = np.linspace(-1, 1, 50)
    >>> measure = sd.slow_lanczos(np.diag(eigenvalues), num_steps=50)
    >>> bool(np.allclose(measure.nodes[0], eigenvalues))
    True
    """
    started = time.perf_counter()
    A = with_vectors_of(as_operator(A), probes)
    seed = as_seed(seed)
    num_steps = steps_within(A, num_steps)
    kind, num_probes = as_probes(A, probes, num_probes)
    executor = as_executor(executor, A)
    _check_memory(A, num_steps, as_positive("memory_limit", memory_limit))
    settings = {"num_steps": num_steps, "num_probes": num_probes, "probes": describe_probes(A, probes), "seed": seed}
    total = total_products(num_steps, num_probes, check=check)
    with (monitor or Monitor()).stage("slow_lanczos", A, settings, total=total) as stage:
        runner = BlockRunner(
            A,
            OrthogonalRecurrence,
            partial(_begin, A, probes, seed),
            block_size=1,
            stage=stage,
            check=check,
            executor=executor,
        )
        runner.advance(num_steps, num_probes)
    for recurrence in runner.recurrences:
        if recurrence.num_steps == A.bulk_dimension:
            recurrence.probes[0].is_active = False  # the Krylov space is the whole space: T is exact
    measure = SpectralMeasure.from_recurrences(
        A, runner.recurrences, method="slow_lanczos", probes=kind, seed=seed, block_size=1,
        num_products=runner.num_products, seconds=time.perf_counter() - started, notes=stage.notes,
    )  # fmt: skip
    return measure.within(num_steps, num_probes)


def _begin(A: Operator, probes: Any, seed: int, indices: tuple[int, ...]) -> OrthogonalRecurrence:
    return OrthogonalRecurrence.start(A, indices, start_block(A, probes, indices, seed))


def _check_memory(A: Operator, num_steps: int, limit: float) -> None:
    n = A.shape[0]
    needed = (num_steps + 3) * n * A.vectors.itemsize
    message = f"slow_lanczos keeps {num_steps} + 3 vectors of {n} entries: {needed / 2**30:.3g} GiB"
    if needed > limit:
        raise ValueError(
            f"{message}, more than `memory_limit` = {limit / 2**30:.3g} GiB. Raise the limit, take fewer steps, or use "
            "fast_lanczos, which keeps three vectors."
        )
    _log.info(message)
