"""Peak memory in bytes: with the cache off it is that of one batch."""

from __future__ import annotations

import pytest
import specdens_torch as sdt
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SIZE = 64


class LiveBytes(TorchDispatchMode):
    """Follow the memory that operations make, from its making to its end."""

    def __init__(self):
        super().__init__()
        self.peak = 0
        self._alive = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs or {})) if isinstance(t, torch.Tensor)}
        for t in tree_leaves(result):
            if isinstance(t, torch.Tensor) and t.untyped_storage()._cdata not in given:
                storage = t.untyped_storage()
                self._alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self._alive = {key: (ref, size) for key, (ref, size) in self._alive.items() if not ref.expired()}
        self.peak = max(self.peak, sum(size for _, size in self._alive.values()))
        return result


def peak(num_batches, name, route, *, cache="off", columns=None):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(20, 200), nn.Tanh(), nn.Linear(200, 50), nn.Tanh(), nn.Linear(50, 4))
        data = [(torch.randn(SIZE, 20), torch.arange(SIZE) % 4) for _ in range(num_batches)]
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), data, cache=cache)
    curv._engine.route = curv._engine.block_route = route
    A = getattr(curv, name)
    v = torch.ones((A.shape[0],) if columns is None else (A.shape[0], columns))
    _ = A @ v[:, :1] if columns else A @ v  # class weights, once
    with LiveBytes() as live:
        _ = A @ v
    return live.peak


@pytest.mark.parametrize("route", ["double backward", "forward"])
@pytest.mark.parametrize("name", ["Hess", "G", "H", "A1", "B2"])
def test_peak_memory_without_a_cache_is_that_of_one_batch(name, route):
    one, six = peak(1, name, route), peak(6, name, route)
    # over several batches the outputs are kept between two passes for B2; a graph is 100 times larger
    outputs = 6 * SIZE * 4 * 8
    assert six <= 1.05 * one + outputs
    assert one > 10 * outputs


def test_kept_graphs_take_the_memory_of_all_batches():
    assert peak(6, "Hess", "double backward", cache="auto") < peak(6, "Hess", "double backward")
    with LiveBytes() as live:
        data = [(torch.randn(SIZE, 20), torch.arange(SIZE) % 4) for _ in range(6)]
        curv = sdt.Curvature(
            nn.Sequential(nn.Linear(20, 200), nn.Tanh(), nn.Linear(200, 4)), nn.CrossEntropyLoss(), data
        )
        _ = curv.Hess @ torch.ones(curv.Hess.shape[0])
    said = curv._engine.bytes_per_example * 6 * SIZE
    # what is said to be kept is what is alive, beyond the data and a product
    assert said <= live.peak <= 2 * said


def test_a_block_takes_no_more_than_its_columns():
    single, block = peak(3, "Hess", "double backward"), peak(3, "Hess", "double backward", columns=4)
    n = 20 * 200 + 200 + 200 * 50 + 50 + 50 * 4 + 4
    # the products, and as many tangents: columns of a block are not contiguous
    assert block <= single + 2 * 4 * n * 4


def test_a_product_makes_no_copies_of_the_weights_of_a_linear_layer():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(400, 400), nn.Tanh(), nn.Linear(400, 4))
        curv = sdt.Curvature(model, nn.CrossEntropyLoss(), (torch.randn(4, 400), torch.arange(4)))
    v = torch.ones(curv.Hess.shape[0])
    for name in ("Hess", "G", "H", "A1"):
        A = getattr(curv, name)
        _ = A @ v
        with LiveBytes() as live:
            _ = A @ v
        assert live.peak < 1.2 * 4 * v.numel()  # the product itself, and activations
