"""Layers and habits that automatic differentiation may get wrong: right on every route, or refused by name."""

from __future__ import annotations

import pytest
import specdens_torch as sdt
import torch
from slow_cases import slow_except
from torch import nn
from torch_cases import assert_close, dense, dense_hessian, make, mlp, probes, some, split
from torch_layers import Net, Reentrant
from torch_references import NETWORKS, build, directions, gauss_newton_products, hessian_products

import specdens as sd

LOSS = nn.CrossEntropyLoss()
ROUTES = ("forward", "double backward")
COMMON = {"Linear", "Conv2d, batch norm, GELU", "TransformerEncoderLayer"}


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph")
@pytest.mark.parametrize("name", slow_except(COMMON, NETWORKS))
def test_every_layer_is_right_on_every_route_and_with_every_cache(name):
    model, x, y = build(name)
    plain = getattr(model, "_orig_mod", model)
    V = directions(plain)
    hess = hessian_products(plain, lambda: LOSS(plain(x), y), V)
    W = directions(plain, padding=True)
    G = gauss_newton_products(plain, x, W)
    for route in ROUTES:
        for cache in ("auto", "off"):
            curv = sdt.Curvature(model, LOSS, split(x, y, 7, 5), cache=cache, jvp_route=route)
            assert_close(curv.G @ W, G, rtol=1e-11)
            assert_close(curv.Hess @ V, hess, rtol=1e-8)  # what sixth-order differences can tell
            assert_close(curv.Hess @ V, curv.G @ V + curv.H @ V, rtol=1e-11)
            assert_close(sum(getattr(curv, part) @ W for part in ("A1", "A2", "B1", "B2")), G, rtol=1e-11)


def test_reentrant_checkpoints_are_refused_by_name():
    _, x, y = make()
    inside = nn.Sequential(nn.Linear(5, 5), Reentrant(mlp(), 4)).double()
    for model in (Reentrant(mlp(), 4).double(), inside):
        with pytest.raises(ValueError, match=r"reentrant gradient checkpointing.*use_reentrant=False"):
            sdt.Curvature(model, LOSS, (x, y))


class PlainLayerNorm(nn.LayerNorm):
    def forward(self, x):
        variance = x.var(-1, correction=0, keepdim=True)
        return (x - x.mean(-1, keepdim=True)) / (variance + self.eps).sqrt() * self.weight + self.bias


class ForwardMode(Net):
    def features(self, x):
        return torch.func.jvp(lambda z: torch.tanh(self.layer(z)).pow(3), (x,), (torch.sin(x),))[1]


class InnerHessian(Net):
    def features(self, x):
        return torch.func.vmap(torch.func.hessian(lambda z: torch.tanh(self.layer(z)).pow(3).sum()))(x).flatten(1)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "width"), [(ForwardMode, 6), (InnerHessian, 25)])
def test_layer_norms_within_transforms_are_right_where_gradients_of_torch_are_not(kind, width):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind(nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6)), width).double()
    plain = kind(nn.Sequential(nn.Linear(5, 6), PlainLayerNorm(6)), width).double()
    plain.load_state_dict(model.state_dict())
    _, x, y = build("Linear")
    wrong, right = (
        torch.cat([g.flatten() for g in torch.autograd.grad(LOSS(m(x), y), list(m.parameters()))])
        for m in (model, plain)
    )
    assert float((wrong - right).norm() / right.norm()) > 0.01  # torch's own gradient: if it is mended, so is this
    V = directions(plain)
    curv, reference = (sdt.Curvature(m, LOSS, split(x, y, 7, 5)) for m in (model, plain))
    assert_close(curv.G @ V, gauss_newton_products(plain, x, V), rtol=1e-11)
    assert_close(curv.Hess @ V, reference.Hess @ V, rtol=1e-10)


class Rounded(nn.Module):
    def forward(self, x):
        return x.round()


def test_parameters_behind_round_are_named():
    _, x, y = make()
    model = nn.Sequential(nn.Linear(5, 5), Rounded(), nn.Linear(5, 4)).double()
    with pytest.warns(sd.SpecdensWarning, match=r"respect to 0.weight, 0.bias is zero everywhere: round\(\) stands"):
        curv = sdt.Curvature(model, LOSS, (x, y))
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: LOSS(model(x), y))))


def test_embeddings_whose_gradient_is_not_one_are_refused_by_name():
    ids, y = torch.arange(12).reshape(4, 3) % 7, torch.arange(4)
    for options, message in (
        ({"scale_grad_by_freq": True}, "scale_grad_by_freq=True"),
        ({"max_norm": 1.0}, "max_norm=1"),
    ):
        model = Net(nn.Embedding(7, 5, **options), 5, pool=True).double()
        with pytest.raises(ValueError, match=message):
            sdt.Curvature(model, LOSS, (ids, y))


# -- losses ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("first", [0, 12, 20], ids=["ignored everywhere", "in both", "in the second batch alone"])
def test_nll_loss_is_right_whatever_is_ignored_where(first, weighted, reduction):
    inner, x, y = make()
    model = nn.Sequential(inner, nn.LogSoftmax(1))
    y[first::3] = -100
    weight = torch.tensor([1.0, 2.0, 3.0, 0.5], dtype=torch.float64) if weighted else None
    loss = nn.NLLLoss(weight=weight, reduction=reduction)
    curv = sdt.Curvature(model, loss, split(x, y, 20, 10))
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: loss(model(x), y))))
    assert curv.loss == pytest.approx(loss(model(x), y).item())
    same = sdt.Curvature(inner, nn.CrossEntropyLoss(weight=weight, reduction=reduction), split(x, y, 20, 10))
    assert_close(some(curv.Hess), some(same.Hess))


