"""Networks, losses and dense references for the tests of the adapter, all in float64 and small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

CLASSES = 4


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(3)
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.head = nn.Linear(3, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.stem(x)))
        return self.head((x + torch.nn.functional.gelu(self.conv(x))).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.rnn = kind(3, 3, batch_first=True)
        self.head = nn.Linear(3, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0][:, -1])


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=4, dropout=0.1, batch_first=True)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x).mean(1))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, CLASSES))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.GELU(), nn.MaxPool2d(2), nn.Dropout(0.5), nn.Flatten(),
        nn.Linear(27, CLASSES),
    )  # fmt: skip


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (5,)),
    "cnn with batch norm": (cnn, (1, 6, 6)),
    "residual net": (Residual, (1, 4, 4)),
    "LSTM": (Recurrent, (4, 3)),
    "RNN": (lambda: Recurrent(nn.RNN), (4, 3)),
    "GRU": (lambda: Recurrent(nn.GRU), (4, 3)),
    "transformer": (Transformer, (3, 4)),
}


def make(name: str = "mlp", *, examples: int = 30, seed: int = 0) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a network in eval mode with running statistics, inputs, and unbalanced labels (class 2 is empty)."""
    build, shape = NETWORKS[name]
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build().double()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(generator=generator)
            module.running_var.uniform_(0.5, 2.0, generator=generator)
    x = torch.randn(examples, *shape, generator=generator, dtype=torch.float64)
    y = torch.randint(0, CLASSES, (examples,), generator=generator)
    y[y == 2] = 0
    return model.eval(), x, y


def split(x: Any, y: Any, *sizes: int) -> list[tuple[Any, Any]]:
    """Return batches of the given sizes."""
    return list(zip(x.split(sizes), y.split(sizes), strict=True))


def dense_hessian(model: nn.Module, objective: Callable[[], Tensor], params: list[Tensor] | None = None) -> Tensor:
    """Return the Hessian of an objective of the whole data set, row by row, by plain autograd."""
    params = list(model.parameters()) if params is None else params
    with sdpa_kernel(SDPBackend.MATH):
        value = objective()
    gradient = torch.autograd.grad(value, params, create_graph=True, allow_unused=True)
    flat = torch.cat([(p * 0 if g is None else g).flatten() for g, p in zip(gradient, params, strict=True)])
    rows = []
    for entry in flat:
        row = torch.autograd.grad(entry, params, retain_graph=True, allow_unused=True)
        parts = [torch.zeros_like(p) if r is None else r for r, p in zip(row, params, strict=True)]
        rows.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(rows)


def probes(n: int) -> Tensor:
    """Return a few fixed vectors: two linear operators that agree on them agree."""
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def some(A: Any) -> Tensor:
    """Return the products of an operator or a matrix with these vectors."""
    return A @ probes(A.shape[0])


def dense(A: Any) -> Tensor:
    """Return an operator as a matrix."""
    return A @ torch.eye(A.shape[0], dtype=A.dtype)


def jacobian(model: nn.Module, x: Tensor) -> Tensor:
    """Return the Jacobian of the outputs, of shape (outputs, parameters)."""
    outputs = model(x).flatten()
    params = list(model.parameters())
    rows = [torch.autograd.grad(f, params, retain_graph=True) for f in outputs]
    return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])


def assert_close(found: Tensor, expected: Tensor, rtol: float = 1e-9) -> None:
    """Compare by the size of what is expected: single entries may be zero."""
    error = float((found - expected).norm() / expected.norm())
    assert error < rtol, f"relative error {error:.1e}"
