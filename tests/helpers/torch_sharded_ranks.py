"""Run by processes of torch.distributed (gloo): parameters and vectors shared by rows, compared with one process."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import specdens_torch as sdt
import torch
import torch.distributed as dist
from live_bytes import LiveBytes
from torch import nn
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch_rank_script import assert_same, quadrature, run_rank

import specdens as sd
from specdens._running import monitor

FOLDER = Path(sys.argv[2])
OPERATORS = ("Hess", "G", "H", "A1", "A2", "B1", "B2", "B2c:1")


class Tied(nn.Module):
    """Embedding, attention, layer norm, a scale of its own, an einsum, and a head that is the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 6, padding_idx=2)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.norm = nn.LayerNorm(6)
        self.mixing = nn.Parameter(torch.randn(6, 6) / 3)
        self.scale = nn.Parameter(torch.tensor(1.3))

    def forward(self, x):
        h = self.embedding(x)
        h = self.norm(h + self.attention(h, h, h, need_weights=False)[0])
        h = torch.tanh(torch.einsum("nti,ij->ntj", h, self.mixing)) * self.scale
        h = h @ self.mixing + h
        return nn.functional.linear(h.mean(1), self.embedding.weight)[:, :3]


def convolutional() -> nn.Module:
    layers = [nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), nn.Softplus(), nn.MaxPool2d(2), nn.Conv2d(5, 3, 1, bias=False)]
    layers += [nn.Tanh(), nn.ConvTranspose2d(3, 2, 2), nn.Flatten(), nn.Linear(2 * 9, 7), nn.Tanh(), nn.Linear(7, 3)]
    return nn.Sequential(*layers)


def recurrent() -> nn.Module:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.lstm(x[:, 0])[0][:, -1])

    return Last()


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 7, bias=False), nn.Tanh(), nn.Linear(7, 3))


MODELS = {"dense": dense, "convolutional": convolutional, "tied": Tied, "recurrent": recurrent}


def model(kind: str) -> nn.Module:
    torch.manual_seed(0)
    made = MODELS[kind]().double().eval()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight)
    return made


def batches(kind: str, sizes=(7, 4, 9, 5, 2)):
    generator = torch.Generator().manual_seed(1)
    if kind == "tied":
        inputs = [torch.randint(0, 7, (n, 4), generator=generator) for n in sizes]
    else:
        inputs = [torch.randn(n, 1, 6, 6, generator=generator, dtype=torch.float64) for n in sizes]
    return [(x, torch.arange(len(x)) % 3) for x in inputs]


def part(data, how: str):
    parts = {"uneven": [data[:1], data[1:], []], "none": [[], data, []], "even": [data[0::2], data[1::2], []]}
    return parts[how][dist.get_rank()]


def rows(curv: sdt.Curvature, x: torch.Tensor) -> torch.Tensor:
    """Return the rows of this rank of a whole vector."""
    return torch.cat([x[each.start : each.stop] for each in curv._subset.ranges])


LOSS = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]).double())


