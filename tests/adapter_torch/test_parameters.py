"""Subsets, layers, frozen, unused and tied parameters; flat vectors and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.linalg
import specdens_torch as sdt
import torch
from torch import nn
from torch_cases import CLASSES, assert_close, dense, dense_hessian, make, some, split

LOSS = nn.CrossEntropyLoss()


def test_subsets_by_name_pattern_module_and_parameter():
    model, x, y = make()
    whole = dense(sdt.Curvature(model, LOSS, (x, y)).Hess)
    places = {"0.weight": range(30), "0.bias": range(30, 36), "2.weight": range(36, 66), "2.bias": range(66, 71),
              "4.weight": range(71, 91), "4.bias": range(91, 95)}  # fmt: skip
    cases = [
        ("0.weight", ["0.weight"]),
        ("*.bias", ["0.bias", "2.bias", "4.bias"]),
        ("2", ["2.weight", "2.bias"]),
        (model[4], ["4.weight", "4.bias"]),
        ([model[0].bias, "4.*"], ["0.bias", "4.weight", "4.bias"]),
    ]
    shared = sdt.Curvature(model, LOSS, split(x, y, 25, 5))
    for params, names in cases:
        rows = [i for name in names for i in places[name]]
        for curv in (sdt.Curvature(model, LOSS, (x, y), params), shared.subset(params)):
            assert curv.names == tuple(names)
            assert_close(some(curv.Hess), some(whole[rows][:, rows]))
            assert_close(some(curv.G) + some(curv.H), some(curv.Hess))


def test_bad_subsets_are_refused():
    model, x, y = make()
    with pytest.raises(ValueError, match=r"'9\.weight' matches none of its 6"):
        sdt.Curvature(model, LOSS, (x, y), "9.weight")
    with pytest.raises(ValueError, match="must belong to the model"):
        sdt.Curvature(model, LOSS, (x, y), nn.Linear(2, 2))
    with pytest.raises(ValueError, match="at least one parameter; got none"):
        sdt.Curvature(model, LOSS, (x, y), [])
    with pytest.raises(TypeError, match="names, glob patterns, modules or parameters; got int"):
        sdt.Curvature(model, LOSS, (x, y), 3)
    with pytest.raises(ValueError, match=r"'2\.weight' is not"):
        sdt.Curvature(model, LOSS, (x, y), "0").subset("2")
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        sdt.Curvature(model, LOSS, (x, y))


class Odd(nn.Module):
    """Tied weights, an unused parameter and a parameter without effect on the outputs."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 5)
        self.b = nn.Linear(5, 5)
        self.b.weight = self.a.weight
        self.unused = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(5, CLASSES)
        self.frozen = nn.Parameter(torch.full((5,), 0.5), requires_grad=False)
        self.register_buffer("shift", torch.arange(5.0))

    def forward(self, x):
        return self.head(torch.tanh(self.b(torch.tanh(self.a(x)))) * self.frozen + self.shift)


@pytest.mark.parametrize("cache", ["auto", "off"])
def test_tied_frozen_and_unused_parameters(cache):
    _, x, y = make()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Odd().double()
    curv = sdt.Curvature(model, LOSS, split(x, y, 25, 5), cache=cache)
    assert "b.weight" not in curv.names
    assert "frozen" not in curv.names
    params = [p for p in model.parameters() if p.requires_grad]
    expected = dense_hessian(model, lambda: LOSS(model(x), y), params)
    assert_close(some(curv.Hess), some(expected))
    assert_close(some(curv.G) + some(curv.H), some(expected))
    unused = curv.unflatten(curv.Hess @ torch.ones(curv.Hess.shape[0], dtype=torch.float64))["unused"]
    assert torch.equal(unused, torch.zeros(3, dtype=torch.float64))
    explicit = sdt.Curvature(model, LOSS, (x, y), ["frozen", "b.weight"])
    assert explicit.names == ("frozen", "a.weight") or explicit.names == ("a.weight", "frozen")


def test_outputs_without_the_parameters_are_refused():
    _, x, y = make()
    with pytest.raises(ValueError, match="outputs must depend on the parameters"):
        sdt.Curvature(Odd().double(), LOSS, (x, y), "unused")


def test_flatten_is_the_inverse_of_unflatten():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, (x, y))
    v = torch.arange(95.0, dtype=torch.float64)
    named = curv.unflatten(v)
    assert named["2.weight"].shape == (5, 6)
    assert named["2.weight"].data_ptr() == v[36:].data_ptr()  # views, not copies
    assert torch.equal(curv.flatten(named), v)
    assert torch.equal(curv.flatten(dict(model.named_parameters()))[:30], model[0].weight.detach().flatten())
    with pytest.raises(ValueError, match=r"'4\.bias' is missing"):
        curv.flatten({name: t for name, t in named.items() if name != "4.bias"})
    with pytest.raises(ValueError, match=r"must have shape \(4,\); got \(1,\)"):
        curv.flatten(named | {"4.bias": torch.ones(1)})
    with pytest.raises(ValueError, match=r"`x` must have shape \(95,\)"):
        curv.unflatten(v[:-1])


def test_scipy_finds_the_same_eigenvalues():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, (x, y))
    A = curv.Hess.to_scipy()
    assert A.dtype == np.float64
    exact = np.linalg.eigvalsh(dense(curv.Hess).numpy())
    found = scipy.sparse.linalg.eigsh(A, k=3, which="LA", return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(found), exact[-3:], rtol=1e-9)
    block = np.random.default_rng(0).standard_normal((95, 3))
    np.testing.assert_allclose(A @ block, dense(curv.Hess).numpy() @ block, atol=1e-12)
