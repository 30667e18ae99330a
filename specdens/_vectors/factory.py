"""Choice of the vector operations for an array library and device."""

from __future__ import annotations

import array_api_compat as aac

from specdens._typing import Array
from specdens._vectors.base import Vectors
from specdens._vectors.dispatch import host_view
from specdens._vectors.host import HostVectors
from specdens._vectors.jax import JaxVectors


def vectors_like(like: Array) -> Vectors:
    """Return the vector operations for the library, device and dtype of an array."""
    if aac.is_jax_array(like):
        return JaxVectors(like)
    return HostVectors(like) if host_view(like) is not None else Vectors(like)
