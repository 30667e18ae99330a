"""Checkpoints of operators with rows on several ranks: one part each, all of the same step, or none."""

from __future__ import annotations

import numpy as np
import pytest
from ranks import on_ranks, row_range
from slow_cases import slow_after, slow_except
from spectra import rotated

import specdens as sd
from specdens._running import part_checkpoint
from specdens._storage.npz import write_npz

N = 90
MATRIX = rotated(np.concatenate([np.linspace(-1.0, 2.0, N - 2), [5.0, 9.0]]), 1)


@pytest.fixture(autouse=True)
def writes_at_every_step(monkeypatch):
    monkeypatch.setattr("specdens._running.monitor._PAUSE", 0.0)


class Killed(Exception):
    """What ends a rank in the middle of a run."""


class Rows:
    """The rows of one rank, with a count of its products and an end after some of them."""

    def __init__(self, comm, *, last: float = np.inf, matrix=MATRIX) -> None:
        self.comm, self.last, self.num_products = comm, last, 0
        self.rows = row_range(len(matrix), comm)
        self.matrix = matrix[self.rows.start : self.rows.stop]
        self.A = sd.RowDistributed(
            self.product, rows=self.rows, dimension=len(matrix), reduce=comm.allreduce, dtype="float64"
        )

    def product(self, x):
        self.num_products += 1
        if self.num_products > self.last:
            raise Killed
        return self.matrix @ np.concatenate(self.comm.allgather(x))


RUNS = {
    "fast_lanczos": lambda A, **monitor: sd.spectral_density(A, num_steps=30, num_probes=3, **monitor).measure,
    "slow_lanczos": lambda A, **monitor: sd.spectral_density(A, method="slow_lanczos", num_steps=30, **monitor).measure,
    "kpm": lambda A, **monitor: sd.spectral_density(A, method="kpm", num_steps=20, **monitor).measure,
    "rank": lambda A, **monitor: sd.spectral_density(A, rank=2, num_steps=25, num_probes=1, **monitor).measure,
}


def numbers(measure):
    return measure.mus if hasattr(measure, "mus") else np.concatenate([*measure.alphas, *measure.betas])


@pytest.mark.parametrize("num_ranks", slow_after(1, [2, 3]))
@pytest.mark.parametrize("name", slow_except({"fast_lanczos", "rank"}, RUNS))
def test_a_run_that_ends_anywhere_goes_on_bit_for_bit(name, num_ranks, tmp_path):
    run = RUNS[name]
    whole = on_ranks(num_ranks, lambda comm: numbers(run(Rows(comm).A, progress=False)))
    options = {"checkpoint": tmp_path / "run.npz", "checkpoint_interval": 0, "progress": False}

    def killed(comm):
        with pytest.raises(Killed):
            run(Rows(comm, last=60 if name == "kpm" else 17).A, **options)  # after the bounds of kpm

    on_ranks(num_ranks, killed)
    names = sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".npz")
    assert len([each for each in names if ".rows" in each]) == num_ranks
    assert "run.npz" in names

    def resumed(comm):
        rows = Rows(comm)
        return numbers(run(rows.A, **options)), rows.num_products

    def uninterrupted(comm):
        rows = Rows(comm)
        run(rows.A, progress=False)
        return rows.num_products

    for (found, num_products), expected, all_products in zip(
        on_ranks(num_ranks, resumed), whole, on_ranks(num_ranks, uninterrupted), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
        assert num_products < all_products


def test_parts_of_which_one_cannot_be_written_leave_the_step_before(tmp_path, monkeypatch):
    options = {"checkpoint": tmp_path / "run.npz", "checkpoint_interval": 0, "progress": False}
    broken = {"after": np.inf}

    def write(path, *args, **kwargs):
        if ".rows0." not in str(path) and str(path) != str(options["checkpoint"]):
            broken["after"] -= 1
            if broken["after"] < 0:
                raise OSError("the disk is full")
        write_npz(path, *args, **kwargs)

    monkeypatch.setattr("specdens._running.checkpoint.write_npz", write)
    broken["after"] = 5

    def work(comm):
        return sd.fast_lanczos(
            Rows(comm).A, num_steps=12, monitor=sd.Monitor(**options)
        ).num_products  # fmt: skip

    with pytest.warns(sd.SpecdensWarning, match="could not be written"):
        on_ranks(2, work)
    generations = {path.name.split(".")[-2] for path in tmp_path.iterdir() if ".rows" in path.name}
    assert generations == {"5"}
    broken["after"] = np.inf

    def resumed(comm):
        rows = Rows(comm)
        measure = sd.fast_lanczos(rows.A, num_steps=12, monitor=sd.Monitor(**options))
        return measure.alphas[0], rows.num_products

    expected = sd.fast_lanczos(MATRIX, num_steps=12).alphas[0]
    for found, num_products in on_ranks(2, resumed):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
        assert 2 < num_products < 12


def test_another_operator_on_one_rank_is_refused_on_all(tmp_path):
    options = {"checkpoint": tmp_path / "run.npz", "progress": False}

    def work(comm, *, other=0.0):
        matrix = MATRIX + other * np.eye(N) if comm.rank else MATRIX
        sd.spectral_density(Rows(comm, matrix=matrix).A, num_steps=8, num_probes=1, **options)

    on_ranks(2, work)

    def refused(comm):
        words = "another process has refused its part" if comm.rank == 0 else "belongs to another operator"
        with pytest.raises(ValueError, match=words):
            work(comm, other=1.0)

    on_ranks(2, refused)


def test_other_numbers_of_ranks_missing_parts_and_plain_checkpoints_are_refused(tmp_path):
    options = {"checkpoint": tmp_path / "run.npz", "progress": False, "num_steps": 8, "num_probes": 1}
    on_ranks(2, lambda comm: sd.spectral_density(Rows(comm).A, **options))
    with pytest.raises(ValueError, match="it is 'specdens checkpoint in parts'"):
        sd.spectral_density(MATRIX, **options)

    def missing(comm):
        with pytest.raises(ValueError, match=r"the part run.rows\d+.\d+.npz is missing|another process has refused"):
            sd.spectral_density(Rows(comm).A, **options)

    on_ranks(3, missing)
    plain = {**options, "checkpoint": tmp_path / "plain.npz"}
    sd.spectral_density(MATRIX, **plain)

    def foreign(comm):
        with pytest.raises(ValueError, match="it is 'specdens checkpoint', version"):
            sd.spectral_density(Rows(comm).A, **plain)

    on_ranks(2, foreign)


def test_a_manifest_in_use_is_refused_on_all_ranks(tmp_path):
    manifest = tmp_path / "run.npz"
    lock = part_checkpoint.FileLock(manifest)
    lock.acquire()

    def refused(comm):
        words = "another process has refused its part" if comm.rank else "must not be in use"
        with pytest.raises(ValueError, match=words):
            sd.spectral_density(Rows(comm).A, num_steps=8, num_probes=1, checkpoint=manifest, progress=False)

    try:
        on_ranks(2, refused)
    finally:
        lock.release()
