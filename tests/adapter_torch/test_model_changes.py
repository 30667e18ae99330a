"""Operators follow whatever is changed around a model, passes leave nothing behind, and data stays as it is."""

from __future__ import annotations

import pytest
import specdens_torch as sdt
import torch
from slow_cases import slow_after
from torch import nn
from torch_cases import assert_close, dense, dense_hessian, make, some, split

LOSS = nn.CrossEntropyLoss()


class Settings:
    scale = 1.0


class Model(nn.Module):
    """Outputs that depend on attributes of every kind."""

    def __init__(self):
        super().__init__()
        self.linear, self.activation, self.head = nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4)
        self.scale, self.mask, self.scales = 1.0, torch.ones(6).double(), [torch.ones(4).double()]
        self.config, self.hidden_layers = Settings(), [nn.Linear(4, 4).double()]

    def forward(self, x):
        h = self.activation(self.linear(x)) * self.mask * self.scale
        return self.hidden_layers[0](self.head(h) * self.scales[0]) * self.config.scale


def replace_activation(model):
    model.activation = nn.Sigmoid()


def double(module, args, output):
    return 2.0 * output


CHANGES = {
    "number": lambda m: setattr(m, "scale", 2.0),
    "tensor": lambda m: setattr(m, "mask", torch.full((6,), 2.0).double()),
    "tensor, in place": lambda m: m.mask.mul_(2.0),
    "tensor, without a trace": lambda m: m.mask.data.mul_(2.0),
    "list of tensors": lambda m: m.scales.__setitem__(0, torch.full((4,), 2.0).double()),
    "settings": lambda m: setattr(m.config, "scale", 2.0),
    "module without parameters": replace_activation,
    "hook": lambda m: m.activation.register_forward_hook(double),
    "module in a list": lambda m: m.hidden_layers[0].weight.data.mul_(2.0),
}


def model_and_data():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Model().double().eval()
    _, x, y = make()
    return model, x, y


@pytest.mark.parametrize("cache", slow_after(1, ["auto", "off"]))
@pytest.mark.parametrize("change", CHANGES)
def test_operators_follow_every_attribute_of_the_model(change, cache):
    model, x, y = model_and_data()
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10), cache=cache)
    before = dense(curv.Hess)
    CHANGES[change](model)
    expected = dense_hessian(model, lambda: LOSS(model(x), y))
    assert float((before - expected).norm() / expected.norm()) > 0.1
    assert_close(dense(curv.Hess), expected)


def test_operators_follow_the_weights_of_the_classes():
    model, x, y = make()
    weight = torch.ones(4).double()
    loss = nn.CrossEntropyLoss(weight=weight)
    curv = sdt.Curvature(model, loss, split(x, y, 20, 10))
    some(curv.Hess)
    weight[1] = 5.0
    assert_close(dense(curv.Hess), dense_hessian(model, lambda: loss(model(x), y)))


def test_a_model_that_has_not_changed_keeps_its_graphs(caplog):
    model, x, y = model_and_data()
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
    with caplog.at_level("INFO", logger="specdens"):
        for _ in range(3):
            some(curv.Hess)
            some(curv.G)
    assert not [r for r in caplog.records if "changed" in r.message]


class Recorder(nn.Module):
    """Stores outputs, counts its passes and collects what it has seen."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 4)
        self.last, self.passes, self.seen = None, 0, []

    def forward(self, x):
        self.last = self.linear(torch.tanh(x))
        self.passes += 1
        self.seen.append(self.last)
        self.made_here = True
        return self.last


@pytest.mark.parametrize("cache", ["auto", "off"])
def test_passes_leave_no_attributes_behind(cache):
    _, x, y = make()
    model = Recorder().double()
    seen = model.seen
    curv = sdt.Curvature(model, LOSS, (x, y), cache=cache)
    some(curv.Hess)
    some(curv.G)
    assert model.last is None
    assert model.passes == 0
    assert model.seen is seen
    assert seen == []
    assert not hasattr(model, "made_here")


class Writer(nn.Module):
    """Normalises its inputs in place."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 4)

    def forward(self, x, labels=None):
        logits = self.linear(torch.tanh(x.sub_(0.5).div_(2.0)))
        return logits if labels is None else (nn.functional.cross_entropy(logits, labels), logits)


