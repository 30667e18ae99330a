"""Losses that a model computes itself: taken out of its forward, with their own targets and counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import specdens_torch as sdt
import torch
import torch.nn.functional as F
from language_models import dense_hessian, dense_operator
from slow_cases import slow_after
from torch import nn
from torch_cases import assert_close

C = 4


class Net(nn.Module):
    """A network whose forward takes labels and returns its loss as `kind` says."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.body, self.norm, self.head = nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, C)
        self.temperature = nn.Parameter(torch.tensor(0.3))

    def forward(self, x, labels=None):
        h = torch.tanh(self.norm(self.body(x)))
        logits = self.head(h)
        return SimpleNamespace(logits=logits, loss=None if labels is None else self.loss(h, logits, labels))

    def loss(self, h, logits, y):
        if self.kind == "sum":
            return F.cross_entropy(logits, y, reduction="sum")
        if self.kind == "router":
            return 2.0 * F.cross_entropy(logits, y) + 0.3 * (h.mean(0) ** 2).sum()
        if self.kind == "in place":
            loss = nn.CrossEntropyLoss(ignore_index=3)(logits, y)
            loss += 0.1 * (self.head.weight**4).sum()
            return loss
        if self.kind == "masked mean":
            mask = (y != 1).to(logits.dtype)
            return (F.cross_entropy(logits, y, reduction="none") * mask).sum() / mask.sum()
        if self.kind == "two":
            return F.cross_entropy(logits, y) + 0.5 * F.mse_loss(h[:, 0], y.to(h.dtype))
        if self.kind == "binary":
            return F.binary_cross_entropy_with_logits(logits, F.one_hot(y, C).to(logits.dtype))
        if self.kind == "squared root":
            return F.cross_entropy(logits, y) ** 0.5
        if self.kind == "learned factor":
            return torch.exp(-self.temperature) * F.cross_entropy(logits, y) + self.temperature
        if self.kind == "by hand":
            return -logits.log_softmax(1).gather(1, y[:, None]).mean()
        return F.cross_entropy(logits, y, label_smoothing=0.1)


def net(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Net(kind).double()


def batch(n, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=generator).double()
    return {"x": x, "labels": torch.randint(0, C, (n,), generator=generator)}


KINDS = (
    "plain",
    "router",
    "in place",
    "masked mean",
    "two",
    "binary",
    "squared root",
    "learned factor",
    "by hand",
    "sum",
)


@pytest.mark.parametrize("kind", slow_after(4, KINDS))
def test_one_batch_has_the_hessian_of_what_the_model_returns(kind):
    model, data = net(kind), batch(9, 0)
    curv = sdt.Curvature(model, "model", [data])
    loss = model(**data).loss
    assert curv.loss == pytest.approx(float(loss.detach()), rel=1e-12)
    expected = dense_hessian(loss, list(model.parameters()))
    assert_close(dense_operator(curv.Hess), expected, 1e-11)
    assert_close(dense_operator(curv.G) + dense_operator(curv.H), expected, 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "masked mean", "sum", "binary"])
def test_several_batches_are_one_batch_of_all_examples(kind):
    model, parts = net(kind), [batch(9, 0), batch(4, 1)]
    whole = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    found, expected = (sdt.Curvature(model, "model", data) for data in (parts, [whole]))
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    for name in ("Hess", "G", "H"):
        assert_close(dense_operator(getattr(found, name)), dense_operator(getattr(expected, name)), 1e-11)


def test_batches_with_a_further_loss_are_weighted_by_their_counts():
    model, parts = net("router"), [batch(9, 0), batch(4, 1)]
    curv = sdt.Curvature(model, "model", parts)
    loss = sum(len(part["labels"]) * model(**part).loss for part in parts) / 13
    assert curv.loss == pytest.approx(float(loss.detach()), rel=1e-12)
    assert_close(dense_operator(curv.Hess), dense_hessian(loss, list(model.parameters())), 1e-11)


def test_the_gauss_newton_part_is_that_of_the_closed_forms():
    model, data = net("router"), batch(9, 0)
    G = sdt.Curvature(model, "model", [data]).G
    plain = sdt.Curvature(net("router"), nn.CrossEntropyLoss(), [(data["x"], data["labels"])],
                          forward=lambda model, batch: model(batch[0]).logits).G  # fmt: skip
    assert_close(dense_operator(G), 2.0 * dense_operator(plain), 1e-11)


def test_a_loss_without_a_closed_form_needs_a_count_over_several_batches():
    model, parts = net("by hand"), [batch(9, 0), batch(4, 1)]
    with pytest.raises(ValueError, match=r"no closed form, .* Say count="):
        sdt.Curvature(model, "model", parts)
    curv = sdt.Curvature(model, "model", parts, count=lambda batch: len(batch["labels"]))
    whole = sdt.Curvature(net("plain"), nn.CrossEntropyLoss(), [(p["x"], p["labels"]) for p in parts],
                          forward=lambda model, batch: model(batch[0]).logits)  # fmt: skip
    assert curv.loss == pytest.approx(whole.loss, rel=1e-12)
    assert_close(dense_operator(curv.Hess), dense_operator(whole.Hess), 1e-11)


def test_a_tuple_with_one_scalar_is_logits_and_loss():
    class Tuple(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net("plain")

        def forward(self, x, targets):
            output = self.net(x, targets)
            return output.logits, output.loss

    model, data = Tuple(), batch(9, 0)
    curv = sdt.Curvature(model, "model", [(data["x"], data["labels"])])
    loss = model(data["x"], data["labels"])[1]
    assert_close(dense_operator(curv.Hess), dense_hessian(loss, list(model.parameters())), 1e-11)


def test_class_components_take_the_targets_of_the_model():
    model, data = net("plain"), batch(9, 0)
    curv = sdt.Curvature(model, "model", [data])
    parts = sum(dense_operator(getattr(curv, name)) for name in ("A1", "A2", "B1", "B2"))
    assert_close(parts, dense_operator(curv.G), 1e-11)
    with pytest.raises(TypeError, match="need cross-entropy with class labels; got the model's loss"):
        _ = sdt.Curvature(net("router"), "model", [data]).A1


def test_a_closed_form_that_the_model_does_not_share_is_refused():
    data = [batch(9, 0)]
    with pytest.raises(ValueError, match="is not that alone"):
        sdt.Curvature(net("two"), nn.CrossEntropyLoss(), data)
    with pytest.raises(ValueError, match="is not that alone"):
        sdt.Curvature(net("squared root"), nn.CrossEntropyLoss(), data)
    # computed in another way, but the same: taken
    assert sdt.Curvature(net("by hand"), nn.CrossEntropyLoss(), data).loss > 0


def test_the_model_keeps_no_gradient_and_no_random_state():
    model, data = net("router"), batch(9, 0)
    state = torch.get_rng_state()
    curv = sdt.Curvature(model, "model", [data])
    _ = curv.Hess @ torch.ones(curv.Hess.shape[0]).double()
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(state, torch.get_rng_state())


def test_arguments_that_do_not_go_with_the_models_loss_are_refused():
    data = [batch(9, 0)]
    with pytest.raises(TypeError, match=r'`loss` must be a function of .* or "model"; got'):
        sdt.Curvature(net("plain"), "cross-entropy", data)
    with pytest.raises(ValueError, match="`reduction` must be left out"):
        sdt.Curvature(net("plain"), "model", data, reduction="sum")
    with pytest.raises(TypeError, match="needs a model that returns its loss"):
        sdt.Curvature(net("plain"), "model", [{"x": data[0]["x"]}])
