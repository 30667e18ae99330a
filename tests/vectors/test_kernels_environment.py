"""The fast path and what is around it: threads, forks, the environment, an installation of numba that is broken."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import specdens as sd
from specdens._vectors import dispatch, tuning
from specdens._vectors.base import Terms
from specdens._vectors.factory import vectors_like

pytest.importorskip("numba")

pytestmark = pytest.mark.slow


def test_threads_are_made_anew_after_a_fork():
    code = (
        "import os, numpy as np, scipy.sparse as sp, specdens as sd\n"
        "A = sp.diags_array(np.linspace(-1, 1, 2**18)).tocsr()\n"
        "run = lambda: sd.fast_lanczos(A, num_steps=3).alphas[0].tolist()\n"
        "here = run()\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if run() == here else 1)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    environment = {"OMP_NUM_THREADS": "2", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["0"]


@pytest.mark.parametrize("fast", ["0", "1"])
def test_a_run_in_another_thread_goes_on_when_the_main_thread_has_ended(fast):
    code = (
        "import threading, numpy as np, scipy.sparse as sp, specdens as sd\n"
        "A = sp.diags_array(np.linspace(-1, 1, 2**19)).tocsr()\n"
        "expected = sd.fast_lanczos(A, num_steps=3).alphas\n"
        "def later():\n"
        "    threading.main_thread().join()\n"
        "    print(np.array_equal(sd.fast_lanczos(A, num_steps=3).alphas, expected))\n"
        "threading.Thread(target=later).start()\n"
    )
    environment = {"OMP_NUM_THREADS": "2", "SPECDENS_FAST": fast, "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["True"], done.stderr


def test_kernels_know_the_lanes_that_they_are_compiled_with():
    from specdens._vectors import numba_kernels, numba_lanes

    found = hashlib.sha256(Path(numba_lanes.__file__).read_bytes()).hexdigest()[:16]
    assert found == numba_kernels.LANES, f"set LANES in numba_kernels.py to {found}: code compiled before is old"


def broken(error):
    def load(name):
        raise error

    return load


ERRORS = [ImportError("no such symbol"), OSError("no such library"), AttributeError("no such name")]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_a_broken_numba_is_said_and_done_without(error, monkeypatch):
    x = np.ones(tuning.MIN_COMPILED)
    vectors = vectors_like(x)  # before nothing can be imported any more
    monkeypatch.setattr(dispatch.importlib, "import_module", broken(error))
    dispatch._load.cache_clear()
    try:
        with pytest.warns(sd.SpecdensWarning, match=r"numba is installed but cannot be used .*SPECDENS_FAST=0"):
            _, _, ww = vectors.three_term(x, x, None, Terms())
    finally:
        dispatch._load.cache_clear()
    assert ww == tuning.MIN_COMPILED


@pytest.mark.parametrize(
    ("name", "value", "loaded"),
    [("SPECDENS_FAST", "0", "False"), ("SPECDENS_FAST", "1", "True"), ("NUMBA_DISABLE_JIT", "1", "False")],
)
def test_the_environment_switches_the_fast_path(name, value, loaded):
    code = (
        "import sys, numpy as np, specdens as sd\n"
        "A = sd.as_operator(lambda x: np.arange(2**18) * x, shape=2**18, dtype='float64')\n"
        "sd.fast_lanczos(A, num_steps=3)\n"
        "print('specdens._vectors.numba_kernels' in sys.modules)\n"
    )
    environment = {name: value, "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == [loaded]