def test_a_loss_that_is_a_mean_in_the_first_batch_only_is_refused():
    class Odd(nn.Module):
        """Averages over the targets that are not zero."""

        reduction = "mean"

        def forward(self, output, target):
            losses = (output - target).pow(4) * (target != 0)
            return losses.sum() / (target != 0).sum() if self.reduction == "mean" else losses

    model, x, _ = make()
    t = torch.ones(30, 4, dtype=torch.float64)
    t[25:] = 0.0
    t[29] = 1.0
    with pytest.raises(ValueError, match="`loss` Odd does not average over its elements"):
        sdt.Curvature(model, Odd(), split(x, t, 20, 10))


def likelihood(output, target):
    return -output[torch.arange(len(output)), target]


@pytest.mark.parametrize("loss", [nn.NLLLoss(), likelihood], ids=["NLLLoss", "function"])
def test_a_loss_that_is_linear_in_the_outputs_says_that_g_is_zero(loss):
    inner, x, y = make()
    curv = sdt.Curvature(nn.Sequential(inner, nn.LogSoftmax(1)), loss, split(x, y, 20, 10))
    with pytest.warns(sd.SpecdensWarning, match="linear in the outputs .* G is zero and Hess is H"):
        G = curv.G
    assert float(some(G).norm()) == 0.0
    assert_close(some(curv.Hess), some(curv.H))


def test_a_loss_that_is_piecewise_linear_says_that_g_is_zero():
    model, x, _ = make()
    t = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)).double()
    curv = sdt.Curvature(model, nn.L1Loss(), split(x, t, 20, 10))
    with pytest.warns(sd.SpecdensWarning, match="piecewise linear, on the first batch: there G is zero"):
        _ = curv.G
    assert_close(dense(curv.Hess), dense_hessian(model, lambda: nn.L1Loss()(model(x), t)))


def test_losses_that_cannot_be_differentiated_twice_are_named():
    ctc = nn.CTCLoss(reduction="none")

    def loss(output, target):
        n = len(output)
        return ctc(output.log_softmax(-1).transpose(0, 1), target, torch.full((n,), 6), torch.full((n,), 2))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        x, t = torch.randn(3, 6, 5).double(), torch.randint(1, 4, (3, 2))
    curv = sdt.Curvature(mlp().double(), loss, (x, t))
    for A in (curv.Hess, curv.G):
        with pytest.raises(ValueError, match=r"the loss cannot be differentiated twice.*_ctc_loss_backward"):
            some(A)
    assert float(some(curv.H).norm()) > 0


# -- which axis holds the classes ------------------------------------------------------------------------------


def tokens(*lengths):
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(3, T, 5, generator=generator).double(), torch.randint(0, 4, (3, T), generator=generator))
        for T in lengths
    ]


class ClassesFirst(nn.Linear):
    def forward(self, x):
        return super().forward(x).movedim(-1, 1)


@pytest.mark.parametrize("lengths", [(4, 6), (6, 4), (4, 4, 5), (3, 2)])
@pytest.mark.parametrize("kind", [nn.Linear, ClassesFirst])
def test_the_axis_of_the_classes_is_decided_once_for_all_batches(kind, lengths):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind(5, 4).double()
    data = tokens(*lengths)

    def total():
        rows = [(nn.Linear.forward(model, x).reshape(-1, 4), y.reshape(-1)) for x, y in data]
        return LOSS(torch.cat([f for f, _ in rows]), torch.cat([y for _, y in rows]))

    curv = sdt.Curvature(model, LOSS, data)
    assert_close(some(curv.Hess), some(dense_hessian(model, total)))
    assert curv.loss == pytest.approx(total().item())


def test_outputs_that_leave_the_axis_open_are_refused():
    with pytest.raises(ValueError, match=r"outputs of shape \(3, 4, 4\).*leave open whether the classes"):
        sdt.Curvature(nn.Linear(5, 4).double(), LOSS, tokens(4, 4))


# -- float16 -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("gap", [4, 8, 14], ids=["loss 6e-2", "loss 1e-3", "loss 4e-6"])
@pytest.mark.parametrize("examples", [600, 60_000])
def test_float16_models_near_zero_loss_keep_their_digits(examples, gap):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(examples) % 4
    x = 0.05 * torch.randn(examples, 5, generator=generator)
    x[torch.arange(examples), y] += 1
    narrow = nn.Linear(5, 4)
    with torch.no_grad():
        narrow.weight.copy_(gap * torch.eye(4, 5))
        narrow.bias.zero_()
    wide = nn.Linear(5, 4).double()
    wide.load_state_dict(narrow.half().state_dict())
    found = sdt.Curvature(narrow, LOSS, list(zip(x.half().chunk(3), y.chunk(3), strict=True)))
    exact = sdt.Curvature(wide, LOSS, (x.half().double(), y))
    for name in ("Hess", "G", "A1", "B2"):
        product = getattr(found, name) @ probes(24).float()
        assert_close(product.double(), getattr(exact, name) @ probes(24), rtol=2e-3)


@pytest.mark.slow
def test_float16_products_do_not_overflow():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        narrow = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4))
        x = torch.randn(3000, 5)
    with torch.no_grad():
        narrow[2].weight.mul_(100)
    y = narrow(x).argmax(1)
    wide = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4)).double()
    wide.load_state_dict(narrow.half().state_dict())
    found = sdt.Curvature(narrow, LOSS, split(x.half(), y, 2000, 1000))
    exact = sdt.Curvature(wide, LOSS, (x.half().double(), y))
    for name in ("Hess", "G"):
        assert_close(dense(getattr(found, name)).double(), dense(getattr(exact, name)), rtol=1e-2)
