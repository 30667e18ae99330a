"""Blocks of probes on the workers of an executor: sent out, collected, and run again where a worker was lost.

A probe depends on (seed, j) only, so it does not matter which worker runs it, nor in which order blocks end. What a
worker raises is of two kinds. What the operator raises in a worker comes back as a value and is raised here, as without
an executor. Anything that comes through the future itself (`BrokenExecutor`, a cancelled future, a killed worker)
means that the block was lost: blocks that are done are kept, and the lost ones run again.
"""

from __future__ import annotations

import importlib
import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import uuid4

from specdens._operators.base import Operator

_log = logging.getLogger("specdens")

_MAX_ROUNDS = 3  # how often lost blocks are sent to an executor before they run in this process

ExecutorLike: TypeAlias = Executor | Callable[[], Executor]
"""An executor, or a function that makes one, which is called again when the executor breaks."""

R = TypeVar("R")


@dataclass(frozen=True)
class BlockTask(Generic[R]):
    """A block of probes to be brought to a number of steps."""

    indices: tuple[int, ...]
    num_steps: int
    check: bool
    keep_vectors: bool
    preserve_inputs: bool = False
    """Whether a step leaves the vectors from before it alone, as checkpoints of this process need them."""
    watch: bool = True
    """Whether to check the operator now and then (`running_checks`)."""
    recurrence: R | None = None
    """The recurrence to continue; None where the block begins."""


class Job(Generic[R]):
    """What all blocks of a stage share: a function of a task, which holds the operator.

    Pickled once, and unpickled once per worker and stage. Threads share the function itself.

    Parameters
    ----------
    work : callable
        From a `BlockTask` to its recurrence.
    executor : Executor
        Where it will be sent.
    """

    def __init__(self, work: Callable[[BlockTask[R]], R], executor: Executor) -> None:
        self._work: Callable[[BlockTask[R]], R] | None = work
        self._pickled, self._key = b"", uuid4().hex
        if not isinstance(executor, ThreadPoolExecutor):
            self._work, self._pickled = None, _dumps(work)

    def __call__(self, task: BlockTask[R]) -> tuple[R | None, Exception | None]:
        """Run a task, and return its recurrence or what it raised."""
        try:
            return self._unpickled()(task), None
        except Exception as error:
            return None, _portable(error)

    def _unpickled(self) -> Callable[[BlockTask[R]], R]:
        if self._work is not None:
            return self._work
        if self._key not in _received:
            _received.clear()  # one operator at a time
            _received[self._key] = pickle.loads(self._pickled)
        work: Callable[[BlockTask[R]], R] = _received[self._key]
        return work


_received: dict[str, Any] = {}


def as_executor(executor: Any, A: Operator) -> ExecutorLike | None:
    """Return an executor for the probes of A, or a function that makes one, as it was given.

    Raises
    ------
    TypeError
        If it is neither.
    ValueError
        If several processes share the operator: their products must come in the same order on each of them.
    """
    if executor is not None and A.vectors.is_shared:
        raise ValueError(
            "`executor` must be left out for an operator that several processes share: all of them make the same "
            "products in the same order. Give groups of processes other seeds instead."
        )
    if executor is None or callable(getattr(executor, "submit", None)) or callable(executor):
        checked: ExecutorLike | None = executor
        return checked
    raise TypeError(
        "`executor` must follow concurrent.futures.Executor, or be a function that returns such an executor; got "
        f"{executor!r}. ProcessPoolExecutor(), dask's client.get_executor() and MPIPoolExecutor() do."
    )


def run_tasks(
    executor: ExecutorLike,
    work: Callable[[BlockTask[R]], R],
    tasks: Sequence[BlockTask[R]],
    *,
    accept: Callable[[BlockTask[R], R], None],
) -> list[str]:
    """Run tasks on an executor, and hand every result to `accept` when it is there.

    Parameters
    ----------
    executor : Executor or callable
        Where to run.
    work : callable
        From a task to its recurrence.
    tasks : sequence of BlockTask
        The tasks.
    accept : callable
        Called in this thread with a task and its recurrence, in the order in which tasks end.

    Returns
    -------
    list of str
        Remarks on what was lost and run again.
    """
    notes: list[str] = []
    left = list(tasks)
    for _ in range(_MAX_ROUNDS):
        with _opened(executor) as pool:
            lost, reason = _run_round(pool, Job(work, pool), left, accept)
        if not lost:
            return notes
        again = "on the executor" if callable(executor) or _accepts(executor) else "in this process"
        notes.append(f"{len(lost)} of {len(tasks)} blocks of probes were lost ({reason}) and ran again {again}")
        _log.warning("%s", notes[-1])
        left = lost
        if again == "in this process":
            break
    else:
        notes.append(f"{len(left)} of {len(tasks)} blocks of probes were lost {_MAX_ROUNDS} times: run in this process")
    for task in left:
        accept(task, work(task))
    return notes


def _run_round(
    pool: Executor, job: Job[R], tasks: Sequence[BlockTask[R]], accept: Callable[[BlockTask[R], R], None]
) -> tuple[list[BlockTask[R]], str]:
    """Send all tasks once; return those that were lost, and why."""
    futures: dict[Future[Any], BlockTask[R]] = {}
    done: set[int] = set()
    reason = ""
    try:
        try:
            for task in tasks:
                futures[pool.submit(job, task)] = task
        except RuntimeError as error:  # BrokenExecutor, or shut down
            reason = _describe(error)
        for future in as_completed(futures):
            try:
                recurrence, raised = future.result()
            except Exception as lost:  # a cancelled future, a killed worker, a result that cannot be pickled
                reason = _describe(lost)
                continue
            if raised is not None:
                raise raised
            accept(futures[future], recurrence)
            done.add(id(futures[future]))
    finally:
        for future in futures:
            future.cancel()
    return [task for task in tasks if id(task) not in done], reason


@contextmanager
def _opened(executor: ExecutorLike) -> Iterator[Executor]:
    """Yield an executor: the given one as it is, or a new one that is shut down afterwards."""
    submit = getattr(executor, "submit", None)
    if callable(submit):
        yield executor  # type: ignore[misc]
        return
    pool = executor()  # type: ignore[operator]
    if not callable(getattr(pool, "submit", None)):
        raise TypeError(f"`executor` must return a concurrent.futures.Executor when it is called; got {pool!r}")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True)


def _accepts(executor: Any) -> bool:
    """Return whether an executor still takes tasks."""
    try:
        executor.submit(int).result()
    except Exception:
        return False
    return True


def _dumps(work: Any) -> bytes:
    """Pickle the operator and what belongs to it, also functions by value where cloudpickle is installed."""
    try:
        dumps = importlib.import_module("cloudpickle").dumps
    except ImportError:
        dumps = pickle.dumps
    try:
        pickled: bytes = dumps(work)
    except Exception as error:  # objects raise anything when they are pickled
        raise TypeError(
            f"`A` must be picklable to be sent to the workers of an executor; got {type(error).__name__}: {error}. "
            "Use functions and classes of a module instead of local ones, open files and locks in __setstate__, or "
            "take a ThreadPoolExecutor."
        ) from error
    return pickled


def _portable(error: Exception) -> Exception:
    """Return an exception that can be pickled: itself, or a RuntimeError with its words."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(_describe(error))
    return error


def _describe(error: BaseException) -> str:
    words = str(error).strip()
    return f"{type(error).__name__}: {words.splitlines()[0].rstrip('.')}" if words else type(error).__name__
