"""Curvature whose data are shared by two processes of torch.distributed: the numbers of one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import specdens_torch as sdt
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch_processes import run_ranks

import specdens as sd

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="needs gloo"),
]
SCRIPT = Path(__file__).parents[1] / "helpers" / "torch_ranks.py"


@pytest.mark.parametrize(
    "case", ["products", "payload", "densities", "disagreement", "differences", "other_calls", "threads"]
)
def test_two_processes_agree_with_one(case, tmp_path):
    for code, out, err in run_ranks([SCRIPT, case, tmp_path]):
        assert code == 0, err[-3000:]
        assert "agrees" in out


def test_a_rank_that_dies_ends_the_other_and_the_checkpoint_goes_on(tmp_path):
    (code, out, err), (died, _, _) = run_ranks([SCRIPT, "death", tmp_path])
    assert code == 0, err[-3000:]
    assert "rank 0 was told" in out
    assert died == 7
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".npz"] == ["run.npz"]
    for code, _, err in run_ranks([SCRIPT, "resume", tmp_path]):
        assert code == 0, err[-3000:]


def test_what_is_no_group_is_refused():
    from torch import nn, ones

    with pytest.raises(TypeError, match="`group` must be None, False or a process group"):
        sdt.Curvature(nn.Linear(2, 2), nn.MSELoss(), (ones(3, 2), ones(3, 2)), group=3)


PROBLEM = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def problem():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3)).double()
    x, y = torch.randn(31, 5).double(), torch.arange(31) % 3
    train = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)
    return model, torch.nn.CrossEntropyLoss(), train, [(x[:7], y[:7]), (x[7:9], y[7:9]), (x[9:], y[9:])]
"""


def test_torchrun_runs_the_command_unchanged(tmp_path):
    (tmp_path / "problem.py").write_text(PROBLEM)
    command = ["-m", "specdens", "hessian", "problem.py", "--operator", "Hess,H", "--steps", "20", "--probes", "2"]
    command += ["--method", "fast_lanczos"]

    def specdens(*prefix, name):
        done = subprocess.run(
            [sys.executable, *prefix, *command, "-o", name], cwd=tmp_path, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    alone = specdens(name="alone.npz")
    shared = specdens("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", name="shared.npz")
    assert shared.count("Wrote") == alone.count("Wrote") == 4
    for part in ("Hess-train", "Hess-test", "H-train", "H-test"):
        found, expected = (sd.load(tmp_path / f"{name}-{part}.npz").measure for name in ("shared", "alone"))
        for x, y in zip(found.alphas, expected.alphas, strict=True):
            np.testing.assert_allclose(x[:5], y[:5], rtol=1e-9, atol=1e-12)


def test_every_example_is_on_one_rank():
    x, y = torch.arange(11.0)[:, None], torch.arange(11)
    dataset = TensorDataset(x, y)

    class Fixed:
        def __iter__(self):
            return iter([(x[:4], y[:4]), (x[4:6], y[4:6]), (x[6:], y[6:])])

    for make in (
        lambda: DataLoader(dataset, batch_size=3, shuffle=True),
        lambda: DataLoader(dataset, batch_size=3),
        lambda: list(Fixed()),
        lambda: Fixed(),
        lambda: iter(Fixed()),
        lambda: (x, y),
    ):
        for size in (1, 2, 3, 12):
            seen = []
            for rank in range(size):
                part = sdt.shard(make(), rank=rank, num_ranks=size)
                batches = [part] if isinstance(part, tuple) else part
                seen += [label for batch in batches for label in batch[1].tolist()]
            assert sorted(seen) == list(range(11))
    with pytest.raises(ValueError, match="must not be a DataLoader that shuffles and leaves examples out"):
        sdt.shard(DataLoader(dataset, batch_size=3, shuffle=True, drop_last=True), rank=0, num_ranks=2)
    loader = DataLoader(dataset, batch_size=3, drop_last=True)
    assert sum(len(labels) for rank in (0, 1) for _, labels in sdt.shard(loader, rank=rank, num_ranks=2)) == 9