@pytest.mark.parametrize("loss", [LOSS, "model"], ids=["cross-entropy", "model"])
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_a_model_that_writes_to_its_inputs_gets_copies(cache, loss):
    _, x, y = make()
    model, before = Writer().double(), x.clone()
    curv = sdt.Curvature(model, loss, split(x, y, 20, 10), cache=cache)
    assert_close(dense(curv.Hess), dense_hessian(model, lambda: LOSS(model(before.clone()), y)))
    assert_close(some(curv.G), some(curv.Hess))  # linear in its parameters: H is zero
    assert torch.equal(x, before)


class LateWriter(Writer):
    def forward(self, x):
        return super().forward(x if len(x) > 15 else x.clone()) if len(x) != 20 else self.linear(x)


def test_a_model_that_writes_to_later_inputs_only_is_refused():
    _, x, y = make()
    with pytest.raises(ValueError, match="has written to its inputs, and did not do so with the first batch"):
        sdt.Curvature(LateWriter().double(), LOSS, [(x[:20], y[:20]), (x[4:], y[4:])])


@pytest.mark.parametrize("which", [0, 1], ids=["inputs", "targets"])
def test_data_that_is_written_to_is_refused(which):
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, (x, y))
    some(curv.Hess)
    (x, y)[which].copy_((x, y)[which].flip(0))
    with pytest.raises(ValueError, match="`data` has been written to since the Curvature was made"):
        some(curv.Hess)


def test_data_of_inference_mode_is_taken():
    model, x, y = make()
    with torch.inference_mode():
        copies = x.clone(), y.clone()
    assert_close(some(sdt.Curvature(model, LOSS, copies).Hess), some(sdt.Curvature(model, LOSS, (x, y)).Hess))


def test_labels_of_any_integer_dtype_are_classes():
    model, x, y = make()
    expected = sdt.Curvature(model, LOSS, (x, y))
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(weight=torch.ones(4)), (x, y.to(torch.uint8)))
    assert_close(some(curv.Hess), some(expected.Hess))
    assert_close(some(curv.B1), some(expected.B1))


def test_negative_labels_are_refused_in_every_batch():
    model, x, y = make()
    y = y.clone()
    y[25] = -1
    with pytest.raises(ValueError, match="the targets must be classes from 0 on, or -100, which is ignored; got -1"):
        sdt.Curvature(model, LOSS, split(x, y, 20, 10), cache="off", jvp_route="forward")
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(ignore_index=-1), split(x, y, 20, 10))
    kept = y != -1
    assert_close(dense(curv.Hess), dense_hessian(model, lambda: LOSS(model(x[kept]), y[kept])))


def test_sparse_inputs_are_as_good_as_dense_ones():
    _, x, y = make()
    model, x = nn.Linear(5, 4).double(), x * (x > 0)
    assert_close(
        some(sdt.Curvature(model, LOSS, (x.to_sparse(), y)).Hess), some(sdt.Curvature(model, LOSS, (x, y)).Hess)
    )


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 4)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        return self.linear(x) * self.passes


def test_a_buffer_that_every_pass_writes_to_is_named():
    _, x, y = make()
    with pytest.raises(ValueError, match="it writes to its buffer `passes` in every pass, also in eval mode"):
        sdt.Curvature(Counter().double().eval(), LOSS, (x, y))


@pytest.mark.parametrize(
    "tensor", [torch.arange(10.0)[::2], torch.ones(1).expand(64), torch.arange(12.0).reshape(3, 4).T]
)
def test_attributes_of_any_layout_are_followed(tensor):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.scale = nn.Linear(4, 3), tensor

        def forward(self, x):
            return torch.tanh(self.linear(x)) * self.scale.sum()

    model = Scaled().double().eval()
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), [(torch.randn(6, 4).double(), torch.arange(6) % 3)])
    before = some(curv.Hess)
    model.scale = tensor / 2
    assert not torch.equal(some(curv.Hess), before)
