"""The fast path: whether to use compiled kernels (the extra ``fast``), and the threads that they run in.

Nothing is compiled or even imported before the first vector of `SMALLEST` entries, which is worth the wait. The
environment variable ``SPECDENS_FAST=0`` switches the fast path off.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import array_api_compat as aac
import numpy as np

from specdens._errors import SpecdensWarning

SMALLEST = 2**18
"""Entries from which kernels pay: they are several times as fast as NumPy on fewer, too, but half a second to load."""

IN_THREADS = 2**16
"""Entries from which NumPy is faster in larger parts, and in threads where there are several."""

_TORCH_DTYPES = {f"torch.{name}" for name in ("float32", "float64", "complex64", "complex128")}

_enabled = os.environ.get("SPECDENS_FAST", "1") != "0"


@cache
def available() -> bool:
    """Return whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@contextmanager
def without() -> Iterator[None]:
    """Do without the fast path for a while, as where numba is not installed."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before


def serves(num_entries: int) -> bool:
    """Return whether kernels are used on so many entries."""
    return _enabled and num_entries >= SMALLEST and available()


def kernels_for(*arrays: Any) -> Any:
    """Return the module of kernels if they serve these arrays (or None in their place): large, and on the host."""
    first = arrays[0]
    if not serves(first.shape[0] * (first.shape[1] if first.ndim > 1 else 1)):
        return None
    if any(x is not None and host_view(x) is None for x in arrays):
        return None
    return _load()


def host_view(x: Any) -> np.ndarray[Any, Any] | None:
    """Return the memory of a row-major array on the CPU as a NumPy array, or None if there is no such thing."""
    if aac.is_numpy_array(x):
        return x if x.flags.c_contiguous else None
    if aac.is_torch_array(x) and x.device.type == "cpu" and str(x.layout) == "torch.strided":
        plain = str(x.dtype) in _TORCH_DTYPES and not (x.is_conj() or x.is_neg())
        return np.asarray(x.detach().numpy()) if plain and x.is_contiguous() else None
    return None


@cache
def _load() -> Any:
    try:
        if importlib.import_module("numba").config.DISABLE_JIT:  # as for debugging
            return None
        return importlib.import_module("specdens._kernels")
    except (ImportError, OSError) as error:  # an installation that is broken is no reason not to compute
        warnings.warn(
            f"numba is installed but cannot be used ({error}); going on without compiled kernels, which is slower. "
            "Repair it, or set SPECDENS_FAST=0 to say so.",
            SpecdensWarning,
            stacklevel=2,
        )
        return None


# -- threads ---------------------------------------------------------------------------------------------------------


@cache
def num_threads() -> int:
    """Return how many threads to use: OMP_NUM_THREADS, as the libraries around do, or the processors there are."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(asked), processors) if asked.isdigit() and int(asked) > 0 else processors


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, num_threads() - 1), thread_name_prefix="specdens")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def in_threads(work: Callable[[], None], count: int) -> None:
    """Call work() in so many threads, of which this is one; a call does what the others have left to do."""
    others = [other for _ in range(1, count) if (other := _begin(work)) is not None]
    try:
        work()
    finally:  # nobody writes into memory after this, whatever work() has met
        for other in others:
            if not other.cancel():  # not begun: nothing is left to do
                other.result()


def _begin(work: Callable[[], None]) -> Future[None] | None:
    """Call work() in another thread, if there can be one: not when the main thread has ended, nor beyond a limit."""
    try:
        return _pool().submit(work)
    except RuntimeError:
        return None
