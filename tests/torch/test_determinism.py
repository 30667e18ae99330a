"""What makes products random or impossible is named with its remedy; the model is left as it was found."""

from __future__ import annotations

import copy

import pytest
import specdens_torch as sdt
import torch
import torch.nn.functional as F
from cases import assert_close, dense_hessian, make, some, split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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


# -- loaders -----------------------------------------------------------------------------------------------------------


def test_a_shuffling_loader_is_read_once_and_kept():
    model, x, y = make()
    loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True)
    curv = sdt.Curvature(model, LOSS, loader)
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: LOSS(model(x), y))))
    assert "5 batches kept" in repr(curv)


def test_a_shuffling_loader_cannot_be_streamed():
    model, x, y = make()
    loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True)
    with pytest.raises(ValueError, match=r"shuffles, and its batches are streamed.*shuffle=False"):
        sdt.Curvature(model, LOSS, loader, keep_data=False)


class Changing:
    """A loader that changes from pass to pass."""

    def __init__(self, batches, change):
        self.batches, self.change, self.passes = batches, change, 0

    def __iter__(self):
        self.passes += 1
        return iter(self.change(self.batches, self.passes))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda b, k: b if k == 1 else b[::-1], "in another order: the loader shuffles.*shuffle=False"),
        (lambda b, k: [(x + k, y) for x, y in b], "the loader augments its data.*random transforms off"),
        (lambda b, k: [(x + k, (y + k) % 3) for x, y in b], "different data on a second pass"),
        (lambda b, k: b[k - 1 :], "different data on a second pass"),
    ],
    ids=["shuffles", "augments", "differs", "shrinks"],
)
def test_a_streamed_loader_must_repeat_itself(change, match):
    model, x, y = make()
    data = Changing(split(x, y, 20, 9, 1), change)
    with pytest.raises(ValueError, match=match):
        sdt.Curvature(model, LOSS, data, keep_data=False)


def test_a_streamed_loader_gives_the_same_products():
    model, x, y = make()
    data = DataLoader(TensorDataset(x, y), batch_size=7)
    curv = sdt.Curvature(model, LOSS, data, keep_data=False)
    expected = sdt.Curvature(model, LOSS, (x, y))
    assert "streamed" in repr(curv)
    for name in ("Hess", "G", "H", "A1", "B2"):
        assert_close(some(getattr(curv, name)), some(getattr(expected, name)))


def test_bad_data_is_refused_in_words():
    model, x, y = make()
    with pytest.raises(ValueError, match="can be read only once"):
        sdt.Curvature(model, LOSS, iter([(x, y)]), keep_data=False)
    with pytest.raises(ValueError, match="`data` must have at least one batch"):
        sdt.Curvature(model, LOSS, [])
    with pytest.raises(TypeError, match="Wrap it in a DataLoader"):
        sdt.Curvature(model, LOSS, TensorDataset(x, y))
    with pytest.raises(TypeError, match=r"tuples .* or dicts; got Tensor"):
        sdt.Curvature(model, LOSS, [x, y, y])
    with pytest.raises(TypeError, match="`data` must be a DataLoader"):
        sdt.Curvature(model, LOSS, 3)


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
