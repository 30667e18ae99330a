"""Linear layers whose weights receive their part of a product in place."""

from __future__ import annotations

import pytest
import specdens_torch as sdt
import torch
import torch.nn.functional as F
from specdens_torch._autodiff.gradient_buffer import BackwardTarget, GradientBuffer
from specdens_torch._autodiff.layers.linear import linear
from specdens_torch._parameters import subset_of
from torch import nn
from torch_cases import assert_close, dense_hessian, some, split


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("shape", [(6, 3), (2, 3, 3), (3,)], ids=["rows", "tokens", "single"])
def test_linear_layers_are_those_of_torch_and_differentiable_twice(shape, bias):
    generator = torch.Generator().manual_seed(0)
    shapes = [shape, (4, 3), *([(4,)] if bias else [])]
    tensors = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    target = BackwardTarget()
    target.attach(tensors[1:])
    x, w, *b = tensors

    def ours(*given):
        return linear(target, given, {})

    assert ours(x, w, *b).grad_fn.name() == "_LinearBackward"
    assert torch.equal(ours(x, w, *b), F.linear(x, w, *b))

    def derivatives(function):
        y = function(x, w, *b)
        r = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).view(y.shape).requires_grad_()
        first = torch.autograd.grad(y, tensors, r, create_graph=True)
        second = torch.autograd.grad(sum((g**3).sum() for g in first), [r, x, w])
        return torch.cat([t.flatten() for t in (*first, *second)])

    found, expected = (derivatives(f).detach() for f in (ours, F.linear))
    assert_close(found, expected)


def test_gradients_go_to_their_places():
    x, w = torch.randn(5, 3), torch.randn(4, 3, requires_grad=True)
    target = BackwardTarget()
    target.attach([w])
    out = torch.full((12,), torch.nan)
    target.buffer = GradientBuffer(subset_of({"w": w}), out)
    y = linear(target, (x, w), {})
    (gradient,) = torch.autograd.grad(y, [w], torch.ones_like(y), allow_unused=True, retain_graph=True)
    assert gradient is None
    assert_close(out.view(4, 3), torch.ones(4, 5) @ x, rtol=1e-6)
    torch.autograd.grad(y, [w], torch.ones_like(y), allow_unused=True)
    assert_close(out.view(4, 3), 2 * torch.ones(4, 5) @ x, rtol=1e-6)


class Tied(nn.Module):
    """A language model whose head is its embedding, as is."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 4)
        self.inner = nn.Linear(4, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.inner(self.embedding(tokens))))


@pytest.mark.parametrize("cache", ["auto", "off"])
def test_a_weight_that_is_shared_with_another_kind_of_layer(cache):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Tied().double()
    tokens = torch.arange(40).view(8, 5) % 6
    targets = (tokens**2 + 1) % 6
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), split(tokens, targets, 5, 3), cache=cache)
    expected = dense_hessian(model, lambda: F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()))
    for route in ("double backward", "forward"):
        curv._engine.route = curv._engine.block_route = route
        assert_close(some(curv.Hess), some(expected))
        assert_close(some(curv.G) + some(curv.H), some(expected))
