"""Calling a model that computes its own loss, and finding loss and logits in what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


def run_model(model: nn.Module, raw: Any) -> Any:
    """Call the model with all of a batch, its targets included: by name for dicts, positional for tuples."""
    if isinstance(raw, Mapping):
        return model(**raw, **without_cache(model, raw))
    return model(*raw) if isinstance(raw, list | tuple) else model(raw)


def without_cache(model: nn.Module, raw: Mapping[str, Any]) -> dict[str, bool]:
    """Return the option that keeps a language model from storing keys and values for generation."""
    known = "use_cache" in _arguments(model) and "use_cache" not in raw
    return {"use_cache": False} if known and hasattr(model, "config") else {}


def takes_targets(model: nn.Module, key: str | None) -> bool:
    """Return whether the model's forward has an argument of the name of the targets."""
    return key is not None and key in _arguments(model)


def _arguments(model: nn.Module) -> Mapping[str, Any]:
    try:
        return inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        return {}


def find_loss(output: Any) -> Tensor | None:
    """Return the loss in an output: an attribute or entry of that name, or the only scalar of a tuple."""
    if isinstance(output, Mapping):
        found = output.get("loss")
    elif hasattr(output, "loss"):
        found = output.loss
    elif isinstance(output, tuple | list):
        scalars = [t for t in output if isinstance(t, Tensor) and t.dim() == 0 and t.is_floating_point()]
        found = scalars[0] if len(scalars) == 1 else None
    else:
        found = output if isinstance(output, Tensor) and output.numel() == 1 else None
    return found if isinstance(found, Tensor) and found.numel() == 1 else None


def loss_of(output: Any) -> Tensor:
    """Return the loss in an output, or say that there is none."""
    loss = find_loss(output)
    if loss is None:
        raise TypeError(
            f'loss="model" needs a model that returns its loss (`output.loss`, or one scalar in a tuple); got '
            f"{type(output).__name__} without one. Put the targets into the batch under the name that the model "
            "knows, or give a loss function."
        )
    return loss


def logits_of(output: Any) -> Tensor | None:
    """Return the logits in an output, where it names them."""
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    return logits if isinstance(logits, Tensor) else None
