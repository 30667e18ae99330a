"""Start vectors: probe j is a function of (seed, j) alone, drawn chunk by chunk on any machine or rank."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import array_api_compat as aac
import numpy as np
from numpy.typing import NDArray

from specdens._errors import as_choice, as_count
from specdens._operators import Operator
from specdens._vectors import Array, Vectors, dtype_name

PROBE_CHUNK = 2**20
"""Entries [c·2²⁰, (c+1)·2²⁰) of probe j come from one generator, that of (seed, j, c)."""

FIRST_EIGEN_PROBE = 2**31
"""Eigenvectors are sought from probes of their own: one that is found from a density's probe takes all of its weight at
that eigenvalue with it, and the other copies of a multiple eigenvalue would be missing from the density."""

KINDS = ("gaussian", "rademacher")

# Blocks make dense and sparse products cheaper up to about this many columns, and take this much memory at most
# unless asked for more.
_DEFAULT_BLOCK = 8
_DEFAULT_BLOCK_BYTES = 2**30


def probe_rng(seed: int, index: int, chunk: int) -> np.random.Generator:
    """Return the generator of one chunk of one probe, whatever the others do."""
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
    """Return the probes of the given indices as the columns of an (n, k) block, not yet normalised."""
    as_choice("probes", kind, KINDS)
    block = vectors.zeros((n, len(indices)))
    for column, index in enumerate(indices):
        for chunk, start in enumerate(range(0, n, PROBE_CHUNK)):
            size = min(PROBE_CHUNK, n - start)
            entries = draw_chunk(kind, probe_rng(seed, index, chunk), size, is_complex=vectors.is_complex)
            rows = slice(start, start + size)
            block = vectors.assign(block, (rows, column), vectors.from_host(entries))
    return block


def gaussian_probe_block(vectors: Vectors, n: int, indices: Sequence[int], seed: int) -> Array:
    """Return Gaussian probes as the unit columns of an (n, k) block."""
    block = probe_block(vectors, n, indices, seed)
    # by way of the host: JAX divides float64 numbers in float32 and says so
    inverse = vectors.from_host(1.0 / vectors.to_host(vectors.norm(block)), vectors.wide)
    return vectors.scale(inverse, block)


def given_columns(start: Any, n: int) -> Any:
    """Return given start vectors of shape (n,) or (n, k) as columns, without a copy."""
    if getattr(start, "ndim", None) is None:
        start = np.asarray(start)
    columns = start[:, None] if start.ndim == 1 else start
    if columns.ndim != 2 or columns.shape[0] != n or columns.shape[1] == 0:
        raise ValueError(f"`probes` must have shape ({n},) or ({n}, k); got {tuple(start.shape)}")
    return columns


def as_probes(A: Operator, probes: Any, num_probes: int) -> tuple[str, int]:
    """Return the kind of probes that was asked for, and their number."""
    if isinstance(probes, str):
        if probes not in KINDS:
            raise ValueError(f"`probes` must be {' or '.join(KINDS)}, or an array of start vectors; got {probes!r}")
        return probes, as_count("num_probes", num_probes)
    columns = given_columns(probes, A.shape[0])
    if dtype_name(columns.dtype).startswith("complex") and not A.vectors.is_complex:
        raise TypeError(
            f"`probes` must be real for an operator of dtype {A.vectors.name}; got {dtype_name(columns.dtype)}. "
            "Run the real and the imaginary parts as two probes."
        )
    given = columns.shape[1]
    if num_probes not in (1, given):  # 1 is the default: the array itself says how many there are
        raise ValueError(f"`num_probes` must be left out with given start vectors ({given} here); got {num_probes}")
    return "given", given


def describe_probes(A: Operator, probes: Any) -> str:
    """Return the kind of the probes and, for given ones, a digest that tells them from others."""
    if isinstance(probes, str):
        return probes
    columns = given_columns(probes, A.shape[0])
    host = columns if isinstance(columns, np.ndarray) else A.vectors.to_host(columns)
    digest = hashlib.sha256(np.ascontiguousarray(host).tobytes()).hexdigest()
    return f"given {digest[:16]}"


def as_block_size(A: Operator, block_size: int | None) -> int:
    """Return how many probes run together at most, however many there are: so that there may be more later."""
    if block_size is not None:
        return as_count("block_size", block_size)
    if not A.has_block_products:
        return 1
    fitting = _DEFAULT_BLOCK_BYTES // (3 * A.shape[0] * A.vectors.itemsize)
    return max(1, min(_DEFAULT_BLOCK, fitting))


def start_block(A: Operator, probes: Any, indices: tuple[int, ...], seed: int) -> Array:
    """Return the start vectors of the given indices as a fresh (n, k) block, not yet normalised."""
    if isinstance(probes, str):
        return probe_block(A.vectors, A.shape[0], indices, seed, kind=probes)
    columns = given_columns(probes, A.shape[0])[:, indices[0] : indices[-1] + 1]
    if aac.array_namespace(columns) is A.vectors.xp:
        return A.vectors.copy(columns)
    return A.vectors.from_host(A.vectors.to_host(columns))
