"""No device is ever named: everything runs where the model is, and nothing mixes devices."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from one_device import OneDevice
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_cases import NETWORKS, make, split

import specdens as sd
from specdens._vectors.base import Vectors

FAMILY = ("Hess", "G", "H", "A1", "A2", "B1", "B2")


def on(name, device, dtype):
    model, x, y = make(name)
    return model.to(device=device, dtype=dtype), x.to(device=device, dtype=dtype), y.to(device)


CASES = [(name, "auto", torch.float32) for name in NETWORKS] + [
    (name, cache, dtype)
    for name in ("mlp", "cnn with batch norm")
    for cache in ("auto", "off")
    for dtype in (torch.float32, torch.bfloat16)
    if (cache, dtype) != ("auto", torch.float32)
]


def members(curv):
    """Return every operator, and the duals of G and of its components."""
    components = [curv.A1, curv.A2, curv.B1, curv.B2, curv.B2c(1), curv.G - curv.A1]
    return [curv.Hess, curv.H, curv.Hess - curv.B2], [curv.G, *components]


@pytest.mark.slow
@pytest.mark.parametrize("route", ["double backward", "forward"])
@pytest.mark.parametrize(("name", "cache", "dtype"), CASES)
def test_every_operator_stays_on_its_device(name, cache, dtype, route):
    model, x, y = on(name, "meta", dtype)
    with OneDevice():
        curv = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x[:20], y[:20], 17, 3), cache=cache)
        curv._engine.route = curv._engine.block_route = route
        others, rooted = members(curv)
        for A in others + rooted:
            for shape in ((A.shape[0],), (A.shape[0], 2)):
                product = A @ torch.ones(shape, device="meta")
                assert product.device.type == "meta"
                assert product.dtype == torch.float32
        small = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x[:5], y[:5], 4, 1), cache=cache)
        small._engine.route = route
        for A in members(small)[1]:
            D = A.dual()
            product = D @ torch.ones(D.shape[0], device="meta", dtype=D.dtype)
            assert product.device.type == "meta"
            assert product.dtype == torch.float64


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Hess", "G", "A1"])
def test_a_lanczos_step_waits_for_the_device_once(name, monkeypatch):
    """On `meta` any wait but `to_host` raises by itself; that one is counted, and answered with numbers."""
    model, x, y = on("mlp", "meta", torch.float32)
    waits = []

    def to_host(self, x):
        waits.append(1)
        return np.ones(tuple(x.shape))

    monkeypatch.setattr(Vectors, "to_host", to_host)
    with OneDevice():
        A = getattr(sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 25, 5)), name)
        counts = []
        for steps in (5, 15):
            waits.clear()
            sd.fast_lanczos(A, num_steps=steps, check=False)
            counts.append(len(waits))
    assert counts[1] - counts[0] <= 10


def test_a_wait_that_is_hidden_in_a_product_would_be_seen():
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        torch.ones((), device="meta").item()


def test_the_dispatch_mode_sees_a_tensor_of_the_host():
    with OneDevice(), pytest.raises(RuntimeError, match="device"):
        _ = torch.ones(3, device="meta") + torch.ones(3)


def test_duals_and_other_losses_stay_on_their_device():
    model, x, _ = on("mlp", "meta", torch.float32)
    t = torch.ones(30, 4, device="meta")
    with OneDevice():
        for loss in (nn.MSELoss(), nn.BCEWithLogitsLoss(), nn.HuberLoss(), nn.CrossEntropyLoss()):
            curv = sdt.Curvature(model, loss, (x[:9], t[:9]))
            for A in (curv.Hess, curv.G, curv.H, curv.G.dual()):
                assert (A @ torch.ones(A.shape[0], device="meta", dtype=A.dtype)).device.type == "meta"


# -- where a GPU exists ----------------------------------------------------------------------------------------------

on_a_gpu = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def cuda(test):
    """Mark a test as one that needs a GPU."""
    for mark in on_a_gpu:
        test = mark(test)
    return test


@cuda
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_products_on_a_gpu_are_those_of_the_host(name, cache):
    model, x, y = make(name)
    host = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 25, 5))
    v = torch.randn(host.G.shape[0], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = {kind: getattr(host, kind) @ v for kind in FAMILY}
    # the batches stay on the host: they are sent
    device = sdt.Curvature(copy.deepcopy(model).cuda(), nn.CrossEntropyLoss(), split(x, y, 25, 5), cache=cache)
    for kind in FAMILY:
        found = getattr(device, kind) @ v.cuda()
        assert found.is_cuda
        assert float((found.cpu() - expected[kind]).norm() / expected[kind].norm()) < 1e-9


@cuda
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "streamed"])
def test_runs_on_a_gpu_are_those_of_the_host(keep):
    model, x, y = make(examples=12)
    loader = DataLoader(TensorDataset(x, y), batch_size=5)
    host = sdt.Curvature(model, nn.CrossEntropyLoss(), loader)
    device = sdt.Curvature(copy.deepcopy(model).cuda(), nn.CrossEntropyLoss(), loader, keep_data=keep)
    for name in ("Hess", "G", "B2"):
        ours, theirs = (getattr(curv, name) for curv in (device, host))
        for run in (sd.fast_lanczos, sd.slow_lanczos):
            found, expected = (run(A, num_steps=5) for A in (ours, theirs))
            # few steps in float64: rounding has not been amplified yet
            scale = np.max(np.abs(expected.alphas[0]))
            np.testing.assert_allclose(found.alphas[0], expected.alphas[0], atol=1e-8 * scale)
            np.testing.assert_allclose(found.betas[0], expected.betas[0], atol=1e-8 * scale)
    found, expected = (sd.spectral_density(curv.G, rank=2, num_steps=8) for curv in (device, host))
    assert found.outliers.vectors.is_cuda
    np.testing.assert_allclose(found.outliers.values, expected.outliers.values, rtol=1e-6)
    found, expected = (curv.class_spectrum().eigenvalues for curv in (device, host))
    np.testing.assert_allclose(found, expected, atol=1e-10 * expected[0])
    found, expected = (curv.class_traces().values for curv in (device, host))
    np.testing.assert_allclose(found, expected, atol=1e-10 * expected.max())


@cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_models_run_on_a_gpu(dtype):
    model, x, y = make("cnn with batch norm")
    curv = sdt.Curvature(model.to(device="cuda", dtype=dtype), nn.CrossEntropyLoss(), (x.to(dtype), y))
    assert sd.fast_lanczos(curv.Hess, num_steps=8).num_steps == 8
    assert curv.densities(num_steps=5)["G"].mass() > 0
