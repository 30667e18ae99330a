"""FastLanczos: three vectors per probe, no reorthogonalisation [Papyan 2019, FastLanczos]."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from specdens._lanczos.recurrence import Recurrence
from specdens._measure.lanczos import SpectralMeasure
from specdens._operators.base import Operator
from specdens._operators.complexified import with_vectors_of
from specdens._operators.convert import as_operator
from specdens._running.block_runner import BlockRunner
from specdens._running.executor import ExecutorLike, as_executor
from specdens._running.monitor import Monitor
from specdens._running.running_checks import FEWEST_STEPS
from specdens._running.start_vectors import as_block_size, as_probes, describe_probes, probe_kind, start_block
from specdens._validate import as_count, as_seed

DEFAULT_STEPS = 128


def fast_lanczos(
    A: Any,
    *,
    num_steps: int | None = None,
    num_probes: int = 1,
    seed: int = 0,
    block_size: int | None = None,
    probes: Any = "gaussian",
    check: bool = True,
    keep_vectors: bool = False,
    monitor: Monitor | None = None,
    executor: ExecutorLike | None = None,
) -> SpectralMeasure:
    """Run Lanczos without reorthogonalisation and return the spectral measure it leaves behind.

    Probes advance in lockstep, `block_size` at a time, and hold three vectors each, the product included. Eigenvalues
    that have converged return as ghosts; their summed weight is right, so the measure is.

    Parameters
    ----------
    A : OperatorLike
        A real symmetric or complex Hermitian operator: anything that `as_operator` takes.
    num_steps : int, optional
        The number of products per probe; by default 128, or the dimension if that is less.
    num_probes : int, default 1
        The number of random start vectors; the sampling error falls with its root.
    seed : int, default 0
        Probe j depends on (seed, j) only: the same in float32, on another device, in another block.
    block_size : int, optional
        The number of probes that run together; by default up to 8 in up to 1 GiB, and 1 where the operator has no
        products with blocks or where an executor runs the blocks.
    probes : {"gaussian", "rademacher"} or array, default "gaussian"
        "gaussian", "rademacher", or start vectors of shape (n,) or (n, k): the measure is then their local density of
        states, without sampling error.
    check : bool, default True
        Whether to check that the operator is deterministic (one further product) and Hermitian (none).
    keep_vectors : bool, default False
        Whether the result keeps the last two vectors of every probe, so that `extend` can add steps.
    monitor : Monitor, optional
        Progress and checkpoints; by default a progress bar on a terminal.
    executor : Executor or callable, optional
        Where to run the blocks of probes: anything that follows ``concurrent.futures.Executor`` (a process pool,
        dask's ``client.get_executor()``, mpi4py's ``MPIPoolExecutor()``), or a function that makes one. The result is
        the same bit for bit as with the same `block_size` in this process. Blocks that were lost with a worker run
        again, on the executor if it still works or can be made anew, else in this process; the notes say so. Progress
        and checkpoints move on with every finished block. The operator is pickled once per block, unless the
        executor is a ``ThreadPoolExecutor``.

    Returns
    -------
    SpectralMeasure
        The coefficients of the recurrence of every probe, from which everything else is read.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, before the first product.
    ValueError
        If products are not finite, not deterministic or not those of a Hermitian operator.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.repeat([1.0, 2.0, 5.0], 100))
    >>> measure = sd.fast_lanczos(A, num_probes=4)  # three distinct eigenvalues: three steps are exact
    >>> [len(alphas) for alphas in measure.alphas]
    [3, 3, 3, 3]
    >>> round(measure.count(1.5, 5.5).value)
    200
    """
    started = time.perf_counter()
    A = with_vectors_of(as_operator(A), probes)
    seed = as_seed(seed)
    num_steps = steps_within(A, num_steps)
    kind, num_probes = as_probes(A, probes, num_probes)
    executor = as_executor(executor, A)
    block_size = as_block_size(A, block_size, executor)
    with lanczos_runner(
        A, monitor or Monitor(), num_steps=num_steps, num_probes=num_probes,
        total=total_products(num_steps, num_probes, check=check), probes=probes, seed=seed, block_size=block_size,
        check=check, keep_vectors=keep_vectors, executor=executor,
    ) as runner:  # fmt: skip
        return advance_lanczos(runner, num_steps, num_probes, kind=kind, seed=seed, started=started)


@contextmanager
def lanczos_runner(
    A: Operator,
    monitor: Monitor,
    *,
    num_steps: int,
    num_probes: int,
    total: int | None,
    probes: Any,
    seed: int,
    block_size: int,
    check: bool = True,
    keep_vectors: bool = False,
    recurrences: Sequence[Recurrence] | None = None,
    executor: ExecutorLike | None = None,
) -> Iterator[BlockRunner[Recurrence]]:
    """Open the stage "fast_lanczos": the runner can be asked for steps and probes while it is open."""
    settings: dict[str, Any] = {"num_steps": num_steps, "num_probes": num_probes, "seed": seed}
    described = describe_probes(A, probes) if monitor.file else probe_kind(probes)
    settings |= {"probes": described, "block_size": block_size}
    with monitor.stage("fast_lanczos", A, settings, total=total) as stage:
        yield BlockRunner(
            A,
            Recurrence,
            partial(_begin, A, probes, seed),
            block_size=block_size,
            stage=stage,
            recurrences=recurrences,
            check=check,
            keep_vectors=keep_vectors,
            executor=executor,
        )


def _begin(A: Operator, probes: Any, seed: int, indices: tuple[int, ...]) -> Recurrence:
    return Recurrence.start(A, indices, start_block(A, probes, indices, seed))


def total_products(num_steps: int, num_probes: int, *, check: bool) -> int:
    """Return how many products a run makes, those for checks included, unless a probe ends early."""
    return num_steps * num_probes + (check + (check and num_steps >= FEWEST_STEPS))


def advance_lanczos(
    runner: BlockRunner[Recurrence],
    num_steps: int,
    num_probes: int,
    *,
    kind: str,
    seed: int,
    started: float,
    repeat_first: bool = True,
) -> SpectralMeasure:
    """Bring so many probes to so many steps, and return their measure."""
    runner.advance(num_steps, num_probes, repeat_first=repeat_first)
    measure = SpectralMeasure.from_recurrences(
        runner.A, runner.recurrences, method="fast_lanczos", probes=kind, seed=seed, block_size=runner.block_size,
        num_products=runner.num_products, seconds=time.perf_counter() - started, notes=runner.stage.notes,
    )  # fmt: skip
    return measure.within(num_steps, num_probes)


def extend_lanczos(
    measure: SpectralMeasure, A: Any, *, num_steps: int | None, num_probes: int | None, keep_vectors: bool
) -> SpectralMeasure:
    """Return the measure with more steps or more probes; see `extend`."""
    A = as_operator(A)
    num_probes = measure.num_probes if num_probes is None else num_probes
    num_probes = as_count("num_probes", num_probes, minimum=measure.num_probes)
    num_steps = measure.num_steps if num_steps is None else num_steps
    steps = as_count("num_steps", num_steps, minimum=measure.num_steps)
    _check_extension(measure, A, steps, num_probes)
    started = time.perf_counter() - measure.seconds
    with lanczos_runner(
        A, Monitor(progress=False), num_steps=steps, num_probes=num_probes, total=None, probes=measure.probes,
        seed=measure.seed, block_size=measure.block_size, check=False, keep_vectors=True,
        recurrences=[each.copy() for each in measure.recurrences],
    ) as runner:  # fmt: skip
        longer = advance_lanczos(
            runner, steps, num_probes, kind=measure.probes, seed=measure.seed, started=started
        )  # fmt: skip
        if not keep_vectors:
            runner.forget_vectors()
    return replace(longer, notes=measure.notes)


def steps_within(A: Operator, num_steps: int | None, default: int = DEFAULT_STEPS) -> int:
    """Return the number of steps: the default within the dimension, or what was asked for if that is possible."""
    dimension = A.bulk_dimension
    if num_steps is None:
        return min(default, dimension)
    return as_count("num_steps", num_steps, maximum=dimension, limit="the dimension")


def _check_extension(measure: SpectralMeasure, A: Operator, steps: int, num_probes: int) -> None:
    if A.dimension != measure.dimension or A.vectors.name != measure.dtype:
        raise ValueError(
            f"`A` must be the operator of the measure (dimension {measure.dimension}, {measure.dtype}); got {A!r}"
        )
    if measure.method != "fast_lanczos":
        raise ValueError(f"`measure` must come from fast_lanczos; got one from {measure.method}")
    has_vectors = bool(measure.recurrences) and all(each.has_vectors for each in measure.recurrences)
    if steps > measure.num_steps and not has_vectors:
        raise ValueError("more steps need the vectors of the run: make the measure with keep_vectors=True")
    if steps > measure.num_steps:
        steps_within(A, steps)
    if num_probes > measure.num_probes and measure.probes == "given":
        raise ValueError("`num_probes` cannot grow for given start vectors: run the new ones on their own")
