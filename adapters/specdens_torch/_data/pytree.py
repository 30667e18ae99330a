"""Nested dicts, tuples and lists of tensors, such as batches and the arguments of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor


def tensors_in(raw: Any) -> Iterator[Tensor]:
    """Return the tensors in a pytree of dicts, tuples and lists."""
    if isinstance(raw, Tensor):
        yield raw
    elif isinstance(raw, Mapping):
        for value in raw.values():
            yield from tensors_in(value)
    elif isinstance(raw, list | tuple):
        for value in raw:
            yield from tensors_in(value)


def mapped(function: Callable[[Tensor], Tensor], raw: Any) -> Any:
    """Return the same pytree with the function applied to every tensor."""
    if isinstance(raw, Tensor):
        return function(raw)
    if isinstance(raw, Mapping):
        return {key: mapped(function, value) for key, value in raw.items()}
    if isinstance(raw, tuple) and hasattr(raw, "_fields"):
        return type(raw)(*(mapped(function, value) for value in raw))
    if isinstance(raw, list | tuple):
        return type(raw)(mapped(function, value) for value in raw)
    return raw
