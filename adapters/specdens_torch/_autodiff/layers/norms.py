"""Norms by plain operations, for models that differentiate them in their forward.

The curvature of such a model needs third derivatives, which torch computes wrongly for its fused layer norm, and for
batch and instance norm with the statistics of their input.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_LAYER = ("input", "normalized_shape", "weight", "bias", "eps")
_STATISTICS, _AFFINE = ("running_mean", "running_var"), ("weight", "bias")
_NAMES: dict[Any, tuple[str, ...]] = {
    F.layer_norm: _LAYER,
    torch.layer_norm: _LAYER,
    F.batch_norm: ("input", *_STATISTICS, *_AFFINE, "training", "momentum", "eps"),
    torch.batch_norm: ("input", *_AFFINE, *_STATISTICS, "training", "momentum", "eps"),
    F.instance_norm: ("input", *_STATISTICS, *_AFFINE, "use_input_stats", "momentum", "eps"),
    torch.instance_norm: ("input", *_AFFINE, *_STATISTICS, "use_input_stats", "momentum", "eps"),
}


def plain_norm(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Tensor] | None:
    """Return what computes a norm with the statistics of its input by plain operations; None for all else."""
    names = _NAMES.get(func)
    if names is None:
        return None
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    x, eps, weight, bias = given["input"], given.get("eps", 1e-5), given.get("weight"), given.get("bias")
    if "normalized_shape" in names:
        return partial(_norm, x, tuple(range(-len(given["normalized_shape"]), 0)), eps, weight, bias)
    if not given.get("training", given.get("use_input_stats", "use_input_stats" in names)):
        return None
    shape = (1, -1) + (1,) * (x.dim() - 2)
    weight, bias = (None if t is None else t.view(shape) for t in (weight, bias))
    dims = tuple(range(2, x.dim()))
    return partial(_norm, x, dims if "use_input_stats" in names else (0, *dims), eps, weight, bias)


def _norm(x: Tensor, dims: tuple[int, ...], eps: float, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    difference = x - x.mean(dims, keepdim=True)
    y = difference * torch.rsqrt(difference.square().mean(dims, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias
