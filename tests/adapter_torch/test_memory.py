"""Peak memory in bytes: with the cache off it is that of one batch."""

from __future__ import annotations

import pytest
import specdens_torch as sdt
import torch
from live_bytes import LiveBytes
from torch import nn

SIZE = 64


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
    kept = curv._engine.cache.num_bytes
    # what is said to be kept is what is alive, beyond the data and a product
    assert kept <= live.peak <= 2 * kept


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


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["auto", "off"])
@pytest.mark.parametrize("name", ["Hess", "G", "H"])
def test_a_large_vocabulary_takes_few_copies_of_its_logits(name, cache):
    words, width, tokens = 20_000, 4, 128
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(words, width), nn.Tanh(), nn.Linear(width, words))
        x, y = torch.randint(0, words, (2, 1, tokens))
    v = torch.ones(words * (2 * width + 1))
    with LiveBytes() as live:
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        g = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        parts = v.split([p.numel() for p in model.parameters()])
        torch.autograd.grad(g, list(model.parameters()), [t.view_as(p) for t, p in zip(parts, g, strict=True)])
    plain = live.peak
    del loss, g
    with LiveBytes() as live:
        curv = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y), cache=cache, jvp_route="double backward")
        _ = getattr(curv, name) @ v
    assert live.peak <= 1.1 * plain
    assert curv._engine.cache.num_bytes <= 3.3 * 4 * words * tokens
