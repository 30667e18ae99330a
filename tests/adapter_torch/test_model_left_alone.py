"""The model is left as it was found, and the operators follow it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from slow_cases import slow_after
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_cases import assert_close, make, some, split

import specdens as sd

LOSS = nn.CrossEntropyLoss()


class Shared(nn.Module):
    """A module that is registered under two names, as parts of it are in a Sequential."""

    def __init__(self, inner):
        super().__init__()
        self.fc1 = inner
        self.body = nn.Sequential(self.fc1, nn.Tanh(), nn.Linear(6, 4))

    def forward(self, x):
        out = self.fc1(x) if not isinstance(self.fc1, nn.RNNBase) else self.fc1(x[:, None])[0][:, 0]
        return self.body[2](torch.tanh(out))


def named_twice():
    return Shared(nn.Linear(5, 6))


def recurrent_twice():
    return Shared(nn.LSTM(5, 6, batch_first=True))


def weight_normed():
    with pytest.warns(FutureWarning):
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(5, 6)), nn.Tanh(), nn.Linear(6, 4))


def tied():
    model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 4))
    model[2].weight = model[0].weight
    return model


def with_buffer():
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 4))


MODELS = {f.__name__: f for f in (named_twice, recurrent_twice, weight_normed, tied, with_buffer)}


def build(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MODELS[name]().double().eval()


def anatomy(model):
    """Return what a pass could change: every slot of every module, flags, modes and random states."""
    slots = []
    for name, module in model.named_modules(remove_duplicate=False):
        for place in (module._parameters, module._buffers):
            slots += [(name, key, id(value), type(value)) for key, value in place.items()]
        slots += [(name, key, id(value)) for key, value in vars(module).items() if isinstance(value, torch.Tensor)]
        slots += [(name, "training", module.training), (name, len(module._forward_hooks))]
        if isinstance(module, nn.RNNBase):
            slots += [(name, id(w)) for w in module._flat_weights]
    slots += [(name, p.requires_grad, p.grad is None) for name, p in model.named_parameters()]
    return slots, torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002


@pytest.mark.parametrize("cache", ["auto", "off"])
@pytest.mark.parametrize("name", MODELS)
def test_nothing_of_the_model_is_changed_by_products(name, cache):
    model, (_, x, y) = build(name), make()
    before = anatomy(model)
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10), cache=cache)
    assert anatomy(model) == before
    for A in (curv.Hess, curv.G, curv.B2):
        some(A)
    for route in ("forward", "double backward"):
        some(sdt.Curvature(model, LOSS, split(x, y, 20, 10), cache=cache, jvp_route=route).G)
    _ = curv.loss
    assert anatomy(model) == before


@pytest.mark.parametrize("name", MODELS)
def test_a_model_can_be_trained_after_its_curvature_was_taken(name):
    model, (_, x, y) = build(name), make()
    curv = sdt.Curvature(model, LOSS, (x, y))
    some(curv.Hess)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = LOSS(model(x), y).item()
    for _ in range(20):
        optimizer.zero_grad()
        LOSS(model(x), y).backward()
        optimizer.step()
    assert LOSS(model(x), y).item() < before - 1e-3
    assert_close(some(curv.Hess), some(sdt.Curvature(model, LOSS, (x, y)).Hess))


# -- every way to change a model ---------------------------------------------------------------------------------------


def step_of(optimizer, **options):
    def change(model, x, y):
        made = optimizer(model.parameters(), lr=0.05, **options)
        LOSS(model(x), y).backward()
        made.step()
        made.zero_grad()

    return change


def through_data(model, x, y):
    for p in model.parameters():
        p.data.mul_(1.3)


def one_entry_through_data(model, x, y):
    model[0].weight.data[1, 2] += 0.7


def permuted_through_data(model, x, y):
    model[0].weight.data.copy_(model[0].weight.data.flip(0))


def negated_through_data(model, x, y):
    model[0].weight.data.neg_()


def through_numpy(model, x, y):
    model[0].weight.detach().numpy()[...] *= 1.2


def assigned(model, x, y):
    model.load_state_dict({name: 0.8 * p.detach() for name, p in model.state_dict().items()}, assign=True)


def loaded(model, x, y):
    model.load_state_dict({name: 0.8 * p.detach() for name, p in model.state_dict().items()})


def replaced(model, x, y):
    model[2].weight = nn.Parameter(model[2].weight.detach() * 0.5)


def replaced_module(model, x, y):
    new = nn.Linear(6, 5).double()
    with torch.no_grad():
        new.weight.fill_(0.1)
    model[2] = new


CHANGES = {
    "SGD": step_of(torch.optim.SGD), "Adam": step_of(torch.optim.Adam),
    "fused Adam": step_of(torch.optim.Adam, fused=True), "fused AdamW": step_of(torch.optim.AdamW, fused=True),
    "fused SGD": step_of(torch.optim.SGD, fused=True), "foreach": step_of(torch.optim.Adam, foreach=True),
    **{f.__name__: f for f in (
        through_data, one_entry_through_data, permuted_through_data, negated_through_data, through_numpy, assigned,
        loaded, replaced, replaced_module,
    )},
}  # fmt: skip


@pytest.mark.parametrize("cache", slow_after(1, ["auto", "off"]))
@pytest.mark.parametrize("change", CHANGES)
def test_operators_follow_every_change_of_the_parameters(change, cache):
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 25, 5), cache=cache)
    before = [some(getattr(curv, name)) for name in ("Hess", "A1")]
    CHANGES[change](model, x, y)
    fresh = sdt.Curvature(model, LOSS, (x, y))
    for name, old in zip(("Hess", "A1"), before, strict=True):
        expected = some(getattr(fresh, name))
        assert float((expected - old).norm()) > 1e-3 * float(expected.norm())
        assert_close(some(getattr(curv, name)), expected)
    assert curv.loss == pytest.approx(fresh.loss, rel=1e-12)


def test_operators_follow_buffers_that_are_written_to_without_a_trace():
    model, x, y = make("cnn with batch norm")
    curv = sdt.Curvature(model, LOSS, (x, y))
    some(curv.Hess)
    model[1].running_var.data.mul_(3.0)
    assert_close(some(curv.Hess), some(sdt.Curvature(model, LOSS, (x, y)).Hess))


def test_parameters_of_another_shape_or_dtype_are_named():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, (x, y))
    model[2] = nn.Linear(6, 7).double()
    with pytest.raises(ValueError, match=r"'2.weight' was torch.float64 of shape \(5, 6\) on cpu.*is now.*\(7, 6\)"):
        some(curv.Hess)
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, (x, y))
    del model[4]
    with pytest.raises(ValueError, match=r"'4.weight' was .* and is gone\. Make a new Curvature"):
        some(curv.Hess)


# -- modes -------------------------------------------------------------------------------------------------------------


class NoiseInTraining(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x) if self.training else x


@pytest.mark.parametrize("cache", ["auto", "off"])
def test_training_mode_after_construction_is_refused_and_eval_mode_is_welcome_again(cache):
    model, x, y = make("cnn with batch norm")
    curv = sdt.Curvature(model, LOSS, (x, y), cache=cache)
    expected = some(curv.Hess)
    model.train()
    for name in ("Hess", "G", "A1"):
        with pytest.raises(ValueError, match="in training mode"):
            some(getattr(curv, name))
        with pytest.raises(ValueError, match="in training mode"):
            _ = curv.loss
    model.eval()
    assert_close(some(curv.Hess), expected)


def test_noise_of_training_mode_is_found_after_construction():
    model, x, y = make()
    noisy = nn.Sequential(model, NoiseInTraining()).eval()
    curv = sdt.Curvature(noisy, LOSS, (x, y))
    noisy[1].train()
    with pytest.raises(ValueError, match=r"`1` is the first module whose output differs.*model\.eval\(\)"):
        some(curv.Hess)


# -- randomness --------------------------------------------------------------------------------------------------------


class StochasticDepth(nn.Module):
    """Leaves a layer out at random, also in eval mode."""

    def __init__(self, draw, p=0.3):
        super().__init__()
        self.layer, self.draw, self.p = nn.Linear(5, 5), draw, p

    def forward(self, x):
        return x if self.draw() < self.p else self.layer(x)


DRAWS = {
    "torch": lambda: float(torch.rand(())),
    "python": random.random,
    "numpy": np.random.rand,
}


@pytest.mark.parametrize("source", DRAWS)
def test_layers_left_out_at_random_are_found_whatever_the_seed(source):
    inner, x, y = make()
    for seed in range(20):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        model = nn.Sequential(StochasticDepth(DRAWS[source]), inner).double().eval()
        before = anatomy(model)
        with pytest.raises(ValueError, match="different outputs for the same batch twice") as error:
            sdt.Curvature(model, LOSS, (x, y))
        assert "eval" not in str(error.value)  # it is in eval mode
        assert anatomy(model) == before


def test_numbers_drawn_without_effect_are_a_warning():
    inner, x, y = make()
    model = nn.Sequential(StochasticDepth(DRAWS["torch"], p=-1.0), inner).double().eval()
    with pytest.warns(sd.SpecdensWarning, match="draws random numbers in its forward"):
        sdt.Curvature(model, LOSS, (x, y))


# -- examples that are coupled -----------------------------------------------------------------------------------------


class Centred(nn.Module):
    """Hand-made batch statistics."""

    def forward(self, x):
        return x - x.mean(0)


def loader_of(x, y, *, shuffle):
    return DataLoader(TensorDataset(x, y), batch_size=10, shuffle=shuffle)


def contrastive(output, target):
    z = torch.nn.functional.normalize(output, dim=1)
    return torch.nn.functional.cross_entropy(z @ z.T, torch.arange(len(z)), reduction="none")


@pytest.mark.parametrize("shuffle", [True, False])
def test_coupled_examples_need_batches_that_stay(shuffle):
    model, x, y = make()
    coupled = nn.Sequential(model, Centred())
    cases = ((coupled, LOSS, "outputs of an example depend"), (model, contrastive, "not the sum of the losses"))
    for net, loss, message in cases:
        if shuffle:
            with pytest.raises(ValueError, match=rf"{message}.*shuffle=False"):
                sdt.Curvature(net, loss, loader_of(x, y, shuffle=True))
        else:
            some(sdt.Curvature(net, loss, loader_of(x, y, shuffle=False)).Hess)
    for loss in (LOSS, nn.MSELoss(), lambda o, t: o.pow(4).sum(1)):
        target = y if loss is LOSS else torch.randn(30, 4).double()
        sdt.Curvature(model, loss, loader_of(x, target, shuffle=shuffle))
