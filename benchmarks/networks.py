"""The networks of the paper, and two small ones, with the shape of their inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def mlp(width: int = 256) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )


def cnn(width: int = 32) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * width * 49, 4 * width), nn.ReLU(), nn.Linear(4 * width, 10),
    )  # fmt: skip


def vgg11(width: int = 64) -> nn.Module:
    """Return VGG11 with batch norm after every convolution and in place of dropout: 28,157,706 parameters."""
    layers: list[nn.Module] = []
    channels = 3
    for out in (1, 0, 2, 0, 4, 4, 0, 8, 8, 0, 8, 8, 0):
        if out == 0:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, out * width, 3, padding=1), nn.BatchNorm2d(out * width), nn.ReLU()]
            channels = out * width
    layers.append(nn.Flatten())
    for _ in range(2):
        layers += [nn.Linear(channels, 64 * width, bias=False), nn.BatchNorm1d(64 * width), nn.ReLU()]
        channels = 64 * width
    return nn.Sequential(*layers, nn.Linear(channels, 10))


class Block(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.short: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.short = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.main(x) + self.short(x))


def resnet18(width: int = 64) -> nn.Module:
    """Return ResNet18 with a 3×3 stem and no max-pool: 11,173,962 parameters."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    channels = width
    for out, stride in ((1, 1), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1), (8, 2), (8, 1)):
        layers.append(Block(channels, out * width, stride))
        channels = out * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


# How to make each, the shape of an input, how many examples, and the width of the tiny one.
NETWORKS: dict[str, tuple[Callable[..., nn.Module], tuple[int, ...], int, int]] = {
    "mlp": (mlp, (1, 28, 28), 1024, 16),
    "cnn": (cnn, (1, 28, 28), 512, 4),
    "vgg11": (vgg11, (3, 32, 32), 64, 2),
    "resnet18": (resnet18, (3, 32, 32), 64, 2),
}
