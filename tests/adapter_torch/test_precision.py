"""Products where float32 alone would fail, and in half precision."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import specdens_torch as sdt
import torch
import torch.nn.functional as F
from torch import nn

import specdens as sd


@pytest.fixture(scope="module")
def trained():
    """Return a network in float32 trained to a loss of 1e-6, and its data."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
        x = torch.randn(24, 6)
    y = torch.arange(24) % 4
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=400, line_search_fn="strong_wolfe", tolerance_grad=0,
                                  tolerance_change=0)  # fmt: skip

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).double(), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():  # a little sharper, until the loss is what it should be
        while F.cross_entropy(model(x).double(), y) > 1e-6:
            for p in model[2].parameters():
                p *= 1.2
    model.zero_grad()
    return model, x, y


@pytest.mark.parametrize("name", ["Hess", "G", "H", "A1", "B1", "B2"])
def test_products_at_a_loss_of_one_millionth_have_float32_accuracy(trained, name):
    model, x, y = trained
    narrow = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y))
    wide = sdt.Curvature(copy.deepcopy(model).double(), nn.CrossEntropyLoss(), (x.double(), y))
    assert narrow.loss < 1.1e-6
    v = torch.randn(narrow.G.shape[0], generator=torch.Generator().manual_seed(0))
    found, expected = getattr(narrow, name) @ v, getattr(wide, name) @ v.double()
    # the logits of a float32 model are off by about 1e-6, and p is their exponential
    assert float((found.double() - expected).norm() / expected.norm()) < 1e-4


def test_a_bfloat16_model_has_float32_vectors():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
        x, y = torch.randn(24, 6), torch.arange(24) % 4
    wide = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y))
    half = sdt.Curvature(copy.deepcopy(model).bfloat16(), nn.CrossEntropyLoss(), (x.bfloat16(), y))
    assert half.Hess.dtype == torch.float32
    v = torch.randn(half.Hess.shape[0], generator=torch.Generator().manual_seed(0))
    for name in ("Hess", "G", "H", "A1"):
        found, expected = getattr(half, name) @ v, getattr(wide, name) @ v
        assert float((found - expected).norm() / expected.norm()) < 0.1  # bfloat16 has three digits
    assert sd.fast_lanczos(half.G, num_steps=4, check=False).num_steps == 4


def test_autocast_within_forward():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x, y = nn.Linear(6, 4), torch.randn(24, 6), torch.arange(24) % 4

    def forward(model, batch):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return model(batch[0])

    plain, cast = (sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y), forward=f) for f in (None, forward))
    v = torch.arange(28.0)
    assert float((cast.Hess @ v - plain.Hess @ v).norm() / (plain.Hess @ v).norm()) < 0.1


def autocast(model, batch):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model(batch[0]).float()  # the outputs do not tell


@pytest.mark.parametrize("name", ["Hess", "G", "H"])
def test_autocast_gives_eigenvalues_up_to_its_rounding(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 10))
        x, y = torch.randn(100, 20), torch.arange(100) % 10
    plain, cast = (sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y), forward=f) for f in (None, autocast))
    exact, A = getattr(plain, name), getattr(cast, name)
    expected = sd.top_eigenpairs(exact, rank=3).values
    np.testing.assert_allclose(sd.top_eigenpairs(A, rank=3).values, expected, rtol=0.02)  # bfloat16 has three digits
    measure = sd.fast_lanczos(A, num_steps=20, num_probes=2)
    assert any("bfloat16, which rounds to 0.0078" in note for note in measure.notes)
    assert not exact.notes
    squares = [m.trace(np.square).value for m in (measure, sd.fast_lanczos(exact, num_steps=20, num_probes=2))]
    assert squares[0] == pytest.approx(squares[1], rel=0.05)
    sd.check_operator(A)


def test_the_dual_of_an_autocast_model_is_rounded_alike():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x, y = (
            nn.Sequential(nn.Linear(20, 48), nn.Tanh(), nn.Linear(48, 4)),
            torch.randn(30, 20),
            torch.arange(30) % 4,
        )
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y), forward=autocast)
    assert curv.G.dual().vectors.eps == curv.G.vectors.eps > 1e-4
    found, expected = sd.top_eigenpairs(curv.G.dual(), rank=2).values, sd.top_eigenpairs(curv.G, rank=2).values
    np.testing.assert_allclose(found, expected, rtol=0.02)


def test_parameters_of_mixed_dtypes():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 5).double(), nn.Linear(5, 4)

        def forward(self, x):
            return self.b(torch.tanh(self.a(x.double())).float())

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x, y = Mixed(), torch.randn(24, 6), torch.arange(24) % 4
    mixed = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y))
    wide = copy.deepcopy(model).double()
    wide.forward = lambda x: wide.b(torch.tanh(wide.a(x.double())))
    expected = sdt.Curvature(wide, nn.CrossEntropyLoss(), (x, y)).Hess
    v = torch.ones(mixed.Hess.shape[0], dtype=torch.float64)
    assert mixed.Hess.dtype == torch.float64
    assert float((mixed.Hess @ v - expected @ v).norm() / (expected @ v).norm()) < 1e-4
