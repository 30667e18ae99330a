"""No device is ever named: everything runs where the model is, and nothing mixes devices."""

from __future__ import annotations

import pytest
import specdens_torch as sdt
import torch
from cases import NETWORKS, make, split
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import specdens as sd

FAMILY = ("Hess", "G", "H", "A1", "A2", "B1", "B2")


class OneDevice(TorchDispatchMode):
    """Reject operations on tensors of several devices; `meta` alone lets a tensor of the host through silently.

    Numbers of the host may be copied to the device, and take part in arithmetic as scalars.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [t for t in tree_leaves((args, kwargs or {})) if isinstance(t, torch.Tensor)]
        devices = {t.device for t in tensors if t.dim() > 0}
        if len(devices) > 1 and func not in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            raise RuntimeError(f"{func} on several devices: {devices}")
        return func(*args, **(kwargs or {}))


def on(name, device, dtype):
    model, x, y = make(name)
    return model.to(device=device, dtype=dtype), x.to(device=device, dtype=dtype), y.to(device)


CASES = [(name, "auto", torch.float32) for name in NETWORKS] + [
    ("mlp", "off", torch.float32),
    ("mlp", "off", torch.bfloat16),
    ("cnn with batch norm", "auto", torch.bfloat16),
    ("transformer", "auto", torch.bfloat16),
]


@pytest.mark.parametrize(("name", "cache", "dtype"), CASES)
def test_every_operator_stays_on_its_device(name, cache, dtype):
    model, x, y = on(name, "meta", dtype)
    with OneDevice():
        curv = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 25, 5), cache=cache)
        for route in ("double backward", "forward") if name == "mlp" else ("double backward",):
            curv._engine.route = route
            for kind in FAMILY:
                A = getattr(curv, kind)
                product = A @ torch.ones(A.shape[0], device="meta")
                assert product.device.type == "meta"
                assert product.dtype == torch.float32


def test_the_dispatch_mode_sees_a_tensor_of_the_host():
    with OneDevice(), pytest.raises(RuntimeError, match="device"):
        _ = torch.ones(3, device="meta") + torch.ones(3)


def test_duals_and_other_losses_stay_on_their_device():
    model, x, _ = on("mlp", "meta", torch.float32)
    t = torch.ones(30, 4, device="meta")
    with OneDevice():
        for loss in (nn.MSELoss(), nn.BCEWithLogitsLoss(), nn.HuberLoss(), nn.CrossEntropyLoss()):
            curv = sdt.Curvature(model, loss, (x[:9], t[:9]))
            for A in (curv.Hess, curv.G, curv.H, *([] if isinstance(loss, nn.HuberLoss) else [curv.G.dual()])):
                assert (A @ torch.ones(A.shape[0], device="meta", dtype=A.dtype)).device.type == "meta"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", NETWORKS)
def test_products_on_a_gpu_are_those_of_the_host(name):
    model, x, y = make(name)
    host = sdt.Curvature(model, nn.CrossEntropyLoss(), split(x, y, 25, 5))
    v = torch.randn(host.G.shape[0], dtype=torch.float64)
    expected = {kind: getattr(host, kind) @ v for kind in FAMILY}
    for cache in ("auto", "off"):
        device = sdt.Curvature(model.cuda(), nn.CrossEntropyLoss(), split(x, y, 25, 5), cache=cache)
        for kind in FAMILY:
            found = (getattr(device, kind) @ v.cuda()).cpu()
            assert float((found - expected[kind]).norm() / expected[kind].norm()) < 1e-9
    assert sd.fast_lanczos(device.Hess, num_steps=8).num_steps == 8
