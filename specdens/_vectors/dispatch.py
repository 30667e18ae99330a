"""Choice of the implementation of the three-term pass. No other module decides this.

======================================= ===============================================================================
vectors                                 implementation
======================================= ===============================================================================
JAX                                     `jax.JaxVectors`: new arrays
on a device, or below MIN_THREADED      `base.Vectors`: the reference, chunk by chunk
one column of NumPy below MIN_THREADED   `numpy_passes.short_three_term`: the same, with less around it
on the host, from MIN_THREADED on       `numpy_passes`: NumPy, and SciPy for a CSR product, in parts and threads
on the host, from MIN_COMPILED on       `numba_kernels`, if numba is installed (the extra ``fast``)
======================================= ===============================================================================

Thresholds are in `tuning`. Nothing is compiled or imported before the first vector of MIN_COMPILED entries. The
environment variable ``SPECDENS_FAST=0`` switches compiled kernels off.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import array_api_compat as aac
import numpy as np

from specdens._exceptions import SpecdensWarning
from specdens._vectors import numpy_passes, tuning
from specdens._vectors.base import ThreeTerm, ignore_nonfinite

_TORCH_DTYPES = {f"torch.{name}" for name in ("float32", "float64", "complex64", "complex128")}

_enabled = os.environ.get("SPECDENS_FAST", "1") != "0"


@cache
def available() -> bool:
    """Return whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@contextmanager
def without() -> Iterator[None]:
    """Switch compiled kernels off within a context, as if numba were not installed."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before


def switch_off() -> None:
    """Use no compiled kernels from now on."""
    global _enabled
    _enabled = False


def compiles() -> bool:
    """Return whether code can be compiled: numba is installed and neither it nor the fast path is switched off."""
    return _enabled and available() and not importlib.import_module("numba").config.DISABLE_JIT


def serves(num_entries: int) -> bool:
    """Return whether compiled kernels are used for vectors of `num_entries` entries."""
    return _enabled and num_entries >= tuning.MIN_COMPILED and available()


@ignore_nonfinite
def three_term(task: ThreeTerm) -> tuple[Any, Any] | None:
    """Run a three-term pass on the host and return ⟨v, w⟩ and ⟨w, w⟩; None if the caller must use the reference."""
    size = math.prod(task.w.shape)
    compiled = serves(size)
    if not compiled and size < tuning.MIN_THREADED:
        is_column = type(task.w) is type(task.v) is np.ndarray and task.w.ndim == 1 and task.matrix is None
        return numpy_passes.short_three_term(task) if is_column else None
    w, v = host_view(task.w), host_view(task.v)
    v_prev = v if task.v_prev is None else host_view(task.v_prev)
    if w is None or v is None or v_prev is None:
        return None
    task = task._replace(w=w, v=v, v_prev=v_prev)
    kernels = _load() if compiled else None
    if kernels is not None:
        try:
            sums: tuple[Any, Any] = kernels.three_term(task)
            return sums
        except kernels.CompilationError as error:  # before anything was computed
            switch_off()
            warnings.warn(
                f"{error}; going on without compiled kernels, which is slower.", SpecdensWarning, stacklevel=4
            )
    return numpy_passes.three_term(task) if size >= tuning.MIN_THREADED else None


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
        if importlib.import_module("numba").config.DISABLE_JIT:  # set for debugging
            return None
        return importlib.import_module("specdens._vectors.numba_kernels")
    except (ImportError, OSError, AttributeError) as error:  # a broken installation: NumPy serves as well
        warnings.warn(
            f"numba is installed but cannot be used ({error}); going on without compiled kernels, which is slower. "
            "Repair it, or set SPECDENS_FAST=0 to say so.",
            SpecdensWarning,
            stacklevel=2,
        )
        return None
