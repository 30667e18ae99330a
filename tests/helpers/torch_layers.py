"""Networks with one layer each that automatic differentiation may get wrong; further ones are in torch_habits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
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
