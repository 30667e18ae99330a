"""Networks with one layer or habit each that automatic differentiation may get wrong, small and in float64.

Derivatives are compared with central differences of plain gradients: these need first derivatives only, and are right
where torch's second derivatives are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

CLASSES = 4


class Net(nn.Module):
    """Inputs, one layer under trial, and a head."""

    def __init__(self, layer: nn.Module, width: int, *, pool: bool = False) -> None:
        super().__init__()
        self.layer, self.pool = layer, pool
        self.head = nn.Linear(width, CLASSES)

    def features(self, x: Tensor) -> Tensor:
        return self.layer(x)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.features(x))
        return self.head(h.mean(1) if self.pool else h.flatten(1))


class Checkpointed(Net):
    def features(self, x: Tensor) -> Tensor:
        return checkpoint(self.layer, x, use_reentrant=False)


class Reentrant(Net):
    def features(self, x: Tensor) -> Tensor:
        return checkpoint(self.layer, x, use_reentrant=True)


class Vmapped(Net):
    def features(self, x: Tensor) -> Tensor:
        return torch.func.vmap(self.layer)(x)


class FunctionalGradient(Net):
    def features(self, x: Tensor) -> Tensor:
        return torch.func.vmap(torch.func.grad(lambda z: torch.tanh(self.layer(z)).pow(3).sum()))(x)


class InnerGradient(Net):
    """Computes a gradient in its forward, as physics-informed and energy models do."""

    def features(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(torch.tanh(self.layer(x)).pow(3).sum(), x, create_graph=True)
        return g


class VectorLinear(nn.Module):
    """F.linear with a weight that is a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        return x + F.linear(torch.tanh(x), self.weight)[:, None]


class Masked(nn.Module):
    """Logits of −inf, as masks make them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.tensor([0.0, 0.0, -torch.inf, 0.0], dtype=x.dtype)  # class 2 is empty
        return self.linear(torch.tanh(x)) + mask


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mha = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.mha(x, x, x, need_weights=False)[0]


class FusedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(4, 12)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class First(nn.Module):
    """A recurrent module without its states."""

    def __init__(self, rnn: nn.Module) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


def _weight_norm(layer: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(layer)


def _compiled(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, when it loads its compiler
        return torch.compile(module)


def _encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(4, 2, dim_feedforward=4, dropout=0.1, batch_first=True, activation="gelu")


def _conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.GELU(), nn.AvgPool2d(2))


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 5))


parametrize = nn.utils.parametrizations

ROWS, TOKENS, IMAGES, IDS, SERIES = (5,), (3, 4), (1, 4, 4), "ids", (2, 6)
LAYERS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "Linear": (lambda: Net(_mlp(), 5), ROWS),
    "Bilinear": (lambda: Net(First2(), 5), ROWS),
    "F.linear with a vector": (lambda: Net(VectorLinear(), 5), ROWS),
    "Conv1d": (lambda: Net(nn.Conv1d(2, 3, 3, padding=1, stride=2), 9), SERIES),
    "Conv1d, circular": (lambda: Net(nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), 18), SERIES),
    "Conv2d, batch norm, GELU": (lambda: Net(_conv(), 8), IMAGES),
    "Conv2d, grouped and dilated": (lambda: Net(nn.Conv2d(1, 2, 2, dilation=2, padding="same"), 32), IMAGES),
    "ConvTranspose2d": (lambda: Net(nn.ConvTranspose2d(1, 2, 2), 50), IMAGES),
    "LayerNorm": (lambda: Net(nn.Sequential(nn.Linear(5, 5), nn.LayerNorm(5)), 5), ROWS),
    "GroupNorm": (lambda: Net(nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4)), 16), SERIES),
    "RMSNorm": (lambda: Net(nn.Sequential(nn.Linear(5, 5), nn.RMSNorm(5)), 5), ROWS),
    "SiLU, Softplus, Mish": (lambda: Net(nn.Sequential(_mlp(), nn.SiLU(), nn.Softplus(), nn.Mish()), 5), ROWS),
    "LSTM": (lambda: Net(First(nn.LSTM(4, 3, batch_first=True)), 9), TOKENS),
    "GRU": (lambda: Net(First(nn.GRU(4, 3, batch_first=True)), 9), TOKENS),
    "RNN": (lambda: Net(First(nn.RNN(4, 3, batch_first=True)), 9), TOKENS),
    "MultiheadAttention": (lambda: Net(Attention(), 4, pool=True), TOKENS),
    "scaled_dot_product_attention": (lambda: Net(FusedAttention(), 4, pool=True), TOKENS),
    "TransformerEncoderLayer": (lambda: Net(_encoder(), 4, pool=True), TOKENS),
    "Embedding": (lambda: Net(nn.Embedding(7, 5), 5, pool=True), IDS),
    "Embedding, padding_idx": (lambda: Net(nn.Embedding(7, 5, padding_idx=0), 5, pool=True), IDS),
    "Embedding, negative padding_idx": (lambda: Net(nn.Embedding(7, 5, padding_idx=-1), 5, pool=True), IDS),
    "Embedding, sparse": (lambda: Net(nn.Embedding(7, 5, sparse=True), 5, pool=True), IDS),
    "weight_norm, parametrization": (lambda: Net(parametrize.weight_norm(nn.Linear(5, 6)), 6), ROWS),
    "weight_norm, hook": (lambda: Net(_weight_norm(nn.Linear(5, 6)), 6), ROWS),
    "orthogonal, parametrization": (lambda: Net(parametrize.orthogonal(nn.Linear(5, 5)), 5), ROWS),
    "checkpoint, linear": (lambda: Checkpointed(_mlp(), 5), ROWS),
    "checkpoint, convolution and batch norm": (lambda: Checkpointed(_conv(), 8), IMAGES),
    "checkpoint, attention": (lambda: Checkpointed(_encoder(), 4, pool=True), TOKENS),
    "checkpoint, bare attention": (lambda: Checkpointed(FusedAttention(), 4, pool=True), TOKENS),
    "torch.func.vmap in forward": (lambda: Vmapped(_mlp(), 5), ROWS),
    "torch.func.grad in forward": (lambda: FunctionalGradient(_mlp(), 5), ROWS),
    "autograd.grad in forward": (lambda: InnerGradient(_mlp(), 5), ROWS),
    "torch.compile": (lambda: _compiled(Net(_mlp(), 5)), ROWS),
    "torch.compile of a part": (lambda: Net(_compiled(_mlp()), 5), ROWS),
    "logits of -inf": (Masked, ROWS),
}


class First2(nn.Module):
    """A bilinear layer of the input with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Bilinear(5, 5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, torch.sin(x))


def build(name: str, *, examples: int = 12) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a network of the registry in eval mode, its inputs and labels (class 2 is empty)."""
    make, shape = LAYERS[name]
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
