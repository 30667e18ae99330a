"""Hess, G and H against the dense Hessian of the whole data set."""

from __future__ import annotations

import functools

import pytest
import specdens_torch as sdt
import torch
import torch.nn.functional as F
from slow_cases import slow_except
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_cases import CLASSES, NETWORKS, assert_close, dense_hessian, jacobian, make, some, split

WEIGHT = torch.tensor([0.5, 2.0, 1.0, 3.0], dtype=torch.float64)

CROSS_ENTROPIES = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "class weights": {"weight": WEIGHT},
    "ignore_index": {"ignore_index": 1},
    "label smoothing": {"label_smoothing": 0.1},
    "all together": {"weight": WEIGHT, "ignore_index": 1, "label_smoothing": 0.2},
}


@pytest.mark.parametrize("name", slow_except({"mlp", "cnn with batch norm", "transformer"}, NETWORKS))
def test_hess_is_the_dense_hessian_and_the_sum_of_g_and_h(name):
    model, x, y = make(name)
    expected = dense_hessian(model, lambda: F.cross_entropy(model(x), y))
    for cache in ("auto", "off"):
        curv = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 25, 5), cache=cache)
        assert_close(some(curv.Hess), some(expected))
        assert_close(some(curv.G) + some(curv.H), some(expected))


@pytest.mark.parametrize("options", CROSS_ENTROPIES.values(), ids=CROSS_ENTROPIES)
@pytest.mark.parametrize("sizes", [(25, 5), (29, 1)])
def test_cross_entropy_divides_once_by_its_own_count(options, sizes):
    model, x, y = make()
    loss = nn.CrossEntropyLoss(**options)
    curv = sdt.Curvature(model, loss, split(x, y, *sizes))
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: loss(model(x), y))))
    assert_close(some(curv.G) + some(curv.H), some(curv.Hess))
    assert curv.loss == pytest.approx(loss(model(x), y).item())


def test_h_is_the_hessian_of_the_outputs_along_a_fixed_gradient():
    model, x, y = make()
    f = model(x)
    (r,) = torch.autograd.grad(F.cross_entropy(f, y), f)
    H = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 25, 5)).H
    assert_close(some(H), some(dense_hessian(model, lambda: (r * model(x)).sum())))
    # the outputs are linear in the last bias: it gets exactly nothing
    assert torch.equal((H @ torch.ones(95, dtype=torch.float64))[-CLASSES:], torch.zeros(CLASSES, dtype=torch.float64))


def test_unreduced_cross_entropy_is_the_mean_over_examples():
    model, x, y = make()
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(weight=WEIGHT, reduction="none"), split(x, y, 25, 5))
    expected = dense_hessian(model, lambda: F.cross_entropy(model(x), y, weight=WEIGHT, reduction="none").mean())
    assert_close(some(curv.Hess), some(expected))


def test_soft_targets_have_a_closed_form_too():
    model, x, _ = make()
    t = torch.rand(30, CLASSES, dtype=torch.float64).softmax(1)
    loss = nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.1)
    curv = sdt.Curvature(model, loss, split(x, t, 25, 5))
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: loss(model(x), t))))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_squared_error_and_its_g_are_exact(reduction):
    model, x, _ = make()
    t = torch.randn(30, CLASSES, dtype=torch.float64)
    loss = nn.MSELoss(reduction=reduction)
    curv = sdt.Curvature(model, loss, split(x, t, 25, 5))
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: loss(model(x), t))))
    J = jacobian(model, x)
    assert_close(some(curv.G), some(2 * J.T @ J / (t.numel() if reduction == "mean" else 1)))


def test_binary_cross_entropy_with_weights():
    model, x, _ = make()
    t = (torch.arange(120).view(30, CLASSES) % 3 == 0).double()
    loss = nn.BCEWithLogitsLoss(weight=WEIGHT, pos_weight=WEIGHT.flip(0))
    curv = sdt.Curvature(model, loss, split(x, t, 25, 5))
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: loss(model(x), t))))
    assert_close(some(curv.G) + some(curv.H), some(curv.Hess))


def test_functions_of_torch_and_partials_of_them_are_closed_forms():
    model, x, y = make()
    expected = some(sdt.Curvature(model, nn.CrossEntropyLoss(label_smoothing=0.1), (x, y)).Hess)
    found = sdt.Curvature(model, functools.partial(F.cross_entropy, label_smoothing=0.1), split(x, y, 25, 5))
    assert_close(some(found.Hess), expected)
    assert "cross-entropy" in repr(found)


# -- losses by automatic differentiation ---------------------------------------------------------------------------


def huber(output, target):
    return F.huber_loss(output, target, reduction="none")


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (huber, {}),
        (nn.HuberLoss(), {}),
        (lambda o, t: huber(o, t).mean(), {"reduction": "mean"}),
        (lambda o, t: huber(o, t).sum() / 7, {"reduction": "mean", "count": lambda o, t: t.shape[0]}),
    ],
    ids=["per element", "module", "mean", "counted"],
)
def test_any_twice_differentiable_loss_will_do(loss, options):
    model, x, _ = make()
    t = torch.randn(30, CLASSES, dtype=torch.float64)
    curv = sdt.Curvature(model, loss, split(x, t, 25, 5), **options)

    def objective():
        if "count" not in options:
            return huber(model(x), t).mean()
        return sum(len(b) * loss(model(a), b) for a, b in split(x, t, 25, 5)) / 30

    assert_close(some(curv.Hess), some(dense_hessian(model, objective)))
    assert_close(some(curv.G) + some(curv.H), some(curv.Hess))


