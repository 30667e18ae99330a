"""Products of small networks by plain gradients and their differences.

These need first derivatives only, and are right where torch's second derivatives are not.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_habits import HABITS
from torch_layers import CLASSES, IDS, LAYERS

NETWORKS = LAYERS | HABITS


def build(name: str, *, examples: int = 12) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a network of the registry in eval mode, its inputs and labels (class 2 is empty)."""
    make, shape = NETWORKS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make().double().eval()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2.0)
        x = torch.randint(0, 7, (examples, 3)) if shape == IDS else torch.randn(examples, *shape).double()
    y = torch.arange(examples) % CLASSES
    y[y == 2] = 0
    return model, x, y


def directions(model: nn.Module, count: int = 2, *, padding: bool = False) -> Tensor:
    """Return vectors of parameters, perhaps without a part in the padding of an embedding, which has no gradient."""
    generator = torch.Generator().manual_seed(1)
    columns = []
    for _ in range(count):
        parts = {p: torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in model.parameters()}
        for module in model.modules():
            if isinstance(module, nn.Embedding) and module.padding_idx is not None and not padding:
                parts[module.weight][module.padding_idx] = 0.0
        columns.append(torch.cat([part.flatten() for part in parts.values()]))
    return torch.stack(columns, dim=1)


def gradient(model: nn.Module, objective: Callable[[], Tensor]) -> Tensor:
    """Return the flat gradient of an objective, with zeros for unused parameters."""
    params = list(model.parameters())
    with sdpa_kernel(SDPBackend.MATH), torch.compiler.set_stance("force_eager"):
        found = torch.autograd.grad(objective(), params, allow_unused=True)
    dense = [torch.zeros_like(p) if g is None else g.to_dense() for g, p in zip(found, params, strict=True)]
    return torch.cat([g.flatten() for g in dense])


def hessian_products(model: nn.Module, objective: Callable[[], Tensor], V: Tensor, step: float = 1e-3) -> Tensor:
    """Return Hess V by central differences of sixth order of plain gradients."""
    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    params = list(model.parameters())
    start = torch.nn.utils.parameters_to_vector(params).detach().clone()
    columns = []
    for v in V.T:
        total = torch.zeros_like(v)
        for k, w in weights.items():
            for sign in (1, -1):
                torch.nn.utils.vector_to_parameters(start + sign * k * step * v, params)
                total += sign * w * gradient(model, objective)
        columns.append(total / step)
    torch.nn.utils.vector_to_parameters(start, params)
    return torch.stack(columns, dim=1)


def gauss_newton_products(model: nn.Module, x: Tensor, V: Tensor) -> Tensor:
    """Return JᵀSJ V for softmax cross-entropy, from rows of the Jacobian by plain gradients."""
    with sdpa_kernel(SDPBackend.MATH), torch.compiler.set_stance("force_eager"):
        output = model(x)
    rows = []
    params = list(model.parameters())
    finite = torch.isfinite(output)
    with sdpa_kernel(SDPBackend.MATH):
        for entry in torch.where(finite, output, 0.0).flatten():
            found = torch.autograd.grad(entry, params, retain_graph=True, allow_unused=True)
            dense = [torch.zeros_like(p) if g is None else g.to_dense() for g, p in zip(found, params, strict=True)]
            rows.append(torch.cat([g.flatten() for g in dense]))
    J = torch.stack(rows)
    u = (J @ V).reshape(*output.shape, -1)
    p = output.detach().softmax(1)[:, :, None]
    a = p * (u - (p * u).sum(1, keepdim=True))
    return J.T @ a.reshape(-1, V.shape[1]) / len(x)
