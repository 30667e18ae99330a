"""Run by two processes of torch.distributed (gloo): one function per test, compared with one process."""

from __future__ import annotations

import functools
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import specdens_torch as sdt
import torch
import torch.distributed as dist
from torch import nn
from torch_rank_script import assert_same, quadrature, run_rank

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
        "'0.bias' is float64 of shape (4,) on rank 0 and float64 of shape (4,), frozen or left out by `params` on rank "
        "1 of 2": {"params": None if rank == 0 else ["3.*", "5.*", "0.weight"]},
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


def with_frozen(name: str, *, frozen: bool) -> nn.Module:
    made = model()
    made.get_parameter(name).requires_grad_(not frozen)
    return made


def with_buffers(rank: int, dtype=torch.float64) -> nn.Module:
    made = nn.Sequential(nn.BatchNorm2d(1), *model()).double().eval()
    made[0].running_mean.fill_(0.5 * rank)
    made[0].num_batches_tracked.fill_(rank)  # a counter, which no product depends on
    return made


class Parts(nn.Module):
    """Two layers, made in either order."""

    def __init__(self, names) -> None:
        super().__init__()
        for name in names:
            torch.manual_seed(len(name))
            setattr(self, name, nn.Linear(6, 6).double())

    def forward(self, x):
        return self.second(torch.tanh(self.one(x.flatten(1)[:, :6])))


def quadratic(output, target):
    return (output - target[:, None]).square().sum(1)


def quartic(output, target):
    return (output - target[:, None]).pow(4).sum(1)


def differences() -> None:
    """Expect every rank to be told by name what differs: parameters, layers, data types, the loss and its options."""
    rank, weight = dist.get_rank(), torch.tensor([1.0, 2.0, 0.5]).double()
    halves = [model(), model()]
    halves[1][3].float()
    padded = model()
    padded[0].padding = (rank, rank)
    activation = nn.Sequential(*model()[:4], (nn.Tanh(), nn.Sigmoid())[rank], model()[5])
    first = model()
    first[5].weight.data.mul_(1 + rank)
    floats = [[(x.to((torch.float64, torch.float32)[rank]), y) for x, y in batches()]]
    floats += [[(x, y.to((torch.int64, torch.int32)[rank])) for x, y in batches()]]
    named = [{"x": x.to((torch.float64, torch.float32)[rank]), "labels": y} for x, y in batches()]
    cases = [
        ({"model": halves[rank]}, "'3.weight' is float64 of shape (8, 64) on rank 0 and float32 of shape (8, 64) on"),
        ({"model": model().to((torch.float64, torch.float32)[rank])}, "'0.weight' is float64 of shape (4, 1, 3, 3) on"),
        ({"model": with_frozen("3.bias", frozen=rank == 1)}, "'3.bias' is float64 of shape (8,) on rank 0 and float64"),
        ({"model": with_frozen("3.bias", frozen=rank == 0)}, "frozen or left out by `params` on rank 0 and float64"),
        ({"model": Parts([("one", "second"), ("second", "one")][rank])}, "in the same order; number 0 is 'one.weight'"),
        ({"model": first, "params": ["0.*", "3.*"]}, "'5.weight' has other values on rank 1 of 2 than on rank 0"),
        ({"model": with_buffers(rank)}, "same buffers; '0.running_mean' has other values on rank 1 of 2"),
        ({"model": padded}, "same layers; '0' is Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1)) on rank 0 and Conv2d"),
        ({"model": activation}, "same layers; '4' is Tanh() on rank 0 and Sigmoid() on rank 1 of 2"),
        ({"data": floats[0]}, "data of the same types; batch[0] is float64 on rank 0 and float32 on rank 1 of 2"),
        ({"data": floats[1]}, "data of the same types; batch[1] is int64 on rank 0 and int32 on rank 1 of 2"),
        ({"data": named}, "data of the same types; batch['x'] is float64 on rank 0 and float32 on rank 1 of 2"),
        (
            {"loss": (nn.CrossEntropyLoss(), nn.MSELoss())[rank]},
            "same `loss`; it is CrossEntropyLoss on rank 0 and MSE",
        ),
        ({"loss": (quadratic, quartic)[rank]}, "same `loss`; it is quadratic on rank 0 and quartic on rank 1 of 2"),
        (
            {"loss": nn.CrossEntropyLoss(label_smoothing=0.1 * rank)},
            "same label_smoothing of `loss`; it is 0.0 on rank 0 and 0.1 on rank 1 of 2",
        ),
        (
            {"loss": nn.CrossEntropyLoss(weight=weight + rank)},
            "same weight of `loss`; it has other values on rank 1 of",
        ),
        (
            {"loss": nn.CrossEntropyLoss(weight=None if rank else weight)},
            "same weight of `loss`; it is float64 of shape (3,) on rank 0 and missing on rank 1 of 2",
        ),
        ({"loss": nn.CrossEntropyLoss(ignore_index=rank)}, "same ignore_index of `loss`; it is 0 on rank 0 and 1 on"),
        (
            {"loss": functools.partial(nn.functional.cross_entropy, label_smoothing=0.2 * rank)},
            "same label_smoothing of `loss`; it is 0.0 on rank 0 and 0.2 on rank 1 of 2",
        ),
        ({"reduction": ("mean", "sum")[rank]}, "same `reduction`; it is 'mean' on rank 0 and 'sum' on rank 1 of 2"),
        ({"loss": quadratic, "count": 3 + rank}, "same `count`; it is 3 on rank 0 and 4 on rank 1 of 2"),
        ({"shard_vectors": (None, True)[rank]}, "same `shard_vectors`; it is None on rank 0 and True on rank 1 of 2"),
        (
            {"data": [(x, y + 2 * rank) for x, y in batches()]},
            "the labels must be classes from 0 to 2, of which the outputs have 3; got 4",
        ),
    ]
    for changed, words in cases:
        arguments = {"model": model(), "loss": nn.CrossEntropyLoss(), "data": batches(), **changed}
        with pytest.raises((ValueError, TypeError)) as raised:
            sdt.Curvature(**arguments)
        assert words in str(raised.value), (words, raised.value)