def test_a_sum_is_a_sum_over_all_batches():
    model, x, _ = make()
    t = torch.randn(30, CLASSES, dtype=torch.float64)
    curv = sdt.Curvature(model, lambda o, t: huber(o, t).sum(), split(x, t, 25, 5), reduction="sum")
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: huber(model(x), t).sum())))


def test_a_scalar_of_unknown_count_is_refused_over_several_batches():
    model, x, _ = make()
    t = torch.randn(30, CLASSES, dtype=torch.float64)
    with pytest.raises(ValueError, match="how many terms it averages is not known"):
        sdt.Curvature(model, lambda o, t: huber(o, t).mean(), split(x, t, 25, 5))
    single = sdt.Curvature(model, lambda o, t: huber(o, t).mean(), (x, t))
    assert_close(some(single.Hess), some(dense_hessian(model, lambda: huber(model(x), t).mean())))


def token_mean(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def padded(*, uniform):
    """Return a model of tokens, and sequences with padding -100: in all of them, or alike within every batch."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x, y = nn.Linear(6, CLASSES).double(), torch.randn(30, 7, 6).double(), torch.arange(210).view(30, 7) % 3
    for i in range(30):
        y[i, (5 - i // 10 if uniform else 1 + i % 6) :] = -100
    return model, x, y


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_mean_over_tokens_that_count_needs_their_number(uniform, shuffle):
    model, x, y = padded(uniform=uniform)
    data = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True) if shuffle else split(x, y, 10, 10, 10)
    with pytest.raises(ValueError, match=r"no mean over examples.*count=lambda output, target: \(target != -100\)"):
        sdt.Curvature(model, token_mean, data, reduction="mean")
    with pytest.raises(ValueError, match=r"how many terms it averages is not known.*\(target != -100\)"):
        sdt.Curvature(model, token_mean, data)
    curv = sdt.Curvature(model, token_mean, data, reduction="mean", count=lambda o, t: (t != -100).sum())
    assert curv.loss == pytest.approx(token_mean(model(x), y).item(), rel=1e-12)
    by_examples = sdt.Curvature(model, token_mean, split(x, y, 10, 20), reduction="mean", count=lambda o, t: len(o))
    means = [token_mean(model(a), b).item() for a, b in split(x, y, 10, 20)]
    assert by_examples.loss == pytest.approx((means[0] + 2 * means[1]) / 3, rel=1e-12)


def test_a_mean_over_examples_of_other_lengths_needs_their_number():
    model, x, _ = padded(uniform=True)
    y = torch.arange(210).view(30, 7) % 3
    with pytest.raises(ValueError, match=r"no common mean.*count="):
        sdt.Curvature(model, token_mean, [(x[:10], y[:10]), (x[10:, :4], y[10:, :4])], reduction="mean")
    curv = sdt.Curvature(model, token_mean, split(x, y, 12, 18), reduction="mean")
    assert curv.loss == pytest.approx(token_mean(model(x), y).item(), rel=1e-12)


# -- shapes of outputs and batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("classes_last", [False, True])
def test_losses_per_token(classes_last):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 5)).double()
    x = torch.randn(6, 7, 3, dtype=torch.float64)
    y = torch.arange(42).view(6, 7) % 5
    y[:, 5:] = -100
    forward = None if classes_last else (lambda model, batch: model(batch[0]).transpose(1, 2))
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 4, 2), forward=forward)
    expected = dense_hessian(model, lambda: F.cross_entropy(model(x).flatten(0, 1), y.flatten()))
    assert_close(some(curv.Hess), some(expected))
    assert_close(some(curv.A1) + some(curv.A2 + curv.B1) + some(curv.B2), some(curv.G))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, CLASSES), nn.Linear(5, CLASSES)

    def forward(self, first, second):
        return torch.tanh(self.a(first)) * self.b(second)


@pytest.mark.parametrize("kind", ["tuple", "dict", "dict within", "forward"])
def test_batches_of_several_inputs(kind):
    _, x, y = make()
    model = TwoInputs().double()
    forward = None
    if kind == "tuple":
        data = [(x[:25], x[:25] ** 2, y[:25]), (x[25:], x[25:] ** 2, y[25:])]
    elif kind == "dict":
        data = [{"first": a, "second": a**2, "labels": b} for a, b in split(x, y, 25, 5)]
    elif kind == "dict within":
        data = [({"first": a, "second": a**2}, b) for a, b in split(x, y, 25, 5)]
    else:
        data, forward = split(x, y, 25, 5), lambda model, batch: model(batch[0], batch[0] ** 2)
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), data, forward=forward)
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: F.cross_entropy(model(x, x**2), y))))


def test_outputs_that_do_not_fit_the_targets_are_refused():
    model, x, y = make()
    with pytest.raises(ValueError, match="do not fit cross-entropy"):
        sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y.view(15, 2)))
    with pytest.raises(ValueError, match="outputs and targets must have one shape"):
        sdt.Curvature(model, nn.MSELoss(), (x, y.double()))


def test_targets_that_are_all_ignored_are_refused():
    model, x, y = make()
    with pytest.raises(ValueError, match="the targets must count"):
        sdt.Curvature(model, nn.CrossEntropyLoss(), (x, torch.full_like(y, -100)))
