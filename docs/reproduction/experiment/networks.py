"""The paper's networks: VGG11 and ResNet18 for images of 32 × 32 pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

NETWORKS = ("vgg11", "vgg11-quarter", "resnet18", "vgg11-tiny", "resnet18-tiny")


def build(name: str, *, channels: int = 1, num_classes: int = 10, seed: int = 0) -> nn.Module:
    """Return a network with random weights that depend on `seed` only.

    Parameters
    ----------
    name
        "vgg11" (28,156,554 parameters with one channel and ten classes), "vgg11-quarter" (the same with a quarter of
        the channels and features), "resnet18" (11,172,810), "vgg11-tiny", "resnet18-tiny" (for quick runs).
    channels, num_classes
        Of the images and the labels.
    seed
        Of the weights. The state of torch's random generator is left as it was.
    """
    if name not in NETWORKS:
        raise ValueError(f"`name` must be one of {', '.join(NETWORKS)}; got {name!r}")
    family, _, size = name.partition("-")
    width = {"": 64, "quarter": 16, "tiny": 4}[size]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = VGG11(width, channels, num_classes) if family == "vgg11" else ResNet18(width, channels, num_classes)
        _initialise(network)
    return network


def count_parameters(network: nn.Module) -> int:
    """Return the number of parameters."""
    return sum(parameter.numel() for parameter in network.parameters())


class VGG11(nn.Module):
    """VGG11 with batch norm after every convolution and in place of dropout [Simonyan & Zisserman 2014]."""

    def __init__(self, width: int, channels: int, num_classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = channels
        for factor, pooled in (
            (1, True),
            (2, True),
            (4, False),
            (4, True),
            (8, False),
            (8, True),
            (8, False),
            (8, True),
        ):
            layers += [nn.Conv2d(before, factor * width, 3, padding=1), nn.BatchNorm2d(factor * width), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if pooled else []
            before = factor * width
        self.features = nn.Sequential(*layers, nn.Flatten())
        hidden = 64 * width
        self.classifier = nn.Sequential(
            nn.Linear(before, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(),
            nn.Linear(hidden, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(),
            nn.Linear(hidden, num_classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


class ResNet18(nn.Module):
    """ResNet18 with a 3 × 3 stem and no pooling after it [He et al. 2016]."""

    def __init__(self, width: int, channels: int, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        blocks, before = [], width
        for stage in range(4):
            for number in range(2):
                after = width * 2**stage
                blocks.append(_Block(before, after, stride=2 if stage and number == 0 else 1))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)))


class _Block(nn.Module):
    def __init__(self, before: int, after: int, *, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after))
        self.last = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x) + self.shortcut(x))


def _initialise(network: nn.Module) -> None:
    """Initialise as torchvision does: He's normal weights for convolutions, no biases."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
