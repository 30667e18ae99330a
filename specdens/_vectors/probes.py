"""Random start vectors: probe j depends on (seed, j) alone, and is drawn chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._validate import as_choice, as_seed
from specdens._vectors.base import Array, Vectors
from specdens._vectors.dispatch import host_view
from specdens._vectors.threads import num_threads, run_in_threads

PROBE_CHUNK = 2**20
"""Entries [c·2²⁰, (c+1)·2²⁰) of probe j come from one generator, that of (seed, j, c)."""

FIRST_EIGEN_PROBE = 2**31
"""The first probe of eigensolvers, which must not share probes with densities: deflating an eigenvector that was found
from a density's probe removes all weight of that probe at a multiple eigenvalue."""

_PIECE = 2**13  # rows that are drawn and written at a time
_ENTRIES_FOR_THREADS = 2**18  # below, a thread takes longer to start than to draw

KINDS = ("gaussian", "rademacher")


def probe_rng(seed: int, index: int, chunk: int) -> np.random.Generator:
    """Return the generator of one chunk of one probe.

    Parameters
    ----------
    seed : int
        The seed of the run.
    index : int
        The number of the probe.
    chunk : int
        Which chunk of 2²⁰ entries, from 0.

    Returns
    -------
    numpy.random.Generator
        The same for the same three numbers, on every machine; independent of all others.

    Examples
    --------
    >>> from specdens.adapters import probe_rng
    >>> first, again, other = probe_rng(0, 3, 0), probe_rng(0, 3, 0), probe_rng(0, 4, 0)
    >>> x = first.standard_normal()
    >>> x == again.standard_normal(), x == other.standard_normal()
    (True, False)
    """
    entropy = as_seed(seed)
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

    Parameters
    ----------
    vectors : Vectors
        Where the block is to lie, and in which dtype.
    n : int
        The number of rows of this process.
    indices : sequence of int
        The numbers of the probes. Probe j depends on the seed and on j alone, not on the others of its block.
    seed : int
        The seed of the run.
    kind : {"gaussian", "rademacher"}
        The distribution of the entries: normal, or ±1.

    Returns
    -------
    array
        Of shape (n, k).

    Examples
    --------
    >>> import numpy as np
    >>> from specdens.adapters import probe_block, vectors_like
    >>> vectors = vectors_like(np.zeros(0))
    >>> block = probe_block(vectors, 4, [0, 1], seed=0)
    >>> alone = probe_block(vectors, 4, [1], seed=0)
    >>> block.shape, bool(np.all(block[:, 1:] == alone))
    ((4, 2), True)
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
    on_host = host_view(block) if length == n else None
    if on_host is not None:
        _fill(on_host, lambda column, chunk: probe_rng(seed, indices[column], chunk), kind)
        return block
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


def _fill(block: NDArray[Any], generator: Callable[[int, int], np.random.Generator], kind: str) -> None:
    """Draw the columns of a block in the memory of the host, in threads.

    A thread draws a few adjacent columns at a time and writes them piece by piece, while the rows are in its cache: a
    column of a row-major block touches as much memory as all of them.
    """
    n, k = block.shape
    threads = 1 if block.size < _ENTRIES_FOR_THREADS else num_threads()
    width = -(-k // threads)
    tasks = iter([(chunk, first) for chunk in range(-(-n // PROBE_CHUNK)) for first in range(0, k, width)])

    def work() -> None:
        for chunk, first in tasks:  # a thread takes the next one
            columns = range(first, min(first + width, k))
            generators = [generator(column, chunk) for column in columns]
            end = min((chunk + 1) * PROBE_CHUNK, n)
            for start in range(chunk * PROBE_CHUNK, end, _PIECE):
                rows = slice(start, min(start + _PIECE, end))
                for column, rng in zip(columns, generators, strict=True):
                    size = rows.stop - rows.start
                    block[rows, column] = draw_chunk(kind, rng, size, is_complex=np.iscomplexobj(block))

    run_in_threads(work, threads)


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
