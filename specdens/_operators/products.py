"""What an operator returns: the checks of a product, and whose memory it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat as aac
import numpy as np

from specdens._typing import Array
from specdens._vectors.base import Vectors, dtype_name


class ReusedMemoryError(ValueError):
    """An operator returned a buffer that still holds an earlier product. From then on its products are copied."""

    def __init__(self) -> None:
        super().__init__(
            "A @ x returned the memory of an earlier product that is still in use. Return a new array each time."
        )


def check_product(vectors: Vectors, x: Array, y: Array) -> None:
    """Check that a product y has the array library, shape, dtype and device of x."""
    if not aac.is_array_api_obj(y) or aac.array_namespace(y) is not vectors.xp:
        raise TypeError(
            f"A @ x must return an array of {vectors.xp.__name__}, as x is; got {type(y).__module__}."
            f"{type(y).__name__}. Name the operator's array library with `like=`."
        )
    if tuple(y.shape) != tuple(x.shape):
        raise ValueError(f"A @ x must have the shape of x, {tuple(x.shape)}; got {tuple(y.shape)}")
    if y.dtype != vectors.dtype:
        raise TypeError(
            f"A @ x must have the operator's dtype {vectors.name}; got {dtype_name(y.dtype)}. "
            "Declare the dtype that the operator really computes in."
        )
    if not _same_device(aac.device(y), vectors.device, y.ndim):
        raise ValueError(f"A @ x must stay on the operator's device {vectors.device}; got {aac.device(y)}")


def _same_device(found: Any, expected: Any, ndim: int) -> bool:
    """Return whether two devices are the same; shardings of JAX are where they place an array alike."""
    if found == expected:
        return True
    is_equivalent = getattr(found, "is_equivalent_to", None)
    return bool(is_equivalent is not None and hasattr(expected, "is_equivalent_to") and is_equivalent(expected, ndim))


def product_of_copy(product: Callable[[Array], Array], vectors: Vectors, x: Array) -> Array:
    """Return a product with a copy of x; operators that reuse their memory are called twice."""
    try:
        return product(vectors.copy(x))
    except ReusedMemoryError:  # from now on products are copied
        return product(vectors.copy(x))


def shares_memory(x: Array, y: Array) -> bool:
    """Return whether two arrays overlap in memory."""
    if x is y:
        return True
    if isinstance(y, np.ndarray):
        return bool(np.may_share_memory(x, y))
    if aac.is_torch_array(y):
        pointer = y.untyped_storage().data_ptr()
        return bool(pointer != 0 and pointer == x.untyped_storage().data_ptr())
    return False


def is_writable(y: Array) -> bool:
    """Return whether y may be overwritten and read in chunks of rows: row-major, not read-only, not broadcast."""
    if isinstance(y, np.ndarray):
        return bool(y.flags.writeable and y.flags.c_contiguous)
    if aac.is_torch_array(y):
        return bool(y.is_contiguous() and not y.is_inference())  # torch refuses to write what inference_mode() made
    return True
