"""Choice of the vector operations for an array library and device."""

from __future__ import annotations

from typing import Any

import array_api_compat as aac

from specdens._typing import Array
from specdens._vectors.base import Vectors
from specdens._vectors.dispatch import host_view
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
    """Return the vector operations for the library, device and dtype of an array."""
    if is_sharded(like):
        return ShardedJaxVectors(like, like.dtype)
    if aac.is_jax_array(like):
        return JaxVectors(like)
    return HostVectors(like) if host_view(like) is not None else Vectors(like)
