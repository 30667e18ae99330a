"""What `import specdens` brings in, and what it offers."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import specdens as sd

CONTRACT = (
    "LinearOperator",
    "as_operator",
    "check_operator",
    "fast_lanczos",
    "slow_lanczos",
    "kpm",
    "spectral_bounds",
    "normalize",
    "subspace_iteration",
    "top_eigenpairs",
    "deflate",
    "spectral_density",
)


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("work", ["", "sd.fast_lanczos([[1.0, 0.0], [0.0, 2.0]]).density()"], ids=["import", "use"])
def test_importing_and_using_specdens_imports_no_optional_library(work):
    optional = ("torch", "matplotlib", "jax", "numba", "sklearn", "cupy", "array_api_strict", "specdens_torch")
    loaded = run(f"import sys, specdens as sd; {work or 'pass'}; print(*sorted(sys.modules))").split()
    assert "specdens" in loaded
    assert not set(optional) & set(loaded)


def test_importing_specdens_warns_of_nothing_and_prints_nothing():
    assert run("import warnings; warnings.simplefilter('error'); import specdens") == ""


def test_all_is_sorted_without_repetition():
    assert list(sd.__all__) == sorted(set(sd.__all__))


def test_all_is_complete():
    def ours(value):
        home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
        return home.split(".")[0] == "specdens"

    public = {name for name, value in vars(sd).items() if not name.startswith("_") and ours(value)}
    assert public == {name for name in sd.__all__ if not name.startswith("_")}


@pytest.mark.parametrize("name", CONTRACT)
def test_every_name_of_the_contract_is_exported_and_documented(name):
    assert name in sd.__all__
    assert getattr(sd, name).__doc__


def test_results_of_the_contract_have_the_names_that_scripts_rely_on():
    measure = sd.fast_lanczos([[1.0, 0.5], [0.5, 2.0]])
    density = measure.density()
    for name in (
        *("alphas", "betas", "nodes", "weights", "density", "log_density", "density_of", "cdf", "cdf_bounds"),
        *("quantile", "count", "trace", "convergence"),
    ):
        assert hasattr(measure, name), name
    for name in ("grid", "values", "stderr", "axis", "plot", "atoms", "mass", "mass_outside", "cdf", "measure"):
        assert hasattr(density, name), name
    assert sd.spectral_bounds([[1.0]])._fields == ("lo", "hi")
    assert measure.trace(abs)._fields == ("value", "stderr")
