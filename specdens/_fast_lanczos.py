"""FastLanczos: three vectors per probe, no reorthogonalisation [Papyan 2019, Algorithm 3]."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from specdens._as_operator import as_operator
from specdens._block_run import BlockRun
from specdens._errors import as_count
from specdens._lanczos import Recurrence
from specdens._measure import SpectralMeasure
from specdens._monitor import Monitor
from specdens._operators import Operator
from specdens._probes import as_block_size, as_probes, describe_probes, start_block

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
) -> SpectralMeasure:
    """Run Lanczos without reorthogonalisation and return the spectral measure it leaves behind.

    Probes advance in lockstep, `block_size` at a time, and hold three vectors each, the product included. Eigenvalues
    that have converged return as ghosts; their summed weight is right, so the measure is.

    Parameters
    ----------
    A
        A real symmetric or complex Hermitian operator: anything that `as_operator` takes.
    num_steps
        The number of products per probe; by default 128, or the dimension if that is less.
    num_probes
        The number of random start vectors; the sampling error falls with its root.
    seed
        Probe j depends on (seed, j) only: the same in float32, on another device, in another block.
    block_size
        The number of probes that run together; by default up to 8 in up to 1 GiB, and 1 where the operator has no
        products with blocks.
    probes
        "gaussian", "rademacher", or start vectors of shape (n,) or (n, k): the measure is then their local density of
        states, without sampling error.
    check
        Whether to check on the way that the operator is deterministic (one further product) and Hermitian (none).
    keep_vectors
        Whether the result keeps the last two vectors of every probe, so that `extend` can add steps.
    monitor
        Progress and checkpoints; by default a progress bar on a terminal.

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
    A = as_operator(A)
    seed = as_count("seed", seed, minimum=0)
    num_steps = steps_within(A, num_steps)
    kind, num_probes = as_probes(A, probes, num_probes)
    block_size = as_block_size(A, block_size)
    monitor = monitor or Monitor()
    run = LanczosRun(A, monitor, probes=probes, kind=kind, seed=seed, block_size=block_size)
    with run.stage(num_steps, num_probes, total=num_steps * num_probes + check, check=check, keep_vectors=keep_vectors):
        return run.measure(num_steps, num_probes)


class LanczosRun:
    """A run of `fast_lanczos` that can be asked for more steps and probes while it is open."""

    def __init__(
        self, A: Operator, monitor: Monitor, *, probes: Any, kind: str, seed: int, block_size: int, spent: float = 0.0
    ) -> None:
        self.A, self.monitor, self.probes, self.kind, self.seed, self.block_size = (
            A,
            monitor,
            probes,
            kind,
            seed,
            block_size,
        )
        self.started = time.perf_counter() - spent

    @contextmanager
    def stage(
        self,
        num_steps: int,
        num_probes: int,
        *,
        total: int | None,
        check: bool,
        keep_vectors: bool,
        runs: Sequence[Recurrence] = (),
    ) -> Iterator[BlockRun[Recurrence]]:
        """Open the run, from a checkpoint or from recurrences that have been begun."""
        settings: dict[str, Any] = {"num_steps": num_steps, "num_probes": num_probes, "seed": self.seed}
        settings |= {"probes": describe_probes(self.A, self.probes) if self.monitor.file else self.kind}
        settings |= {"block_size": self.block_size}
        with self.monitor.stage("fast_lanczos", self.A, settings, total=total) as stage:
            self.blocks = BlockRun(
                self.A,
                self._begin,
                Recurrence.from_state,
                block_size=self.block_size,
                stage=stage,
                runs=runs,
                check=check,
                keep_vectors=keep_vectors,
            )
            yield self.blocks

    def measure(self, num_steps: int, num_probes: int) -> SpectralMeasure:
        """Bring so many probes to so many steps, and return their measure."""
        self.blocks.advance(num_steps, num_probes)
        measure = SpectralMeasure.from_runs(
            self.A, self.blocks.runs, method="fast_lanczos", probes=self.kind, seed=self.seed,
            block_size=self.block_size, num_products=self.blocks.num_products,
            seconds=time.perf_counter() - self.started,
        )  # fmt: skip
        return measure.within(num_steps, num_probes)

    def _begin(self, indices: tuple[int, ...]) -> Recurrence:
        return Recurrence.start(self.A, indices, start_block(self.A, self.probes, indices, self.seed))


def extend(
    measure: SpectralMeasure,
    A: Any,
    *,
    num_steps: int | None = None,
    num_probes: int | None = None,
    keep_vectors: bool = True,
) -> SpectralMeasure:
    """Return the measure with more steps or more probes, as if it had been asked for them at first.

    Parameters
    ----------
    measure
        A result of `fast_lanczos`. More steps need its vectors (``keep_vectors=True``); more probes do not.
    A
        The operator that it was made from.
    num_steps, num_probes
        The new totals; by default what the measure has.
    keep_vectors
        Whether the result can be extended in turn.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.linspace(-1, 1, 1000))
    >>> short = sd.fast_lanczos(A, num_steps=20, keep_vectors=True)
    >>> long = sd.extend(short, A, num_steps=50)
    >>> bool(np.array_equal(long.alphas[0], sd.fast_lanczos(A, num_steps=50).alphas[0]))
    True
    """
    A = as_operator(A)
    num_probes = measure.num_probes if num_probes is None else num_probes
    num_probes = as_count("num_probes", num_probes, minimum=measure.num_probes)
    num_steps = measure.num_steps if num_steps is None else num_steps
    steps = as_count("num_steps", num_steps, minimum=measure.num_steps)
    _check_extension(measure, A, steps, num_probes)
    run = LanczosRun(
        A, Monitor(progress=False), probes=measure.probes, kind=measure.probes, seed=measure.seed,
        block_size=measure.block_size, spent=measure.seconds,
    )  # fmt: skip
    runs = [each.copy() for each in measure.runs]
    with run.stage(steps, num_probes, total=None, check=False, keep_vectors=True, runs=runs) as blocks:
        longer = run.measure(steps, num_probes)
        if not keep_vectors:
            blocks.forget_vectors()
    return longer


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
    if steps > measure.num_steps and not all(run.has_vectors for run in measure.runs):
        raise ValueError("more steps need the vectors of the run: make the measure with keep_vectors=True")
    if steps > measure.num_steps:
        steps_within(A, steps)
    if num_probes > measure.num_probes and measure.probes == "given":
        raise ValueError("`num_probes` cannot grow for given start vectors: run the new ones on their own")
