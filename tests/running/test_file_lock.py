"""Checkpoints that others use, damage, remove or link elsewhere."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import specdens as sd

MATRIX = np.diag(np.linspace(-1, 1, 60))

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and locks of POSIX")


def during(num_steps: int, act):
    """Return a progress function that does something after so many steps."""
    seen = []

    def progress(_: sd.Progress) -> None:
        seen.append(1)
        if len(seen) == num_steps:
            act()

    return progress


@pytest.mark.slow
def test_a_second_process_is_refused_and_told_who_has_the_file(tmp_path):
    path, refusals = tmp_path / "run.npz", []
    script = (
        "import numpy as np, sys, specdens as sd\n"
        "sd.spectral_density(np.diag(np.linspace(-1, 1, 60)), num_steps=20, checkpoint=sys.argv[1])\n"
    )

    def other_process():
        done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
        refusals.append(done.stderr)

    density = sd.spectral_density(MATRIX, num_steps=20, checkpoint=path, progress=during(5, other_process))
    assert f"must not be in use; {str(path)!r} is used by process {os.getpid()} since 2" in refusals[0]
    np.testing.assert_array_equal(density.values, sd.spectral_density(MATRIX, num_steps=20).values)
    other_process()  # now it is free
    assert refusals[1] == ""
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_second_run_of_the_same_process_is_refused(tmp_path):
    path = tmp_path / "run.npz"

    def again():
        with pytest.raises(ValueError, match=f"is used by process {os.getpid()}"):
            sd.spectral_density(MATRIX, num_steps=20, checkpoint=path)

    sd.spectral_density(MATRIX, num_steps=20, checkpoint=path, progress=during(5, again))


LOCKS = """
import os, sys
from specdens._running.file_lock import FileLock, FileLockedError
lock = FileLock(sys.argv[1] + "/x")
lock.acquire()
child = os.fork()
if child == 0:
    os._exit(0 if lock._descriptor is None else 1)
assert os.waitpid(child, 0)[1] == 0, "inherited"
try:
    FileLock(sys.argv[1] + "/x").acquire()
except FileLockedError as error:
    assert f"process {os.getpid()} since 2" in str(error)
else:
    raise AssertionError("locked twice")
child = os.fork()
if child == 0:
    FileLock(sys.argv[1] + "/y").acquire()
    os._exit(0)  # without release, as if killed
os.waitpid(child, 0)
left = FileLock(sys.argv[1] + "/y")
left.acquire()
left.release()
lock.release()
"""


@pytest.mark.slow
def test_a_lock_dies_with_its_process_and_is_not_inherited(tmp_path):
    done = subprocess.run([sys.executable, "-c", LOCKS, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == []


def test_no_link_in_the_place_of_a_temporary_file_is_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in (".run.npz.tmp", ".run.npz.00000000.checkpoint"):
        (tmp_path / name).symlink_to(precious)
    sd.spectral_density(MATRIX, num_steps=5, checkpoint=tmp_path / "run.npz")
    assert precious.read_text() == "precious"
    (tmp_path / ".run.npz.lock").symlink_to(precious)
    with pytest.raises(ValueError, match="`checkpoint` must be writable"):
        sd.spectral_density(MATRIX, num_steps=5, checkpoint=tmp_path / "run.npz")
    assert precious.read_text() == "precious"


def test_what_killed_writes_have_left_is_removed(tmp_path):
    (tmp_path / ".run.npz.0123abcd.checkpoint").write_text("half")
    sd.spectral_density(MATRIX, num_steps=5, checkpoint=tmp_path / "run.npz")
    assert os.listdir(tmp_path) == ["run.npz"]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["removed", "truncated", "flipped", "emptied", "a folder"])
def test_a_file_that_is_damaged_during_the_run_does_not_end_it(damage, tmp_path):
    path = tmp_path / "run.npz"

    def act():
        content = bytearray(path.read_bytes())
        path.unlink()
        if damage == "truncated":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "flipped":
            position = content.index(b"top_eigenpairs/vectors.npy") + 400
            content[position] ^= 1
            path.write_bytes(content)
        elif damage == "emptied":
            path.write_bytes(b"")
        elif damage == "a folder":
            path.mkdir()

    settings = {"num_steps": 20, "rank": 2, "num_probes": 9}
    whole = sd.spectral_density(MATRIX, **settings)

    def progress(state: sd.Progress) -> None:
        if state.stage == "fast_lanczos" and state.num_products == 1 + 8 * 10:
            act()

    if damage == "removed":
        density = sd.spectral_density(
            MATRIX, checkpoint=path, checkpoint_interval=0, progress=progress, **settings
        )  # fmt: skip
    else:
        with pytest.warns(sd.SpecdensWarning, match=r"damaged by others|could not be written"):
            density = sd.spectral_density(
                MATRIX, checkpoint=path, checkpoint_interval=0, progress=progress, **settings
            )  # fmt: skip
    np.testing.assert_array_equal(density.values, whole.values)
    if damage != "a folder":  # the file is whole again, and the run can be read from it
        again = sd.spectral_density(MATRIX, checkpoint=path, **settings)
        np.testing.assert_array_equal(again.values, whole.values)


def test_a_link_to_another_file_system_is_written_behind_the_link(tmp_path):
    elsewhere = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(dir=elsewhere))
    try:
        (tmp_path / "run.npz").symlink_to(folder / "real.npz")
        sd.spectral_density(MATRIX, num_steps=5, checkpoint=tmp_path / "run.npz")
        assert os.listdir(folder) == ["real.npz"]
        assert (tmp_path / "run.npz").is_symlink()
        longer = sd.spectral_density(MATRIX, num_steps=9, checkpoint=tmp_path / "run.npz")
        np.testing.assert_array_equal(longer.values, sd.spectral_density(MATRIX, num_steps=9).values)
    finally:
        shutil.rmtree(folder)


def test_a_checkpoint_that_others_must_not_read_stays_so(tmp_path):
    path = tmp_path / "run.npz"
    sd.spectral_density(MATRIX, num_steps=5, checkpoint=path)
    path.chmod(0o600)
    sd.spectral_density(MATRIX, num_steps=9, checkpoint=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
