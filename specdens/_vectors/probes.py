"""Random start vectors: probe j depends on (seed, j) alone, and is drawn chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    block, length = vectors.zeros((n, len(indices))), vectors.whole_length(n)
    for column, index in enumerate(indices):
        begin, drawn, entries = 0, -1, np.empty(0)
        for chunk, start, stop in _pieces(vectors.row_ranges(n)):
            if chunk != drawn:  # several pieces may lie in one chunk
                size = min(PROBE_CHUNK, length - chunk * PROBE_CHUNK)
                entries = draw_chunk(kind, probe_rng(seed, index, chunk), size, is_complex=vectors.is_complex)
                drawn = chunk
            rows = slice(begin, begin + stop - start)
            block = vectors.assign(block, (rows, column), vectors.from_host(entries[start:stop]))
            begin = rows.stop
    return block


def _pieces(ranges: Sequence[range]) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of rows cut at the ends of chunks: the chunk, and start and stop within it."""
    for rows in ranges:
        start = rows.start
        while start < rows.stop:
            chunk = start // PROBE_CHUNK
            stop = min(rows.stop, (chunk + 1) * PROBE_CHUNK)
            yield chunk, start - chunk * PROBE_CHUNK, stop - chunk * PROBE_CHUNK
            start = stop


def gaussian_probe_block(vectors: Vectors, n: int, indices: Sequence[int], seed: int) -> Array:
    """Return Gaussian probes as the unit columns of an (n, k) block."""
    block = probe_block(vectors, n, indices, seed)
    # on the host: JAX divides float64 numbers in float32 with a warning
    inverse = vectors.from_host(1.0 / vectors.to_host(vectors.norm(block)), vectors.wide)
    return vectors.scale(inverse, block)
