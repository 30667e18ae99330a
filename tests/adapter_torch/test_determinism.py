"""What makes products random or impossible is named with its remedy; the model is left as it was found."""

from __future__ import annotations

import copy

import pytest
import specdens_torch as sdt
import torch
import torch.nn.functional as F
from torch import nn
from torch_cases import assert_close, make, some, split

LOSS = nn.CrossEntropyLoss()


def test_dropout_in_training_mode_is_named():
    model, x, y = make("cnn with batch norm")
    model[4].train()
    with pytest.raises(ValueError, match=r"dropout `4` \(Dropout\) is in training mode with p=0.5.*model.eval\(\)"):
        sdt.Curvature(model, LOSS, (x, y))


def test_batch_norm_in_training_mode_is_named():
    model, x, y = make("cnn with batch norm")
    model[1].train()
    with pytest.raises(ValueError, match=r"batch norm `1` \(BatchNorm2d\) is in training mode.*model.eval\(\)"):
        sdt.Curvature(model, LOSS, (x, y))


def test_batch_norm_without_running_statistics_is_named():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4, track_running_stats=False)).double().eval()
    _, x, y = make()
    with pytest.raises(ValueError, match=r"batch norm `1`.*track_running_stats=False"):
        sdt.Curvature(model, LOSS, (x, y))


class Noisy(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5, training=True)


def test_noise_that_no_flag_shows_is_found_by_running_twice():
    model, x, y = make()
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match="different outputs for the same batch twice: `1` is the first module"):
        sdt.Curvature(nn.Sequential(model, Noisy()), LOSS, (x, y))
    assert torch.equal(state, torch.get_rng_state())


def test_other_bad_arguments_are_refused_in_words():
    model, x, y = make()
    with pytest.raises(TypeError, match=r"`model` must be a torch\.nn\.Module; got function"):
        sdt.Curvature(lambda x: x, LOSS, (x, y))
    with pytest.raises(TypeError, match="`loss` must be a function"):
        sdt.Curvature(model, "cross-entropy", (x, y))
    with pytest.raises(ValueError, match="`reduction` must be one of mean, sum; got 'none'"):
        sdt.Curvature(model, LOSS, (x, y), reduction="none")
    with pytest.raises(ValueError, match="`cache` must be"):
        sdt.Curvature(model, LOSS, (x, y), cache="some")
    with pytest.raises(ValueError, match="`operator` must be one of Hess"):
        sdt.Curvature(model, LOSS, (x, y)).density("K")
    with pytest.raises(TypeError, match=r"must return a tensor of outputs; got tuple.*forward="):
        sdt.Curvature(nn.LSTM(5, 4).double(), LOSS, (x, y))


# -- what cannot be differentiated -----------------------------------------------------------------------------------


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


class OnceModule(nn.Module):
    def forward(self, x):
        return Once.apply(x)


class InPlace(nn.Module):
    def forward(self, x):
        y = x.exp()
        z = y * 2
        y += 1  # exp needs its result
        return z + y


@pytest.mark.parametrize("cache", ["auto", "off"])
@pytest.mark.parametrize("module", [OnceModule, InPlace])
def test_operations_without_a_second_derivative_are_named(module, cache):
    model, x, y = make()
    broken = nn.Sequential(model, module())
    with pytest.raises(ValueError, match=rf"module `1` \({module.__name__}\) cannot be differentiated twice"):
        _ = sdt.Curvature(broken, LOSS, (x, y), cache=cache).Hess @ torch.ones(95, dtype=torch.float64)


class Sometimes(nn.Module):
    """A module that leads through another one only where an input is large."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x) if x.abs().max() > 100 else x.sin()


@pytest.mark.parametrize("name", ["Hess", "G", "H"])
@pytest.mark.parametrize("cache", ["auto", "off"])
@pytest.mark.parametrize("module", [OnceModule, InPlace])
def test_operations_of_a_later_batch_alone_are_named_too(module, cache, name):
    model, x, y = make()
    x[20:] *= 1e4
    broken = nn.Sequential(nn.Linear(5, 5).double(), Sometimes(module()), model)
    with torch.no_grad():
        broken[0].weight.copy_(torch.eye(5))
    n = sum(p.numel() for p in broken.parameters())
    with pytest.raises(ValueError, match=rf"module `1\.module` \({module.__name__}\) cannot be differentiated twice"):
        _ = getattr(sdt.Curvature(broken, LOSS, split(x, y, 20, 10), cache=cache), name) @ torch.ones(n).double()


class NoForwardMode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


class NoForwardModeModule(nn.Module):
    def forward(self, x):
        return NoForwardMode.apply(x)


@pytest.mark.parametrize("cache", ["auto", "off"])
def test_a_later_batch_without_forward_mode_takes_the_other_way(cache):
    model, x, y = make()
    x[20:] *= 1e4
    odd = nn.Sequential(nn.Linear(5, 5).double(), Sometimes(NoForwardModeModule()), model)
    with torch.no_grad():
        odd[0].weight.copy_(torch.eye(5))
    curv = sdt.Curvature(odd, LOSS, split(x, y, 20, 10), cache=cache)
    curv._engine.route = "forward"
    v = torch.ones(curv.G.shape[0], dtype=torch.float64)
    found = curv.B2 @ v
    assert curv._engine.route == "double backward"
    assert_close(found, sdt.Curvature(odd, LOSS, (x, y)).B2 @ v)


# -- the model is left as it was found ---------------------------------------------------------------------------------


def test_the_model_is_left_exactly_as_it_was_found():
    model, x, y = make("cnn with batch norm")
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    LOSS(model(x), y).backward()
    model[0].bias.requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    grads = {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    modes = [m.training for m in model.modules()]
    hooks = [len(m._forward_hooks) for m in model.modules()]
    state = torch.get_rng_state()
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
    for A in (curv.Hess, curv.G, curv.H, curv.B2):
        _ = A @ torch.ones(A.shape[0], dtype=torch.float64)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    for name, p in model.named_parameters():
        assert p.requires_grad == flags[name]
        assert (p.grad is None) == (grads[name] is None)
        assert p.grad is None or torch.equal(p.grad, grads[name])
    assert [m.training for m in model.modules()] == modes
    assert [len(m._forward_hooks) for m in model.modules()] == hooks
    assert torch.equal(state, torch.get_rng_state())
    assert torch.backends.mha.get_fastpath_enabled()


def test_operators_follow_a_model_that_is_trained_further():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 25, 5))
    _ = some(curv.A1)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
    fresh = sdt.Curvature(model, LOSS, (x, y))
    for name in ("Hess", "A1"):
        assert_close(some(getattr(curv, name)), some(getattr(fresh, name)))
