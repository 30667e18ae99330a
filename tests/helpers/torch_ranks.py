"""Run by two processes of torch.distributed (gloo): one function per test, compared with one process."""

from __future__ import annotations

import datetime
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import specdens_torch as sdt
import torch
import torch.distributed as dist
from torch import nn

import specdens as sd

FOLDER = Path(sys.argv[2])
OPERATORS = ("Hess", "G", "H", "A1", "A2", "B1", "B2", "B2c:1")
RESUMED = {
    "num_steps": 30,
    "num_probes": 1,
    "method": "fast_lanczos",
    "checkpoint": FOLDER / "run.npz",
    "checkpoint_interval": 0,
}


def model(seed: int = 0, width: int = 8) -> nn.Module:
    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 16, width), nn.Tanh(), nn.Linear(width, 3)]
    return nn.Sequential(*layers).double().eval()


def batches(sizes=(7, 4, 9, 5, 2)):
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(n, 1, 6, 6, generator=generator, dtype=torch.float64) for n in sizes]
    return [(x, torch.arange(len(x)) % 3) for x in inputs]


def shard(data, how: str):
    parts = {"uneven": [data[:4], data[4:]], "none": [data, []], "even": [data[0::2], data[1::2]]}
    return parts[how][dist.get_rank()]


def products() -> None:
    """Compare products, values and class traces with one process."""
    loss, data = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]).double()), batches()
    alone = sdt.Curvature(model(), loss, data, group=False)
    x = torch.randn(alone.Hess.shape[0], 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    first = x[:, 0].contiguous()
    for how, cache in (("uneven", "auto"), ("uneven", "off"), ("none", "auto"), ("none", "off"), ("even", "auto")):
        curv = sdt.Curvature(model(), loss, shard(data, how), cache=cache)
        np.testing.assert_allclose(curv._engine.value(), alone._engine.value(), rtol=1e-13)
        for name in OPERATORS:
            A, B = curv.operator(name), alone.operator(name)
            for v in (first, x):
                found = A @ v
                torch.testing.assert_close(found, B @ v, rtol=1e-11, atol=1e-13)
                assert_same(found)
        for name, found in curv.products(first).items():
            torch.testing.assert_close(found, alone.products(first)[name], rtol=1e-11, atol=1e-13)
        traces, expected = curv.class_traces(num_probes=3), alone.class_traces(num_probes=3)
        np.testing.assert_allclose(traces.values, expected.values, rtol=1e-10)
        np.testing.assert_array_equal(traces.counts, expected.counts)


def payload() -> None:
    """Count the all-reduces: one of p numbers per product, whatever the number of batches; C × C before components."""
    curv = sdt.Curvature(model(), nn.CrossEntropyLoss(), shard(batches(), "uneven"))
    n, ranks = curv.Hess.shape[0], curv._engine.ranks
    x = torch.ones(n, dtype=torch.float64)
    for name, expected in {"Hess": [n], "G": [n], "H": [n], "B2": [9, n], "A1": [9, n]}.items():
        A = curv.operator(name)
        _ = A @ x  # class means are made once
        ranks.num_reduced.clear()
        _ = A @ x
        assert ranks.num_reduced == expected, (name, ranks.num_reduced)
    ranks.num_reduced.clear()
    measure = sd.fast_lanczos(curv.Hess, num_steps=20)
    assert ranks.num_reduced == [n] * measure.num_products


def densities() -> None:
    """Compare densities with one process, and between ranks."""
    data = batches()
    alone = sdt.Curvature(model(), nn.CrossEntropyLoss(), data, group=False)
    curv = sdt.Curvature(model(), nn.CrossEntropyLoss(), shard(data, "uneven"))
    settings = {"rank": 2, "num_steps": 40, "num_probes": 2, "method": "fast_lanczos"}
    for name in ("Hess", "G", "B2"):
        found = curv.density(name, **settings)
        expected = alone.density(name, dual=False, **settings)
        np.testing.assert_allclose(found.outliers.values, expected.outliers.values, rtol=1e-8)
        # of the raw nodes and weights: readings infer masses from them, which rounding can decide otherwise
        np.testing.assert_allclose(*map(quadrature, (found.measure, expected.measure)), rtol=1e-10)
        assert_same(torch.as_tensor(found.values))
    with pytest.raises(ValueError, match="lives on the outputs of one process; the data are shared by 2"):
        curv.G.dual()
    with pytest.raises(ValueError, match="takes the data of one process; they are shared by 2"):
        curv.class_spectrum()
    found, expected = (each.minibatch_eigenvalues("Hess", rank=1) for each in (curv, alone))
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-6)


def disagreement() -> None:
    """Expect every rank to be told by name of other parameters, values or faulty data on one of them."""
    rank, data = dist.get_rank(), batches()
    cases = {
        "'3.weight' is float64 of shape (8, 64) on rank 0 and float64 of shape (9, 64) on rank 1 of 2": {
            "model": model(width=8 + rank)
        },
        "'0.weight' has other values on rank 1 of 2 than on rank 0": {"model": model(seed=rank)},
        "'0.bias' is float64 of shape (4,) on rank 0 and missing on rank 1 of 2": {
            "params": None if rank == 0 else ["3.*", "5.*", "0.weight"]
        },
        "must give batches": {"data": [1] if rank else data},
        "at least one batch on one of the ranks": {"data": []},
    }
    for words, changed in cases.items():
        arguments = {"model": model(), "loss": nn.CrossEntropyLoss(), "data": data, **changed}
        with pytest.raises((ValueError, TypeError), match=re.escape(words)):
            sdt.Curvature(**arguments)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.randn(7, 1, 6, 6).double(), torch.arange(7) % 3),
        sampler=torch.utils.data.DistributedSampler(range(7), shuffle=False),
    )
    with pytest.raises(ValueError, match="DistributedSampler that repeats examples, as 7 is no multiple of 2 ranks"):
        sdt.Curvature(model(), nn.CrossEntropyLoss(), loader)


def death() -> None:
    """Kill a rank in the middle: the other one says so, and has left a checkpoint."""
    curv = sdt.Curvature(model(), nn.CrossEntropyLoss(), shard(batches(), "uneven"))

    def progress(state: sd.Progress) -> None:
        if dist.get_rank() == 1 and state.num_products == 15:
            os._exit(7)

    with pytest.raises(ConnectionError, match="rank 0 of 2 has lost the others: one of them has ended"):
        curv.density("Hess", progress=progress, **RESUMED)
    print("rank 0 was told", flush=True)
    os._exit(0)


def resume() -> None:
    """Go on from the checkpoint of `death`, on both ranks, bit for bit."""
    curv = sdt.Curvature(model(), nn.CrossEntropyLoss(), shard(batches(), "uneven"))
    before = len(curv._engine.ranks.num_reduced)
    found = curv.density("Hess", progress=False, **RESUMED)
    num_made = len(curv._engine.ranks.num_reduced) - before
    whole = curv.density("Hess", progress=False, **{**RESUMED, "checkpoint": None})
    np.testing.assert_array_equal(found.measure.alphas, whole.measure.alphas)
    assert num_made < whole.measure.num_products, num_made
    assert_same(torch.as_tensor(found.values))


def quadrature(measure: sd.SpectralMeasure) -> list[float]:
    return [float(w @ np.tanh(x)) for x, w in zip(measure.nodes, measure.weights, strict=True)]


def assert_same(x: torch.Tensor) -> None:
    other = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(other, x.contiguous())
    for each in other:
        assert torch.equal(each, x)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=180))
    globals()[sys.argv[1]]()
    print("agrees", flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads may abort an ordinary exit ("terminate called without an active exception")
