"""Autograd functions that a model brings along: those that are wrong are named, those that are right pass."""

from __future__ import annotations

import warnings

import pytest
import specdens_torch as sdt
import torch
from torch import nn
from torch_cases import assert_close, make, split
from torch_references import directions, hessian_products

import specdens as sd

LOSS = nn.CrossEntropyLoss()


class Reversed(torch.autograd.Function):
    """Reverses gradients, as domain-adversarial training does."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -g


class Kernel(torch.autograd.Function):
    """A cube whose backward has no graph, as one that calls a compiled kernel."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            slope = 3 * x**2
        return g * slope


class Swish(torch.autograd.Function):
    """The memory-saving swish of many image models, with the right derivatives."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * (s * (1 + x * (1 - s)))


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.first, self.second, self.function = nn.Linear(5, 6), nn.Linear(6, 4), function

    def forward(self, x):
        return self.second(self.function.apply(self.first(x)))


def build(function, dtype=torch.float64):
    _, x, y = make()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Model(function).to(dtype), x.to(dtype), y


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("function", "message"),
    [(Reversed, "Hess, G and H are not derivatives .*`Reversed`"), (Kernel, "Hess and H are not .*`Kernel`")],
)
def test_functions_with_wrong_derivatives_are_named(function, message, dtype):
    model, x, y = build(function, dtype)
    with pytest.warns(sd.SpecdensWarning, match=message):
        curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
    model.double()
    V = directions(model)
    expected = hessian_products(model, lambda: LOSS(model(x.double()), y), V)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.SpecdensWarning)
        curv = sdt.Curvature(model, LOSS, split(x.double(), y, 20, 10))
    assert float((curv.Hess @ V - expected).norm() / expected.norm()) > 0.1  # the warning is right


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_functions_with_right_derivatives_pass(dtype):
    model, x, y = build(Swish, dtype)
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))  # warnings are errors in tests
    if dtype == torch.float64:
        V = directions(model)
        assert_close(curv.Hess @ V, hessian_products(model, lambda: LOSS(model(x), y), V), 1e-8)
