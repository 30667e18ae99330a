"""A few seconds of every fuzzer; the long version is ``python tests/fuzz/files.py all 10000``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("click")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGALRM")
@pytest.mark.parametrize("kind", ["result", "by-hand", "checkpoint", "sparse", "mtx", "mtx.gz", "npy"])
def test_damaged_files_are_refused_or_read_as_they_were(kind):
    command = [sys.executable, Path(__file__).with_name("files.py"), kind, "150", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # a crash has a negative code
    report = json.loads(done.stdout)
    assert report["refused"] + report["same"] + report["read"] == 150
    assert report["refused"] > 15
