"""The thread pool that vector passes share."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache


@cache
def num_threads() -> int:
    """Return the number of threads: OMP_NUM_THREADS, as other libraries do, or the number of processors."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(asked), processors) if asked.isdigit() and int(asked) > 0 else processors


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, num_threads() - 1), thread_name_prefix="specdens")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def run_in_threads(work: Callable[[], None], count: int) -> None:
    """Run work() in `count` threads, including the caller.

    work() takes tasks until none is left, so that it does not matter how many of the threads have started.
    """
    others = [other for _ in range(1, count) if (other := _submit(work)) is not None]
    try:
        work()
    finally:  # no thread writes into the arrays after this, also if work() has raised
        for other in others:
            if not other.cancel():  # it is running: wait for it
                other.result()


def _submit(work: Callable[[], None]) -> Future[None] | None:
    """Start work() in another thread; return None if none can start: at the exit of Python, or beyond a limit."""
    try:
        return _pool().submit(work)
    except RuntimeError:
        return None
