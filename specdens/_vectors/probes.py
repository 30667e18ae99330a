"""Random start vectors: probe j depends on (seed, j) alone, and is drawn chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._validate import as_choice, as_count
from specdens._vectors.base import Array, Vectors

PROBE_CHUNK = 2**20
"""Entries [c·2²⁰, (c+1)·2²⁰) of probe j come from one generator, that of (seed, j, c)."""

FIRST_EIGEN_PROBE = 2**31
"""The first probe of eigensolvers, which must not share probes with densities: deflating an eigenvector that was found
from a density's probe removes all weight of that probe at a multiple eigenvalue."""

KINDS = ("gaussian", "rademacher")


def probe_rng(seed: int, index: int, chunk: int) -> np.random.Generator:
    """Return the generator of one chunk of one probe."""
    entropy = as_count("seed", seed, minimum=0)
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(index, chunk)))


def draw_chunk(kind: str, rng: np.random.Generator, size: int, *, is_complex: bool) -> NDArray[Any]:
    """Return `size` entries in float64 or complex128, before normalisation."""
    if kind == "rademacher":
        return rng.integers(0, 2, size=size) * 2.0 - 1.0
    if is_complex:
        return rng.standard_normal((size, 2)).view(np.complex128)[:, 0]
    return rng.standard_normal(size)


def probe_block(vectors: Vectors, n: int, indices: Sequence[int], seed: int, *, kind: str = "gaussian") -> Array:
    """Return the probes of the given indices as the columns of an (n, k) block, not yet normalised.

    Where vectors are distributed over processes these are the n rows of this process, and the chunks that hold them
    are drawn alone.
    """
    as_choice("probes", kind, KINDS)
    block, first, length = vectors.zeros((n, len(indices))), vectors.offset, vectors.whole_length(n)
    for column, index in enumerate(indices):
        for chunk in range(first // PROBE_CHUNK, -(-(first + n) // PROBE_CHUNK)):
            start = chunk * PROBE_CHUNK
            size = min(PROBE_CHUNK, length - start)
            entries = draw_chunk(kind, probe_rng(seed, index, chunk), size, is_complex=vectors.is_complex)
            entries = entries[max(0, first - start) : first + n - start]
            row = max(0, start - first)
            rows = slice(row, row + len(entries))
            block = vectors.assign(block, (rows, column), vectors.from_host(entries))
    return block


def gaussian_probe_block(vectors: Vectors, n: int, indices: Sequence[int], seed: int) -> Array:
    """Return Gaussian probes as the unit columns of an (n, k) block."""
    block = probe_block(vectors, n, indices, seed)
    # on the host: JAX divides float64 numbers in float32 with a warning
    inverse = vectors.from_host(1.0 / vectors.to_host(vectors.norm(block)), vectors.wide)
    return vectors.scale(inverse, block)
