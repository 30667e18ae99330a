"""Duals: the same non-zero spectrum on the outputs' space, taken by itself where it is cheaper."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from command_line import run
from torch import nn
from torch_cases import CLASSES, assert_close, dense, make, split

import specdens as sd


@pytest.mark.slow
def test_duals_have_the_same_nonzero_spectrum_and_a_known_null_space():
    model, x, y = make(examples=10)
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 6, 3, 1))
    family = [curv.G, curv.A1, curv.B1, curv.A1 + curv.A2 + curv.B1, curv.B2, curv.G - curv.A1, 2 * curv.G - curv.B2,
              curv.B2c(0), curv.A1 + curv.B2]  # fmt: skip
    for A in family:
        D = A.dual()
        exact, found = (torch.linalg.eigvalsh(dense(B)).flip(0) for B in (A, D))
        size = float(exact[0])
        rank = int((exact > 1e-11 * size).sum())
        assert torch.allclose(exact[:rank], found[:rank], rtol=0, atol=1e-13 * size), A
        assert int((found > 1e-11 * size).sum()) == rank
        assert rank <= D.bulk_dimension
        assert D.known_atoms.masses[0] == pytest.approx(1 - D.bulk_dimension / A.shape[0])
    assert curv.G.dual().bulk_dimension == 10 * (CLASSES - 1)


@pytest.mark.slow
def test_a_density_by_the_dual_is_that_of_g_and_says_so():
    model, x, y = make(examples=12)
    y[3] = -100
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 9, 3))
    density = curv.density("G", num_steps=33)
    eigenvalues = np.linalg.eigvalsh(dense(curv.G).numpy())
    assert "by the dual of G" in density.notes[0]
    assert density.measure.atoms.masses[0] >= 1 - 33 / curv.G.shape[0]
    exact = np.sort(eigenvalues)[-33:]
    np.testing.assert_allclose(density.measure.nodes[0], exact, atol=1e-10 * exact[-1])


@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.BCEWithLogitsLoss()])
def test_duals_of_other_closed_forms(loss):
    model, x, _ = make(examples=9)
    t = (torch.arange(36).view(9, CLASSES) % 3 == 0).double()
    curv = sdt.Curvature(model, loss, split(x, t, 8, 1))
    exact, found = (torch.linalg.eigvalsh(dense(B)).flip(0)[:36] for B in (curv.G, curv.G.dual()))
    assert torch.allclose(exact, found, rtol=0, atol=1e-13 * float(exact[0]))


def test_duals_that_do_not_exist_are_refused():
    model, x, y = make()
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y))
    with pytest.raises(ValueError, match="coefficients of at least 0; got Hess"):
        curv.Hess.dual()
    with pytest.raises(ValueError, match="not below the"):
        curv.subset("0.bias").G.dual()
    concave = sdt.Curvature(model, lambda o, t: -o.pow(4).sum(1), (x[:5], y[:5]))
    with pytest.raises(ValueError, match=r"convex in the outputs; an example has the eigenvalue -.*dual=False"):
        _ = concave.G.dual() @ torch.ones(20, dtype=torch.float64)
    coupled = sdt.Curvature(model, lambda o, t: o.mean(0).pow(2).sum(), (x[:5], y[:5]))
    with pytest.raises(ValueError, match="couples the examples of a batch"):
        _ = coupled.G.dual() @ torch.ones(20, dtype=torch.float64)


def poisson(output, target):
    return output.exp().sum(1) - (target * output).sum(1) + 0.5 * output.sum(1) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["auto", "off"])
@pytest.mark.parametrize(
    "loss", [nn.HuberLoss(delta=0.5), poisson, nn.PoissonNLLLoss()], ids=["huber", "dense", "poisson"]
)
def test_duals_of_any_convex_loss(loss, cache):
    model, x, _ = make(examples=9)
    t = torch.rand(9, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    curv = sdt.Curvature(model, loss, split(x, t, 8, 1), cache=cache)
    exact, found = (torch.linalg.eigvalsh(dense(B)).flip(0)[:36] for B in (curv.G, curv.G.dual()))
    assert torch.allclose(exact, found, rtol=0, atol=1e-12 * float(exact[0]))
    assert curv.G.cheaper_form() is None  # whether a loss is convex is for the user to say
    assert "by the dual of G" in curv.density("G", num_steps=5, dual=True).notes[0]


# -- taken by itself -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["G", "A1", "B2"])
def test_the_front_door_takes_the_dual_and_says_so(name, caplog):
    model, x, y = make(examples=12)
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 9, 3))
    A = getattr(curv, name)
    with caplog.at_level(logging.INFO, logger="specdens"):
        density = sd.spectral_density(A, num_steps=90)
    message = f"by the dual of {name}: vectors of 48 entries instead of 95, exact atom at zero"
    assert density.notes[0] == message
    assert message in caplog.text
    assert message in repr(density)
    assert density.measure.method == "slow_lanczos"
    exact = np.linalg.eigvalsh(dense(A).numpy())
    # the dual's dimension is exhausted: every eigenvalue is a node, and the rest is the atom
    k = density.measure.nodes[0].size
    np.testing.assert_allclose(density.measure.nodes[0], exact[-k:], atol=1e-10 * exact[-1])
    assert density.mass() + density.mass_outside == pytest.approx(1)


def is_by_dual(density):
    return any("by the dual" in note for note in density.notes)


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_the_dual_is_taken_where_it_is_shorter_whatever_the_memory(cache):
    model, x, y = make(examples=12)
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 9, 3), cache=cache)
    for operator in ("G", "A1"):
        assert getattr(curv, operator).cheaper_form() is not None
        assert is_by_dual(curv.density(operator, num_steps=3))
        assert not is_by_dual(curv.density(operator, num_steps=3, dual=False))
        assert is_by_dual(curv.density(operator, num_steps=3, dual=True))
    for A in (curv.Hess, curv.H, curv.G - 2 * curv.A1, curv.subset("4").G):
        assert A.cheaper_form() is None
        assert not is_by_dual(sd.spectral_density(A, num_steps=3))


@pytest.mark.slow
def test_what_was_asked_for_is_what_is_run_on_the_dual():
    model, x, y = make(examples=12)
    G = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y)).G
    kpm = sd.spectral_density(G, method="kpm", num_steps=20)
    assert "by the dual of G" in kpm.notes[0]
    assert isinstance(kpm.measure, sd.ChebyshevMoments)
    close = sd.spectral_density(G, tol=1e-2)
    assert len(close.notes) == 2
    log = sd.spectral_density(G, function="log", num_probes=1)
    assert "by the dual of G" in log.notes[0]
    assert log.measure.num_products <= 36 + 2  # all of the dimension, and checks


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["G", "B2"])
def test_eigenpairs_of_the_dual_come_back_as_vectors_of_parameters(name, dtype):
    model, x, y = make(examples=12)
    curv = sdt.Curvature(model.to(dtype), nn.CrossEntropyLoss(), split(x.to(dtype), y, 9, 3))
    A = getattr(curv, name)
    density = sd.spectral_density(A, rank=4, num_steps=10)
    pairs = density.outliers
    V = pairs.vectors
    assert V.shape == (95, 4)
    assert V.dtype == dtype
    assert "by the dual" in density.notes[0]
    assert_close(V.T @ V, torch.eye(4, dtype=dtype), rtol=1e-5)
    exact = np.linalg.eigvalsh(dense(A).double().numpy())[::-1][:4]
    np.testing.assert_allclose(pairs.values, exact, rtol=1e-5)
    residuals = (A @ V - V * torch.as_tensor(pairs.values, dtype=dtype)).norm(dim=0).double().numpy() / exact
    np.testing.assert_allclose(pairs.residuals, residuals, rtol=1e-2, atol=1e-6)
    assert float(residuals.max()) < 1e-3


def test_a_rank_beyond_the_dual_is_left_to_the_operator():
    model, x, y = make(examples=12)
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y))
    assert curv.A1.dual().bulk_dimension == 3  # one class is empty
    density = sd.spectral_density(curv.A1, rank=5, num_steps=5)
    assert not is_by_dual(density)
    assert density.outliers.vectors.shape == (95, 5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["G", "A1", "B2"])
def test_duals_and_operators_of_narrow_models_pass_the_checks_of_symmetry(name, dtype):
    model, x, y = make("cnn with batch norm", examples=12)
    A = getattr(sdt.Curvature(model.to(dtype), nn.CrossEntropyLoss(), split(x.to(dtype), y, 9, 3)), name)
    for B in (A, A.dual()):
        run = sd.fast_lanczos(B, num_steps=min(8, B.bulk_dimension))
        pairs = sd.top_eigenpairs(B, rank=2)
        top = max(nodes.max() for nodes in run.nodes)
        assert top == pytest.approx(pairs.values[0], rel=0.2)
    assert sd.slow_lanczos(A.dual(), num_steps=2).num_steps == 2


def test_the_command_line_takes_the_dual_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.py").write_text(
        "import torch\n"
        "def problem():\n"
        "    torch.manual_seed(0)\n"
        "    x, y = torch.randn(12, 20), torch.arange(12) % 3\n"
        "    return torch.nn.Linear(20, 3), torch.nn.CrossEntropyLoss(), [(x[:7], y[:7]), (x[7:], y[7:])]\n"
    )
    message = run("hessian", "problem.py", "--operator", "Hess,G,B2c:1", "--rank", 2, "--steps", 5, "-o", "out.npz")
    assert "by the dual of G: vectors of 36 entries instead of 63" in message
    G = sd.load("out-G-train.npz")
    assert "by the dual of G" in G.notes[0]
    assert G.outliers.vectors.shape == (63, 2)
    assert not any("dual" in note for note in sd.load("out-Hess-train.npz").notes)
    assert "by the dual of B2c(1)" in sd.load("out-B2c1-train.npz").notes[0]
