"""Damaged files: refused in words, or read as they were; never a raw exception, never other numbers."""

from __future__ import annotations

import numpy as np
import pytest
from slow_cases import slow_after

import specdens as sd

MATRIX = np.diag(np.concatenate([np.linspace(-1, 1, 38), [5.0, -7.0]]))
SETTINGS = {"num_steps": 12, "rank": 1, "num_probes": 2}


def density_of(path):
    """Return the density that is saved in a file, or that a checkpoint gives."""
    if path.name == "result.npz":
        return sd.load(path)
    return sd.spectral_density(MATRIX, checkpoint=path, progress=False, **SETTINGS)


@pytest.mark.filterwarnings("ignore:the checkpoint .* was damaged by others:specdens.SpecdensWarning")
@pytest.mark.parametrize("num_flips", slow_after(1, [20, 400]))
@pytest.mark.parametrize("name", ["result.npz", "checkpoint.npz"])
def test_a_flipped_bit_is_refused_or_harmless(name, num_flips, tmp_path):
    path = tmp_path / name
    if name == "result.npz":
        sd.save(path, sd.spectral_density(MATRIX, **SETTINGS))
    expected, content = density_of(path), path.read_bytes()
    rng, messages = np.random.default_rng(0), []
    for position, bit in zip(rng.integers(0, len(content), num_flips), rng.integers(0, 8, num_flips), strict=True):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(bit)
        path.write_bytes(damaged)
        try:
            found = density_of(path)
        except ValueError as error:
            messages.append(str(error))
            continue
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.outliers.vectors, expected.outliers.vectors)
    assert len(messages) > num_flips // 2
    assert all(str(path) in message for message in messages)
