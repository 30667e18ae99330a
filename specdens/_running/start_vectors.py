"""Start vectors: validation of `probes`, block sizes, and blocks of random or given vectors."""

from __future__ import annotations

import hashlib
from typing import Any

import array_api_compat as aac
import numpy as np

from specdens._operators.base import Operator
from specdens._validate import as_count
from specdens._vectors.base import Array
from specdens._vectors.probes import KINDS, probe_block

# Blocks make dense and sparse products cheaper up to about this many columns. By default they take at most this much
# memory.
_DEFAULT_BLOCK = 8
_DEFAULT_BLOCK_BYTES = 2**30


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
    given = columns.shape[1]
    if num_probes not in (1, given):  # 1 is the default: the array itself says how many there are
        raise ValueError(f"`num_probes` must be left out with given start vectors ({given} here); got {num_probes}")
    return "given", given


def probe_kind(probes: Any) -> str:
    """Return the kind of the probes in one word."""
    return probes if isinstance(probes, str) else "given"


def describe_probes(A: Operator, probes: Any) -> str:
    """Return the kind of the probes and, for given ones, a digest that tells them from others."""
    if isinstance(probes, str):
        return probes
    columns = given_columns(probes, A.shape[0])
    host = columns if isinstance(columns, np.ndarray) else A.vectors.to_host(columns)
    digest = hashlib.sha256(np.ascontiguousarray(host).tobytes()).hexdigest()
    return f"given {digest[:16]}"


def as_block_size(A: Operator, block_size: int | None, executor: Any = None) -> int:
    """Return how many probes run together at most. It does not depend on their number, which may grow later.

    With an executor one probe is a block by default, so that any number of workers has something to do.
    """
    if block_size is not None:
        return as_count("block_size", block_size)
    if executor is not None or not A.has_block_products:
        return 1
    fitting = _DEFAULT_BLOCK_BYTES // (3 * A.vectors.whole_length(A.shape[0]) * A.vectors.itemsize)
    return max(1, min(_DEFAULT_BLOCK, fitting))


def start_block(A: Operator, probes: Any, indices: tuple[int, ...], seed: int) -> Array:
    """Return the start vectors of the given indices as a fresh (n, k) block, not yet normalised."""
    if isinstance(probes, str):
        numbers = [A.probe_index(index) for index in indices]
        return probe_block(A.vectors, A.shape[0], numbers, seed, kind=probes)
    columns = given_columns(probes, A.shape[0])[:, indices[0] : indices[-1] + 1]
    if aac.array_namespace(columns) is A.vectors.xp:
        return A.vectors.copy(columns)
    return A.vectors.from_host(A.vectors.to_host(columns))
