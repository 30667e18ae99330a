"""Densities of curvature operators: arguments, the same probes whatever the memory, foreign operators."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from torch import nn
from torch_cases import dense, make, split

import specdens as sd

LOSS = nn.CrossEntropyLoss()
METHODS = ("density", "densities", "layer_densities")
SHARED = (
    "method", "num_steps", "num_probes", "rank", "function", "tol", "max_products", "seed", "checkpoint",
    "checkpoint_interval", "progress",
)  # fmt: skip


def curvature(cache="auto", **options):
    model, x, y = make()
    return sdt.Curvature(model, LOSS, split(x, y, 14, 15, 1), cache=cache, **options)


def traces(density):
    """Return the trace that each probe estimates."""
    measure = density.measure
    return np.array([measure.dimension * w @ t for w, t in zip(measure.weights, measure.nodes, strict=True)])


@pytest.mark.parametrize("name", METHODS)
def test_densities_take_the_arguments_of_the_front_door_with_its_defaults(name):
    front = inspect.signature(sd.spectral_density).parameters
    ours = inspect.signature(getattr(sdt.Curvature, name)).parameters
    assert {key: ours[key].default for key in SHARED} == {key: front[key].default for key in SHARED}


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_every_argument_reaches_the_front_door(cache, tmp_path):
    curv = curvature(cache)
    assert curv.density("G", rank=3, num_steps=4).outliers.rank == 3
    assert curv.densities("G", "H", function="log", num_steps=4)["H"].axis.startswith("log")
    assert isinstance(curv.densities("G", "H", method="kpm", num_steps=4)["G"].measure, sd.ChebyshevMoments)
    assert "products" in curv.densities("G", "H", tol=0.5, max_products=20, num_steps=4)["H"].notes[0]
    assert curv.layer_densities("G", num_steps=3, dual=False, rank=2)["0"].outliers.rank == 2
    squares = curv.densities("G", "H", function=np.square, num_steps=4)
    assert squares["H"].grid.max() > 0
    seen = []
    curv.densities("G", "H", num_steps=4, rank=1, checkpoint=tmp_path / "run.npz", progress=seen.append)
    assert {path.name for path in tmp_path.iterdir()} == {"run-G.npz", "run-H.npz"}
    stages = {state.stage for state in seen}
    assert {"G (1 of 2): top_eigenpairs", "H (2 of 2): fast_lanczos"} <= stages
    with pytest.raises(ValueError, match="`function` must be None"):
        curv.densities("G", "H", function="exp")


@pytest.mark.slow
def test_a_side_by_side_run_continues_from_its_checkpoint(tmp_path):
    curv = curvature("off")
    path = tmp_path / "run.npz"
    curv.densities(num_steps=4, checkpoint=path, checkpoint_interval=0)
    found = curv.densities(num_steps=9, checkpoint=path, checkpoint_interval=0)
    for name, density in curv.densities(num_steps=9).items():
        np.testing.assert_array_equal(found[name].measure.alphas[0], density.measure.alphas[0])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_probes_whatever_the_memory():
    kept, streamed = curvature("auto"), curvature("off")
    for operators in ((), ("G", "H"), ("B2", "G", "A1", "Hess")):
        one, other = (curv.densities(*operators, num_steps=12, num_probes=3, seed=5) for curv in (kept, streamed))
        assert list(one) == list(other)
        for name in one:
            np.testing.assert_allclose(traces(one[name]), traces(other[name]), rtol=1e-9)
    for name in ("Hess", "G", "A1"):
        one, other = (curv.density(name, num_steps=3, num_probes=3, seed=5) for curv in (kept, streamed))
        np.testing.assert_allclose(traces(one), traces(other), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_all_operators_of_a_call_have_the_same_probes(cache):
    curv = curvature(cache)
    found = curv.densities("Hess", "G", "H", "A1", "A2", "B1", "B2", num_steps=20, num_probes=3)
    sample = {name: traces(density) for name, density in found.items()}
    np.testing.assert_allclose(sample["Hess"], sample["G"] + sample["H"], rtol=1e-9)
    np.testing.assert_allclose(sample["G"], sum(sample[name] for name in ("A1", "A2", "B1", "B2")), rtol=1e-9)
    alone = curv.density("Hess", num_steps=20, num_probes=3)
    np.testing.assert_allclose(sample["Hess"], traces(alone), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_operators_on_other_parameters_are_right_and_none_is_lost(cache):
    curv = curvature(cache)
    found = curv.densities(curv.G, curv.subset("0").G, curv.subset("2").Hess, num_steps=24)
    assert list(found) == ["G", "G (0.weight, 0.bias)", "Hess (2.weight, 2.bias)"]
    H, G = dense(curv.Hess).numpy(), dense(curv.G).numpy()
    for density, matrix in zip(found.values(), (G, G[:36, :36], H[36:71, 36:71]), strict=True):
        assert density.measure.dimension == len(matrix)
        assert density.measure.nodes[0].max() == pytest.approx(np.linalg.eigvalsh(matrix)[-1], rel=1e-6)


def test_operators_of_another_curvature_and_repetitions_are_refused():
    curv, other = curvature(), curvature()
    for call in (curv.density, curv.densities):
        with pytest.raises(ValueError, match=r"`operator` must belong to this Curvature.*belongs to another"):
            call(other.G)
    with pytest.raises(ValueError, match="`operators` must differ from each other; 'G' was given twice"):
        curv.densities("G", curv.G)
    with pytest.raises(TypeError, match="`operator` must be a name or a CurvatureOperator; got int"):
        curv.density(3)


def test_parts_of_one_class_have_names():
    curv = curvature()
    found = curv.densities("B2c:1", "B2c:3", num_steps=3)
    assert list(found) == ["B2c:1", "B2c:3"]
    assert curv.density("B2c:1", num_steps=3, dual=False).measure.alphas[0] == pytest.approx(
        found["B2c:1"].measure.alphas[0]
    )
    with pytest.raises(ValueError, match="`c` must be a class, from 0 to 3; got 9"):
        curv.density("B2c:9")


def test_the_way_to_jv_can_be_settled():
    found = [
        curvature(jvp_route=route).G @ torch.ones(95, dtype=torch.float64) for route in ("forward", "double backward")
    ]
    assert torch.allclose(*found, rtol=1e-12)
    curv = curvature(jvp_route="forward")
    _ = curv.G @ torch.ones(95, dtype=torch.float64)
    assert "Jv: forward" in repr(curv)
    with pytest.raises(ValueError, match="`jvp_route` must be one of forward, double backward; got 'reverse'"):
        curvature(jvp_route="reverse")
