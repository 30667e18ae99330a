"""Choice of the vector operations for an array library and device."""

from __future__ import annotations

from typing import Any

import array_api_compat as aac

from specdens._typing import Array
from specdens._vectors.base import Vectors
from specdens._vectors.dispatch import host_view
from specdens._vectors.distributed import DistributedVectors
from specdens._vectors.host import HostVectors
from specdens._vectors.jax import JaxVectors
from specdens._vectors.jax_sharded import ShardedJaxVectors, is_sharded


def vectors_of(like: Array, dtype: Any) -> Vectors:
    """Return the vector operations for the library and device of an array, or its sharding, in a dtype of its own."""
    xp = aac.array_namespace(like)
    if is_sharded(like):
        return ShardedJaxVectors(like, dtype)
    return vectors_like(xp.empty((0,), dtype=dtype, device=aac.device(like)))


def vectors_like(like: Array) -> Vectors:
    """Return the vector operations for the library, device and dtype of an array.

    Parameters
    ----------
    like : array
        An array of any library that follows the array API standard. Only its library, device and dtype count.

    Returns
    -------
    Vectors
        The operations; those of arrays in the host's memory are compiled where numba is installed.

    Examples
    --------
    >>> import numpy as np
    >>> from specdens.adapters import vectors_like
    >>> vectors_like(np.zeros(0, dtype=np.complex64)).is_complex
    True
    """
    if is_sharded(like):
        return ShardedJaxVectors(like, like.dtype)
    if aac.is_jax_array(like):
        return JaxVectors(like)
    return HostVectors(like) if host_view(like) is not None else Vectors(like)


def complex_vectors(vectors: Vectors) -> Vectors:
    """Return the operations on complex vectors where the given real ones lie, on all processes that share them."""
    if isinstance(vectors, DistributedVectors):
        return DistributedVectors(
            complex_vectors(vectors.local), vectors.reduce,
            rows=vectors.rows, length=vectors.length, is_first=vectors.is_first,
        )  # fmt: skip
    name = {"float32": "complex64", "float64": "complex128"}[vectors.name]
    made = vectors_like(vectors.xp.empty((0,), dtype=getattr(vectors.xp, name), device=vectors.device))
    made.eps = max(made.eps, vectors.eps)
    made.is_first, made.agree, made.label = vectors.is_first, vectors.agree, vectors.label
    return made
