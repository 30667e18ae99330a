"""JAX arrays that are sharded over devices: four of them on the CPU, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "helpers" / "jax_shards.py"


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="needs jax")
@pytest.mark.parametrize("case", ["results", "messages"])
def test_sharded_vectors_are_never_gathered(case):
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, SCRIPT, case], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "agrees" in done.stdout
