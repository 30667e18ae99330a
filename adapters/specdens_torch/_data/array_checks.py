"""Checks that data come as tensors, inputs and targets together."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def check_is_data(data: Any, params: Any) -> None:
    """Refuse inputs without targets, and inputs and targets as two arguments."""
    if isinstance(data, Tensor) or _is_foreign_array(data):
        has_targets = _is_foreign_array(params) or (isinstance(params, Tensor) and not isinstance(params, nn.Parameter))
        given = "inputs and targets as two arguments" if has_targets else f"one {type(data).__name__}"
        raise TypeError(f"`data` must be a DataLoader, batches or one batch; got {given}. Pass (X, y).")


def check_tensors(raw: Any) -> None:
    """Refuse a batch whose inputs or targets are arrays of another library."""
    for part in (raw[0], raw[-1]) if isinstance(raw, list | tuple) and raw else ():
        if _is_foreign_array(part):
            library = type(part).__module__.partition(".")[0]
            raise TypeError(
                f"`data` must give tensors; got {library}.{type(part).__name__}. Convert with torch.from_numpy, inputs "
                "to the dtype of the model: torch.from_numpy(X).float()."
            )


def _is_foreign_array(x: Any) -> bool:
    return not isinstance(x, Tensor) and hasattr(x, "__array__") and hasattr(x, "shape")
