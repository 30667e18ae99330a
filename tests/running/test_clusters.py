"""Real clusters: dask workers of which one is killed, and MPI ranks. Skipped where these are not installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from worker_operators import Diagonal, DiesOnce

import specdens as sd

HELPERS = Path(__file__).parents[1] / "helpers"
ENTRIES = np.concatenate([np.linspace(-1, 2, 198), [5.0, 9.0]])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # dask's and tornado's own, as a worker dies
@pytest.mark.skipif(not importlib.util.find_spec("distributed"), reason="needs dask[distributed]")
def test_a_dask_worker_that_is_killed_costs_no_result(tmp_path, monkeypatch):
    import distributed

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")]))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        found = sd.fast_lanczos(DiesOnce(ENTRIES, tmp_path), num_steps=30, num_probes=6, executor=executor)
        assert (tmp_path / "died").exists()
        expected = sd.fast_lanczos(Diagonal(ENTRIES), num_steps=30, num_probes=6, block_size=1)
        np.testing.assert_array_equal(found.alphas, expected.alphas)
        np.testing.assert_array_equal(found.betas, expected.betas)
        num_made = len(list(tmp_path.iterdir())) - 1
        assert num_made <= found.num_products + 3 * 31  # dask runs again what only the dead worker had


@pytest.mark.slow
@pytest.mark.skipif(
    not (importlib.util.find_spec("mpi4py") and shutil.which("mpirun")), reason="needs mpi4py and mpirun"
)
@pytest.mark.parametrize("what", ["rows", "probes"])
def test_mpi_ranks_agree_with_one_process(what):
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, HELPERS / "mpi_script.py"]
    done = subprocess.run([*command, what], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("of 2 agrees") == 2
