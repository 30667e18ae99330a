"""The identity of a run: a checkpoint continues the run that wrote it, and no other."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from spectra import rotated

import specdens as sd
from specdens._vectors import dispatch

MATRIX = rotated(np.concatenate([[30.0, -20.0, 12.0], np.linspace(-1, 1, 197)]))


def large_diagonal(n: int = 10**6) -> np.ndarray:
    """Return a bulk in [−1, 1] and the outliers 3, 4 and 5."""
    return np.concatenate([np.linspace(-1, 1, n - 3), [3.0, 4.0, 5.0]]).astype("float32")


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [(3, 0), (0, 3)])
def test_a_checkpoint_of_another_rank_is_refused(first, second, tmp_path):
    A = sp.diags_array(large_diagonal()).tocsr()
    settings = {"num_steps": 12, "checkpoint": tmp_path / "run.npz", "progress": False}
    sd.spectral_density(A, rank=first, **settings)
    with pytest.raises(
        ValueError, match=f"made with rank={first}; asked for rank={second}.*another rank is another run"
    ):
        sd.spectral_density(A, rank=second, **settings)


@pytest.mark.parametrize("change", [{"method": "kpm"}, {"rank": 2}, {"seed": 1}, {"function": "log"}])
def test_whatever_shaped_a_run_is_part_of_its_identity(change, tmp_path):
    settings = {"num_steps": 10, "rank": 1, "seed": 0, "checkpoint": tmp_path / "run.npz"}
    sd.spectral_density(MATRIX, **settings)
    with pytest.raises(ValueError, match=f"another {next(iter(change))} is another run"):
        sd.spectral_density(MATRIX, **{**settings, **change})


def test_deflated_eigenpairs_are_part_of_the_identity_of_an_operator(tmp_path):
    pairs = sd.top_eigenpairs(MATRIX, rank=3)
    sd.fast_lanczos(sd.deflate(MATRIX, pairs), num_steps=10, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))
    with pytest.raises(ValueError, match="made with number of deflated eigenvalues 3; the operator has 0"):
        sd.fast_lanczos(MATRIX, num_steps=10, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))


@pytest.mark.parametrize("index", [0, 123_456, 999_999])
def test_one_eigenvalue_of_a_million_that_moves_is_another_operator(index, tmp_path):
    diagonal = large_diagonal()
    sd.fast_lanczos(sp.diags_array(diagonal).tocsr(), num_steps=3, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))
    diagonal[index] += 0.01
    with pytest.raises(ValueError, match="it belongs to another operator"):
        sd.fast_lanczos(
            sp.diags_array(diagonal).tocsr(), num_steps=3, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz")
        )


def test_an_eigenvalue_that_moves_along_any_eigenvector_is_another_operator(tmp_path):
    n = 4000
    u = np.random.default_rng(0).standard_normal(n).astype("float32")
    u /= np.linalg.norm(u)
    diagonal = np.linspace(-1, 1, n).astype("float32")
    operators = [
        sd.as_operator(lambda x, s=shift: diagonal * x + np.float32(s) * u * (u @ x), shape=n, dtype="float32")
        for shift in (1.0, 1.1)
    ]
    sd.fast_lanczos(operators[0], num_steps=5, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))
    with pytest.raises(ValueError, match="it belongs to another operator"):
        sd.fast_lanczos(operators[1], num_steps=5, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))


def interrupt_after(num_steps: int):
    """Return a progress function that presses Control-C after so many steps."""
    seen = []

    def progress(state: sd.Progress) -> None:
        seen.append(state)
        if len(seen) == num_steps:
            raise KeyboardInterrupt

    return progress


def test_kernels_switched_off_between_kill_and_resumption_are_noted(tmp_path):
    pytest.importorskip("numba")
    path = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        sd.spectral_density(MATRIX, num_steps=30, checkpoint=path, progress=interrupt_after(10))
    with dispatch.without():
        density = sd.spectral_density(MATRIX, num_steps=30, checkpoint=path)
    assert [note for note in density.notes if "resumed with compiled kernels on, now off: not bit for bit" in note]
    again = sd.spectral_density(MATRIX, num_steps=30, checkpoint=path)
    assert any("compiled kernels on, now off" in note for note in again.notes)  # still true of its first half


def test_an_undisturbed_resumption_notes_nothing(tmp_path):
    path = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        sd.spectral_density(MATRIX, num_steps=30, num_probes=1, checkpoint=path, progress=interrupt_after(10))
    assert sd.spectral_density(MATRIX, num_steps=30, num_probes=1, checkpoint=path).notes == ()


@pytest.mark.slow
def test_another_number_of_threads_is_noted(tmp_path):
    script = (
        "import numpy as np, sys, specdens as sd\n"
        "A = np.diag(np.linspace(-1, 1, 50))\n"
        f"path, steps = {str(tmp_path / 'run.npz')!r}, int(sys.argv[1])\n"
        "d = sd.spectral_density(A, num_steps=steps, num_probes=1, checkpoint=path)\n"
        "print(d.notes)\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script, steps], capture_output=True, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": threads},
        ).stdout
        for steps, threads in (("5", "1"), ("9", "2"))
    ]  # fmt: skip
    assert outputs[0].strip() == "()"
    assert "OMP_NUM_THREADS 1, now 2" in outputs[1]


def test_products_that_differ_by_rounding_are_noted(tmp_path):
    sd.spectral_density(MATRIX, num_steps=10, checkpoint=tmp_path / "run.npz")
    density = sd.spectral_density(MATRIX * (1 + 1e-14), num_steps=12, checkpoint=tmp_path / "run.npz")
    assert any("products differ by" in note for note in density.notes)
