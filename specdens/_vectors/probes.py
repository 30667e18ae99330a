"""Random start vectors: probe j depends on (seed, j) alone, and is drawn chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._validate import as_choice, as_count
from specdens._vectors.base import Array, Vectors
from specdens._vectors.threads import num_threads, run_in_threads

PROBE_CHUNK = 2**20
"""Entries [c·2²⁰, (c+1)·2²⁰) of probe j come from one generator, that of (seed, j, c)."""

FIRST_EIGEN_PROBE = 2**31
"""The first probe of eigensolvers, which must not share probes with densities: deflating an eigenvector that was found
from a density's probe removes all weight of that probe at a multiple eigenvalue."""

_ENTRIES_FOR_THREADS = 2**18  # below, a thread takes longer to start than to draw

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
    length = vectors.whole_length(n)

    def draw(task: tuple[int, int]) -> NDArray[Any]:
        column, chunk = task
        size = min(PROBE_CHUNK, length - chunk * PROBE_CHUNK)
        return draw_chunk(kind, probe_rng(seed, indices[column], chunk), size, is_complex=vectors.is_complex)

    def make(rows: range) -> NDArray[Any]:
        columns = range(len(indices))
        parts = [[draw((j, chunk))[start:stop] for chunk, start, stop in _pieces([rows])] for j in columns]
        return np.stack([np.concatenate(column) for column in parts], axis=1)

    sharded = vectors.block_of_rows((n, len(indices)), make)
    if sharded is not None:
        return sharded
    block = vectors.zeros((n, len(indices)))
    pieces = [list(group) for _, group in groupby(_pieces(vectors.row_ranges(n)), key=lambda piece: piece[0])]
    tasks = [(column, group[0][0]) for column in range(len(indices)) for group in pieces]
    num_drawn = 1 if n * len(indices) < _ENTRIES_FOR_THREADS else num_threads()
    begin = 0
    for first in range(0, len(tasks), num_drawn):
        some = tasks[first : first + num_drawn]
        for i, ((column, _), entries) in enumerate(zip(some, _map_in_threads(draw, some), strict=True), start=first):
            for _, start, stop in pieces[i % len(pieces)]:
                rows = slice(begin, begin + stop - start)
                block = vectors.assign(block, (rows, column), vectors.from_host(entries[start:stop]))
                begin = rows.stop % n
    return block


def _map_in_threads(
    draw: Callable[[tuple[int, int]], NDArray[Any]], tasks: list[tuple[int, int]]
) -> list[NDArray[Any]]:
    """Return draw(task) for a few tasks, each in a thread of its own."""
    drawn = dict[int, NDArray[Any]]()
    left = iter(range(len(tasks)))

    def work() -> None:
        for i in left:
            drawn[i] = draw(tasks[i])

    run_in_threads(work, len(tasks))
    return [drawn[i] for i in range(len(tasks))]


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