def check_products(kind: str, how: str, names, *, whole: bool = False) -> None:
    data = batches(kind)
    alone = sdt.Curvature(model(kind), LOSS, data, group=False)
    n = alone.Hess.shape[0]
    x = torch.randn(n, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    shared = model(kind) if whole else sdt.shard_parameters(model(kind))
    curv = sdt.Curvature(shared, LOSS, part(data, how), shard_vectors=True if whole else None)
    np.testing.assert_allclose(curv.loss, alone.loss, rtol=1e-13)
    assert curv.Hess.dimension == n
    mine = rows(curv, x)
    assert len(mine) < n
    for name in names:
        A, B = curv.operator(name), alone.operator(name)
        torch.testing.assert_close(A @ mine, rows(curv, B @ x), rtol=1e-10, atol=1e-13)


def layers() -> None:
    """Compare products of all operators with one process, for all kinds of layers."""
    check_products("convolutional", "uneven", OPERATORS)
    for kind in ("tied", "recurrent"):
        check_products(kind, "uneven", ("Hess", "G", "B2"))


def data() -> None:
    """Compare them where a rank has no data, and where every rank has the whole model and only vectors are shared."""
    check_products("convolutional", "none", ("Hess", "B2"))
    check_products("dense", "even", ("Hess", "G", "H", "B2"), whole=True)
    data = batches("dense")
    alone = sdt.Curvature(model("dense"), LOSS, data, group=False)
    curv = sdt.Curvature(sdt.shard_parameters(model("dense")), LOSS, part(data, "uneven"))
    x = torch.randn(alone.Hess.shape[0], 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mine = rows(curv, x)
    torch.testing.assert_close(curv.Hess @ mine, rows(curv, alone.Hess @ x), rtol=1e-10, atol=1e-13)
    for name, found in curv.products(mine[:, 0].contiguous()).items():
        expected = rows(curv, alone.products(x[:, 0].contiguous())[name])
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-13)
    traces, others = curv.class_traces(num_probes=3), alone.class_traces(num_probes=3)
    np.testing.assert_allclose(traces.values, others.values, rtol=1e-9)
    np.testing.assert_array_equal(traces.counts, others.counts)


def densities() -> None:
    """Compare densities with one process: the same probes, the same measures, the same on every rank."""
    data = batches("dense", (9, 5))
    alone = sdt.Curvature(model("dense"), LOSS, data, group=False)
    curv = sdt.Curvature(sdt.shard_parameters(model("dense")), LOSS, part(data, "even"))
    found, expected = (sd.fast_lanczos(c.Hess, num_steps=12, num_probes=2, seed=5) for c in (curv, alone))
    np.testing.assert_allclose(found.alphas[0][:6], expected.alphas[0][:6], rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(*map(quadrature, (found, expected)), rtol=1e-9)
    settings = {"rank": 2, "num_steps": 20, "num_probes": 1, "method": "fast_lanczos"}
    found, expected = (c.density("G", dual=None if c is curv else False, **settings) for c in (curv, alone))
    np.testing.assert_allclose(found.outliers.values, expected.outliers.values, rtol=1e-8)
    np.testing.assert_allclose(*map(quadrature, (found.measure, expected.measure)), rtol=1e-8)
    assert_same(torch.as_tensor(found.values))
    for method in ("slow_lanczos", "kpm"):
        found, expected = (sd.spectral_density(c.Hess, method=method, num_steps=10) for c in (curv, alone))
        grid = np.linspace(found.grid[0], found.grid[-1], 7)
        np.testing.assert_allclose(found.cdf(grid), expected.cdf(grid), atol=1e-6)
    assert list(curv.densities("Hess", "G", num_steps=4, num_probes=1)) == ["Hess", "G"]
    layers = curv.layer_densities("G", num_steps=4, num_probes=1)
    others = alone.layer_densities("G", num_steps=4, num_probes=1, dual=False)
    for name, each in layers.items():
        np.testing.assert_allclose(*map(quadrature, (each.measure, others[name].measure)), rtol=1e-8, atol=1e-12)


def memory() -> None:
    """Bound what a product takes on a rank: its p / R entries, and a few times the largest layer."""
    width, depth, size = 64, 16, dist.get_world_size()

    def peak(*, shared: bool) -> float:
        torch.manual_seed(0)
        layers = [each for _ in range(depth) for each in (nn.Linear(width, width, bias=False), nn.Tanh())]
        model = nn.Sequential(*layers).eval()
        model = sdt.shard_parameters(model) if shared else model
        batch = (torch.randn(2, width), torch.arange(2))
        with LiveBytes() as live:
            curv = sdt.Curvature(model, nn.CrossEntropyLoss(), [batch], cache="off")
        A = curv.Hess
        if shared:  # nothing whole is left, nor was it there at any time
            held = sum(leaf.untyped_storage().nbytes() for leaf in curv._engine.forward.leaves)
            assert held == 4 * depth * width**2 // size
            assert live.peak <= 8 * 4 * width**2
        assert A.dimension == depth * width**2
        x = torch.ones(A.shape[0])
        peaks = []
        for _ in range(4):  # the least, as gloo's threads may hold a layer for a moment after it was sent
            with LiveBytes() as live:
                _ = A @ x
            peaks.append(live.peak)
        return min(peaks) / (4 * width**2)  # in layers

    whole, mine = peak(shared=False), peak(shared=True)
    print(f"peak in layers of {depth}: {whole:.1f} whole, {mine:.1f} on each of {size} ranks", flush=True)
    assert whole >= depth
    assert mine <= depth / size + 6


def disagreement() -> None:
    """Expect every rank to be told of other parameters, of DTensors in other layouts and of ranks without a row."""
    loss, data = nn.CrossEntropyLoss(), batches("dense")
    torch.manual_seed(0)
    width = 7 + dist.get_rank()
    other = nn.Sequential(nn.Flatten(), nn.Linear(36, width), nn.Tanh(), nn.Linear(width, 3)).double()
    with pytest.raises(ValueError, match=re.escape("'1.weight' is float64 of shape (7, 36) on rank 0")):
        sdt.Curvature(other, loss, data, shard_vectors=True)
    columns = model("dense")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    columns[1].weight = nn.Parameter(distribute_tensor(columns[1].weight.detach(), mesh, [Shard(1)]))
    with pytest.raises(ValueError, match=re.escape("`model` must have DTensors with Shard(0) or Replicate()")):
        sdt.Curvature(columns, loss, data)
    narrow = nn.Sequential(nn.Flatten(), nn.Linear(36, 1, bias=False)).double()
    with pytest.raises(ValueError, match="rank 1 of 2 has no row of any parameter"):
        sdt.Curvature(narrow, nn.MSELoss(), [(x, y[:, None].double()) for x, y in data], shard_vectors=True)
    with pytest.raises(ValueError, match="`shard_vectors` must not be False for a model with DTensors"):
        sdt.Curvature(sdt.shard_parameters(model("dense")), loss, data, shard_vectors=False)


RESUMED = {"num_steps": 12, "num_probes": 1, "method": "fast_lanczos", "checkpoint": FOLDER / "run.npz"}
RESUMED |= {"checkpoint_interval": 0}


def curvature() -> sdt.Curvature:
    return sdt.Curvature(sdt.shard_parameters(model("dense")), LOSS, part(batches("dense", (9, 5)), "even"))


def death() -> None:
    """Kill a rank in the middle: the other one says so, and the parts of the last step are there."""

    def progress(state: sd.Progress) -> None:
        if dist.get_rank() == 1 and state.num_products == 8:
            os._exit(7)

    monitor._PAUSE = 0.0  # products are as fast as writes here
    with pytest.raises(ConnectionError, match="rank 0 of 2 has lost the others: one of them has ended"):
        curvature().density("Hess", progress=progress, **RESUMED)
    print("rank 0 was told", flush=True)
    os._exit(0)


def resume() -> None:
    """Go on from the checkpoint of `death`, on both ranks, bit for bit."""
    curv, counts = curvature(), []
    found = curv.density("Hess", progress=lambda state: counts.append(state.num_products), **RESUMED)
    whole = curv.density("Hess", progress=False, **{**RESUMED, "checkpoint": None})
    np.testing.assert_array_equal(found.measure.alphas, whole.measure.alphas)
    assert counts[0] >= 8
    assert_same(torch.as_tensor(found.values))


if __name__ == "__main__":
    run_rank(globals()[sys.argv[1]])
