"""Networks as people write them: shared weights, masks, norms of weights, gradients in the forward, rare functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import prune
from torch_layers import CLASSES, IDS, IMAGES, ROWS, SERIES, TOKENS, InnerGradient, Net

parametrize = nn.utils.parametrizations


class Applied(nn.Module):
    """A function of what a layer returns."""

    def __init__(self, layer: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.function = layer, function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.inner(x))


class BackwardInForward(Net):
    """Calls backward() in its forward."""

    def features(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        torch.tanh(self.layer(x)).pow(3).sum().backward(create_graph=True, inputs=[x])
        return x.grad


class MaskedAttention(nn.Module):
    """Causal attention with padded keys (those that begin with a negative number), and its weights as outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.mha = nn.MultiheadAttention(4, 2, batch_first=True)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        causal = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1)
        padded = x[:, :, 0] < 0
        padded = padded & (torch.arange(3) > 0)
        h = self.linear(x)
        out, weights = self.mha(h, x, h, attn_mask=causal, key_padding_mask=padded)
        return torch.cat([out, weights], dim=-1)


class Packed(nn.Module):
    """A recurrent network on sequences of different lengths."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True, **options)

    def forward(self, x: Tensor) -> Tensor:
        lengths = 1 + (x[:, 1:, 0] > 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=3)[0]


class Tied(nn.Module):
    """An embedding whose weight is also that of the head, by a layer and by a product."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.embedding(x)).mean(1)
        return (self.head(h) + torch.tanh(h @ self.head.weight.T))[:, :CLASSES]


class Twice(nn.Module):
    """A layer that is applied twice, and whose weight is used elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.linear.weight, self.linear.bias
        h = torch.tanh(self.linear(x))
        return self.linear(h) + h @ weight + weight.diagonal() + weight.square().sum() * bias


class Scalars(nn.Module):
    """Parameters without dimensions, without entries, and in lists."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.shifts = nn.ParameterList([torch.randn(5), torch.randn(5)])
        self.empty = nn.Linear(1, 5)
        self.empty.weight = nn.Parameter(torch.empty(5, 0))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.shifts[0] + self.shifts[1] + self.empty(x[:, :0])) * self.scale.exp()


class Spectrum(nn.Module):
    """Real parameters behind complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 6)
        self.filter = nn.Parameter(torch.randn(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        z = 0.2 * torch.fft.rfft(self.linear(x)) * torch.view_as_complex(self.filter)
        return torch.cat([torch.fft.irfft(z, n=6), (z * z.conj()).real, z.cos().real, z.exp().imag], dim=1)


def _pruned() -> nn.Module:
    layer = nn.Linear(5, 6)
    prune.random_unstructured(layer, "weight", 0.3)
    return layer


def _algebra(x: Tensor) -> Tensor:
    A = 4 * torch.eye(6, dtype=x.dtype) + torch.diag(torch.arange(6).to(x.dtype)) + x[:, :, None] * x[:, None]
    solved = torch.linalg.solve(A, x[..., None])[..., 0]
    return torch.cat([solved, torch.linalg.eigvalsh(A), torch.linalg.cholesky(A)[:, 0], x.cumprod(1)], dim=1)


def _attention(z: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*z.chunk(3, -1))


def _channels_last() -> nn.Module:
    layers = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.GELU(), nn.Conv2d(2, 2, 3, groups=2), nn.AvgPool2d(2))
    return layers.to(memory_format=torch.channels_last)


def _normed(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), norm)


def _convolved(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), norm)


HABITS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "InstanceNorm": (lambda: Net(_convolved(nn.InstanceNorm1d(4, affine=True)), 24), SERIES),
    "LocalResponseNorm": (lambda: Net(_convolved(nn.LocalResponseNorm(2)), 24), SERIES),
    "channels_last, grouped": (lambda: Net(_channels_last(), 2), IMAGES),
    "interpolation, unfold": (
        lambda: Net(
            Applied(
                nn.Conv2d(1, 2, 3, padding=1), lambda x: F.unfold(F.interpolate(x, size=(5, 5), mode="bicubic"), 2)
            ),
            128,
        ),
        IMAGES,
    ),
    "MultiheadAttention, masks and weights": (lambda: Net(MaskedAttention(), 21), TOKENS),
    "LSTM, two layers, both ways, packed": (lambda: Net(Packed(), 18), TOKENS),
    "LSTM with projections, packed": (lambda: Net(Packed(proj_size=2), 12), TOKENS),
    "tied embedding": (Tied, IDS),
    "a weight in several places": (lambda: Net(Twice(), 5), ROWS),
    "scalar and empty parameters": (lambda: Net(Scalars(), 5), ROWS),
    "pruned": (lambda: Net(_pruned(), 6), ROWS),
    "spectral_norm, parametrization": (lambda: Net(parametrize.spectral_norm(nn.Linear(5, 6)), 6), ROWS),
    "spectral_norm, hook": (lambda: Net(nn.utils.spectral_norm(nn.Linear(5, 6)), 6), ROWS),
    "FFT, complex numbers": (lambda: Net(Spectrum(), 18), ROWS),
    "solve, eigvalsh, cholesky, cumprod": (lambda: Net(Applied(nn.Linear(5, 6), _algebra), 24), ROWS),
    "autograd.grad in forward, layer norm": (lambda: InnerGradient(_normed(nn.LayerNorm(6)), 5), ROWS),
    "autograd.grad in forward, instance norm": (
        lambda: InnerGradient(_convolved(nn.InstanceNorm1d(4, affine=True, eps=0.5)), 12),
        SERIES,
    ),
    "autograd.grad in forward, attention": (
        lambda: InnerGradient(Applied(nn.Linear(4, 12), _attention), 12),
        TOKENS,
    ),
    "backward() in forward, layer norm": (lambda: BackwardInForward(_normed(nn.LayerNorm(6)), 5), ROWS),
}
