"""What all tests share: Hypothesis profiles and the registry of array libraries."""

from __future__ import annotations

import importlib.util
import os

# One thread per test process: small matrices do not pay for two, and pytest-xdist uses the cores already.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile("dev", max_examples=25, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=200, deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", max_examples=2000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

# The core is tested without torch, too.
collect_ignore = ["helpers"] if importlib.util.find_spec("torch") else ["helpers", "adapter_torch"]

LIBRARIES = ("numpy", "torch", "jax.numpy", "array_api_strict")
SLOW_LIBRARIES = {"jax.numpy": pytest.mark.slow}  # it compiles every operation anew for every shape


class Library:
    """One array library: how to make its arrays, and in which precision it is tested."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.xp = pytest.importorskip(name)

    @property
    def real(self) -> str:
        """The most precise real dtype: JAX computes in float32 unless its user says otherwise."""
        return "float32" if self.name == "jax.numpy" else "float64"

    @property
    def complex(self) -> str:
        return "complex64" if self.name == "jax.numpy" else "complex128"

    @property
    def rtol(self) -> float:
        """What a few hundred operations leave of the dtype's precision."""
        return 1e-4 if self.name == "jax.numpy" else 1e-10

    def array(self, values, dtype: str | None = None):
        """Return values as an array of this library; the default dtype is its most precise one."""
        values = np.asarray(values)
        if dtype is None:
            dtype = self.complex if np.iscomplexobj(values) else self.real
        return self.xp.asarray(values.astype(dtype).copy())

    def __repr__(self) -> str:
        return self.name


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.slow) if name == "jax.numpy" else name for name in LIBRARIES]
)
def library(request) -> Library:
    """Every array library in turn."""
    return Library(request.param)


@pytest.fixture(scope="module", params=["reference", "fast"])
def _both_paths(request):
    """Run a module's laws on the reference path, then on compiled kernels for vectors of any size."""
    from specdens._vectors import dispatch, tuning

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "fast":
            pytest.importorskip("numba")
            patch.setattr(tuning, "MIN_COMPILED", 1)
            patch.setattr(tuning, "MIN_THREADED", 1)
        else:
            patch.setattr(dispatch, "_enabled", False)
        yield
