"""A cache of compiled code that is truncated or cannot be written: the run goes on, and says so once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

SCRIPT = """
import resource, sys, warnings
import numpy as np, scipy.sparse as sp
if len(sys.argv) > 1:
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # every write fails, as on a full disk
warnings.simplefilter("always")
import specdens as sd
A = sp.diags_array(np.linspace(-1, 1, 2**18)).tocsr()
with warnings.catch_warnings(record=True) as seen:
    measure = sd.fast_lanczos(A, num_steps=8, num_probes=2)
print(measure.alphas[0].sum().hex(), [str(each.message) for each in seen if each.category is sd.SpecdensWarning])
"""


def run(folder, *arguments):
    """Run the script with a cache of its own; return the sum and the warnings."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", SCRIPT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    number, _, messages = done.stdout.partition(" ")
    return float.fromhex(number), messages


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_broken_cache_does_not_end_a_run(tmp_path):
    expected, messages = run(tmp_path)
    assert messages.strip() == "[]"
    files = [path for path in tmp_path.rglob("*.nb?") if path.suffix in (".nbi", ".nbc")]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[: 0 if path.suffix == ".nbi" else 10])
    found, messages = run(tmp_path)
    assert found == pytest.approx(expected, abs=1e-9)
    assert messages.count("compiled kernels cannot be used") == 1
    assert f"Empty the folder {tmp_path}" in messages


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_full_disk_under_the_cache_does_not_end_a_run(tmp_path):
    expected, _ = run(tmp_path / "good")
    found, _ = run(tmp_path / "full", "full")
    assert found == pytest.approx(expected, abs=1e-9)
