"""Checkpoints: whatever happens to a run, nothing is lost and nothing is mixed up."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from spectra import rotated

import specdens as sd
from specdens._running.checkpoint import CheckpointFile

MATRIX = rotated(np.concatenate([[30.0, -20.0, 12.0], np.linspace(-1, 1, 197)]))


def coefficients(density) -> np.ndarray:
    """Return what must not depend on interruptions."""
    measure = density.measure
    parts = [measure.mus.ravel()] if isinstance(measure, sd.ChebyshevMoments) else [*measure.alphas, *measure.betas]
    pairs = density.outliers
    return np.concatenate([*parts, density.values, *([] if pairs is None else [pairs.values, pairs.vectors.ravel()])])


def interrupt_after(num_steps: int):
    """Return a progress function that presses Control-C after so many steps."""
    seen = []

    def progress(state: sd.Progress) -> None:
        seen.append(state)
        if len(seen) == num_steps:
            raise KeyboardInterrupt

    return progress


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("method", "num_kills"), [("fast_lanczos", 15), ("slow_lanczos", 6), ("kpm", 6)])
def test_a_run_killed_at_any_moment_resumes_bit_for_bit(method, num_kills, tmp_path):
    script = Path(__file__).parents[1] / "fuzz" / "kill_runs.py"
    command = [sys.executable, script, tmp_path, method, str(num_kills)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["equal"]
    assert report["between"] + report["in a write"] >= num_kills // 2
    assert report["in a write"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kwargs", [{}, {"method": "slow_lanczos"}, {"method": "kpm"}, {"tol": 0.004}, {"rank": 0}])
@pytest.mark.parametrize("num_steps", [5, 60])
def test_an_interrupted_run_is_saved_and_continues_bit_for_bit(kwargs, num_steps, tmp_path):
    settings = {"rank": 3, "num_probes": 2, "num_steps": 64, **kwargs}
    whole = sd.spectral_density(MATRIX, progress=False, **settings)
    path = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt) as caught:
        sd.spectral_density(MATRIX, checkpoint=path, progress=interrupt_after(num_steps), **settings)
    assert "make the same call again" in caught.value.__notes__[0]
    resumed = sd.spectral_density(MATRIX, checkpoint=path, progress=False, **settings)
    np.testing.assert_array_equal(coefficients(resumed), coefficients(whole))


def test_a_finished_run_is_read_from_its_file_with_one_product_to_know_the_operator(tmp_path):
    A = sd.Counted(MATRIX)
    first = sd.spectral_density(A, num_steps=30, checkpoint=tmp_path / "run.npz")
    A.num_products = 0
    again = sd.spectral_density(A, num_steps=30, checkpoint=tmp_path / "run.npz")
    assert A.num_products == 1
    np.testing.assert_array_equal(coefficients(again), coefficients(first))


@pytest.mark.parametrize("block_size", [1, 2])
def test_more_steps_and_probes_extend_a_checkpoint(block_size, tmp_path):
    monitor = lambda: sd.Monitor(checkpoint=tmp_path / "run.npz")  # noqa: E731
    sd.fast_lanczos(MATRIX, num_steps=20, num_probes=2, block_size=block_size, monitor=monitor())
    longer = sd.fast_lanczos(MATRIX, num_steps=50, num_probes=4, block_size=block_size, monitor=monitor())
    whole = sd.fast_lanczos(MATRIX, num_steps=50, num_probes=4, block_size=block_size)
    for found, expected in zip(longer.alphas, whole.alphas, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_fewer_steps_than_the_checkpoint_has_give_the_shorter_measure(tmp_path):
    monitor = lambda: sd.Monitor(checkpoint=tmp_path / "run.npz")  # noqa: E731
    sd.fast_lanczos(MATRIX, num_steps=40, num_probes=2, monitor=monitor())
    shorter = sd.fast_lanczos(MATRIX, num_steps=15, num_probes=2, monitor=monitor())
    expected = sd.fast_lanczos(MATRIX, num_steps=15, num_probes=2)
    np.testing.assert_array_equal(shorter.alphas[1], expected.alphas[1])
    np.testing.assert_array_equal(shorter.last_betas, expected.last_betas)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "made with seed=0; asked for seed=1. More steps or probes are fine; another seed is another run"),
        ({"block_size": 1}, "made with block_size=2; asked for block_size=1"),
        ({"probes": "rademacher"}, "made with probes=gaussian; asked for probes=rademacher"),
    ],
)
def test_other_settings_are_refused_with_the_difference_named(change, message, tmp_path):
    settings = {"num_steps": 10, "num_probes": 2, "seed": 0, "block_size": 2}
    sd.fast_lanczos(MATRIX, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"), **settings)
    with pytest.raises(ValueError, match=message):
        sd.fast_lanczos(MATRIX, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"), **{**settings, **change})


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (MATRIX[:100, :100], "made with n=200; the operator has 100"),
        (MATRIX.astype("float32"), "made with dtype=float64; the operator has float32"),
        (MATRIX + 1e-3 * np.eye(200), "it belongs to another operator"),
    ],
)
def test_another_operator_is_refused(other, message, tmp_path):
    sd.spectral_density(MATRIX, num_steps=10, checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match=message):
        sd.spectral_density(other, num_steps=10, checkpoint=tmp_path / "run.npz")


def test_an_operator_that_differs_by_rounding_is_the_same(tmp_path):
    sd.spectral_density(MATRIX, num_steps=10, checkpoint=tmp_path / "run.npz")
    rounded = MATRIX * (1 + 1e-14)
    assert sd.spectral_density(rounded, num_steps=10, checkpoint=tmp_path / "run.npz").measure.num_steps == 10


def test_truncated_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    sd.spectral_density(MATRIX, num_steps=10, checkpoint=path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"something else"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="not a checkpoint of specdens, or is truncated"):
            sd.spectral_density(MATRIX, num_steps=10, checkpoint=path)
    np.savez(path, x=np.ones(3))
    with pytest.raises(ValueError, match="not a checkpoint"):
        sd.spectral_density(MATRIX, num_steps=10, checkpoint=path)


def test_a_file_of_another_version_says_so(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, header=np.array(json.dumps({"format": "specdens checkpoint", "version": 999, "settings": {}})))
    with pytest.raises(ValueError, match="version 999; this version of specdens reads 'specdens checkpoint', version"):
        sd.spectral_density(MATRIX, num_steps=10, checkpoint=path)


def test_a_full_disk_does_not_end_the_run_and_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    sd.spectral_density(MATRIX, num_steps=10, checkpoint=path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(sd.SpecdensWarning, match="could not be written .*No space left.* the run goes on"):
        density = sd.spectral_density(MATRIX, num_steps=20, checkpoint=path)
    assert density.measure.num_steps == 20
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_a_folder_that_does_not_exist_is_refused_before_any_product(tmp_path):
    A = sd.Counted(MATRIX)
    with pytest.raises(ValueError, match="`checkpoint` must lie in a folder that exists"):
        sd.spectral_density(A, checkpoint=tmp_path / "nowhere" / "run.npz")
    assert A.num_products == 0


def test_a_folder_that_cannot_be_written_is_refused_before_any_product(tmp_path, monkeypatch):
    def denied(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    A = sd.Counted(MATRIX)
    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(ValueError, match=r"`checkpoint` must be writable.*Permission denied"):
        sd.spectral_density(A, checkpoint=tmp_path / "run.npz")
    assert A.num_products == 0


def test_a_disk_that_is_too_small_is_refused_before_any_product(tmp_path, monkeypatch):
    A = sd.Counted(MATRIX)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(ValueError, match=r"`checkpoint` needs .* GiB of disk"):
        sd.spectral_density(A, method="fast_lanczos", checkpoint=tmp_path / "run.npz")
    assert A.num_products == 0


def test_eigenpairs_and_subspace_iteration_resume_bit_for_bit(tmp_path):
    for name, find in (("top", sd.top_eigenpairs), ("subspace", sd.subspace_iteration)):
        path = tmp_path / f"{name}.npz"
        whole = find(MATRIX, rank=3)
        with pytest.raises(KeyboardInterrupt):
            find(MATRIX, rank=3, monitor=sd.Monitor(progress=interrupt_after(3), checkpoint=path))
        resumed = find(MATRIX, rank=3, monitor=sd.Monitor(checkpoint=path))
        np.testing.assert_array_equal(resumed.values, whole.values)
        np.testing.assert_array_equal(resumed.vectors, whole.vectors)


def test_a_checkpoint_of_torch_vectors_resumes_bit_for_bit(tmp_path):
    torch = pytest.importorskip("torch")
    A = torch.asarray(MATRIX)
    whole = sd.fast_lanczos(A, num_steps=40)
    monitor = sd.Monitor(checkpoint=tmp_path / "run.npz", progress=interrupt_after(17))
    with pytest.raises(KeyboardInterrupt):
        sd.fast_lanczos(A, num_steps=40, monitor=monitor)
    resumed = sd.fast_lanczos(A, num_steps=40, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))
    np.testing.assert_array_equal(resumed.alphas[0], whole.alphas[0])


def test_arrays_that_did_not_change_are_carried_over(tmp_path):
    file = CheckpointFile(tmp_path / "x.npz")
    file.write({"a": 1}, {"old": lambda: np.arange(5)})
    file.write({"stages": {}, "a": 2}, {"new": lambda: np.arange(3)}, unchanged=["old"])
    assert file.read_settings() == {"stages": {}, "a": 2}
    np.testing.assert_array_equal(file.read("old"), np.arange(5))
    np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["new"], np.arange(3))


def test_other_start_vectors_are_refused(tmp_path):
    first, second = np.eye(200)[0], np.eye(200)[1]
    sd.fast_lanczos(MATRIX, num_steps=10, probes=first, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))
    with pytest.raises(ValueError, match=r"made with probes=given .*; asked for probes=given"):
        sd.fast_lanczos(MATRIX, num_steps=10, probes=second, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))


def test_one_monitor_does_not_mix_two_operators(tmp_path):
    monitor = sd.Monitor(checkpoint=tmp_path / "run.npz")
    sd.fast_lanczos(MATRIX, num_steps=10, monitor=monitor)
    with pytest.raises(ValueError, match="it belongs to another operator"):
        sd.fast_lanczos(-MATRIX, num_steps=10, monitor=monitor)


def test_more_probes_extend_a_checkpoint_of_the_front_door(tmp_path):
    sd.spectral_density(MATRIX, num_probes=2, num_steps=20, checkpoint=tmp_path / "run.npz", seed=np.int64(3))
    density = sd.spectral_density(MATRIX, num_probes=4, num_steps=20, checkpoint=tmp_path / "run.npz", seed=3)
    assert density.measure.num_probes == 4


def test_a_run_that_loses_its_connection_is_saved(tmp_path):
    def product(x):
        product.count += 1
        if product.count == 30:
            raise ConnectionError("the other processes are gone")
        return MATRIX @ x

    product.count = 0
    A = sd.as_operator(product, shape=200, dtype="float64")
    monitor = sd.Monitor(checkpoint=tmp_path / "run.npz", progress=False)
    with pytest.raises(ConnectionError, match="are gone"):
        sd.fast_lanczos(A, num_steps=40, monitor=monitor)
    found = sd.fast_lanczos(A, num_steps=40, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz", progress=False))
    assert product.count < 60  # 30, what was left of 40 steps, and the product by which the operator is known
    np.testing.assert_array_equal(found.alphas, sd.fast_lanczos(A, num_steps=40).alphas)