def other_calls() -> None:
    """Expect ranks that ask for other runs to be told so, before any product, and to go on afterwards."""
    rank = dist.get_rank()
    curv = sdt.Curvature(model(), nn.CrossEntropyLoss(), shard(batches(), "uneven"))
    settings = {"num_steps": 10, "num_probes": 1, "method": "fast_lanczos", "seed": 0}
    before = curv._engine.ranks.num_reduced.copy()
    for name, value in {
        "num_steps": 10 + rank, "seed": rank, "num_probes": 1 + rank, "rank": 2 * rank, "function": (None, "log")[rank],
        "method": ("fast_lanczos", "kpm")[rank], "checkpoint": (None, FOLDER / "run.npz")[rank],
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=f"`{name}` must be the same on all processes that compute together"):
            curv.density("Hess", **{**settings, name: value})
    with pytest.raises(ValueError, match=r"the operator must be the same on all processes .* this one has [HG]"):
        curv.density(("Hess", "G")[rank], **settings)
    with pytest.raises(ValueError, match="the operator must be the same on all processes"):
        sd.fast_lanczos(curv.subset(("3.*", "5.*")[rank]).Hess, num_steps=5)
    with pytest.raises(ValueError, match=r"the algorithm must be the same on all processes .* this one runs"):
        (sd.fast_lanczos, sd.slow_lanczos)[rank](curv.Hess, num_steps=5)
    with pytest.raises(ValueError, match="`tol` must be the same on all processes"):
        sd.top_eigenpairs(curv.Hess, rank=2, tol=1e-3 * (1 + rank))
    assert curv._engine.ranks.num_reduced == before
    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="`executor` must be left out for an operator"):
        sd.fast_lanczos(curv.Hess, num_steps=5, num_probes=4, executor=pool)
    assert_same(torch.as_tensor(curv.density("Hess", **settings).values))


def threads() -> None:
    """Compare densities of layers, whose runs are threads, with one process: they take turns in the same order."""
    data, settings = batches(), {"num_steps": 12, "num_probes": 1, "method": "fast_lanczos", "rank": 1}
    alone = sdt.Curvature(model(), nn.CrossEntropyLoss(), data, group=False)
    curv = sdt.Curvature(model(), nn.CrossEntropyLoss(), shard(data, "uneven"), cache="off")
    sys.setswitchinterval(1e-6)
    expected = alone.layer_densities("Hess", **settings)
    for k in range(3):
        found = curv.layer_densities("Hess", checkpoint=FOLDER / f"layers{k}.npz", **settings)
        for name, density in found.items():
            np.testing.assert_allclose(*map(quadrature, (density.measure, expected[name].measure)), rtol=1e-8)


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


if __name__ == "__main__":
    run_rank(globals()[sys.argv[1]])
