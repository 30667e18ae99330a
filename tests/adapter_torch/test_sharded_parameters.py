"""Parameters and vectors of which every rank holds some rows: the numbers of one process, and nothing whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import specdens_torch as sdt
import torch
import torch.distributed as dist
from torch import nn
from torch_processes import run_ranks

import specdens as sd

SCRIPT = Path(__file__).parents[1] / "helpers" / "torch_sharded_ranks.py"
needs_gloo = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="needs gloo")


@needs_gloo
@pytest.mark.slow
@pytest.mark.parametrize("case", ["layers", "data", "densities", "memory", "disagreement"])
def test_ranks_that_share_rows_agree_with_one_process(case, tmp_path):
    for code, out, err in run_ranks([SCRIPT, case, tmp_path]):
        assert code == 0, err[-3000:]
        assert "agrees" in out


@needs_gloo
@pytest.mark.slow
def test_the_loss_of_the_model_itself_is_that_of_one_process():
    for code, out, err in run_ranks([SCRIPT.with_name("torch_model_loss_ranks.py")]):
        assert code == 0, err[-3000:]
        assert "agrees" in out


@needs_gloo
@pytest.mark.slow
def test_three_ranks_of_unequal_parts_agree_with_one_process(tmp_path):
    for code, _, err in run_ranks([SCRIPT, "data", tmp_path], size=3):
        assert code == 0, err[-3000:]


@needs_gloo
@pytest.mark.slow
def test_a_rank_that_dies_ends_the_other_and_the_parts_go_on(tmp_path):
    (code, out, err), (died, _, _) = run_ranks([SCRIPT, "death", tmp_path])
    assert code == 0, err[-3000:]
    assert "rank 0 was told" in out
    assert died == 7
    for code, _, err in run_ranks([SCRIPT, "resume", tmp_path]):
        assert code == 0, err[-3000:]


def case():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    x, y = torch.randn(12, 5).double(), torch.arange(12) % 3
    return model, nn.CrossEntropyLoss(), [(x[:8], y[:8]), (x[8:], y[8:])]


def test_one_process_alone_has_all_rows():
    alone, shared = sdt.Curvature(*case()), sdt.Curvature(*case(), shard_vectors=True)
    x = torch.randn(alone.Hess.shape[0], dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for name in ("Hess", "G", "H", "A1", "B2"):
        torch.testing.assert_close(shared.operator(name) @ x, alone.operator(name) @ x, rtol=1e-11, atol=1e-14)
    found, expected = (sd.fast_lanczos(c.Hess, num_steps=10) for c in (shared, alone))
    assert found.trace(lambda t: t).value == pytest.approx(expected.trace(lambda t: t).value, rel=1e-10)


def test_the_operators_follow_changes_of_the_model():
    model, loss, data = case()
    shared = sdt.Curvature(model, loss, data, shard_vectors=True)
    x = torch.ones(shared.Hess.shape[0]).double()
    before = shared.Hess @ x
    with torch.no_grad():
        model[0].weight.mul_(1.5)
    expected = sdt.Curvature(model, loss, data).Hess @ x
    torch.testing.assert_close(shared.Hess @ x, expected, rtol=1e-11, atol=1e-14)
    assert not torch.allclose(before, expected)


def test_what_cannot_be_done_with_shared_rows_is_refused():
    model, loss, data = case()
    with pytest.raises(TypeError, match="`shard_vectors` must be None, True or False; got 'yes'"):
        sdt.Curvature(model, loss, data, shard_vectors="yes")
    with pytest.raises(ValueError, match='`jvp_route` must be "double backward" where ranks share the rows'):
        sdt.Curvature(model, loss, data, shard_vectors=True, jvp_route="forward")
    with pytest.raises(ValueError, match="batches have no products of their own where ranks share the rows"):
        sdt.Curvature(model, loss, data, shard_vectors=True).minibatch_eigenvalues()

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    with pytest.raises(ValueError, match="uses gradient checkpointing, and its parameters are shared by rows"):
        sdt.Curvature(Checkpointed(), loss, data, shard_vectors=True)
    if not dist.is_initialized():
        with pytest.raises(RuntimeError, match="there are no ranks: call torch"):
            sdt.shard_parameters(model)
