"""The half precisions in which a model computes, by autocast or by casts of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_HALF_EPS = 1e-5
"""Dtypes with a larger unit of rounding are half precisions."""


class LowPrecision(TorchFunctionMode):  # type: ignore[misc]
    """Note the half precisions of all results that depend on the parameters.

    Attributes
    ----------
    dtypes : set of torch.dtype
        The dtypes seen so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and is_half(result.dtype) and result.requires_grad:
            self.dtypes.add(result.dtype)
        return result


def is_half(dtype: torch.dtype) -> bool:
    """Return whether a dtype is a half precision."""
    return bool(dtype.is_floating_point and torch.finfo(dtype).eps > _HALF_EPS)
