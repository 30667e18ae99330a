"""Interception of the loss functions that a model calls in its own forward, so that closed forms can replace them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_CROSS_ENTROPY = ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
_MSE = ("input", "target", "size_average", "reduce", "reduction", "weight")
_BCE = ("input", "target", "weight", "size_average", "reduce", "reduction", "pos_weight")
_NAMES = {F.cross_entropy: _CROSS_ENTROPY, F.mse_loss: _MSE, F.binary_cross_entropy_with_logits: _BCE}


@dataclass
class LossCall:
    """One call of a loss function of torch: what it was given, and the placeholder that it returned."""

    function: Any
    input: Tensor
    target: Tensor
    options: dict[str, Any]
    placeholder: Tensor
    """Zero, a leaf: the derivative of the model's loss with respect to it is the factor of this call."""

    @property
    def reduction(self) -> str:
        """How the call reduces its terms: "mean", "sum" or "none"."""
        return str(self.options.get("reduction", "mean"))


class CapturedCalls(TorchFunctionMode):  # type: ignore[misc]
    """Replace the loss calls of a forward by zeros, and record them.

    What the model then returns as its loss is the rest: all that is not one of these calls. Gradients are recorded
    from the first call on, also within ``no_grad``, so that the factors of the calls are known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[LossCall] = []
        self._grad_mode = contextlib.ExitStack()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        names = _NAMES.get(func)
        given = None if names is None else {**dict(zip(names, args, strict=False)), **(kwargs or {})}
        if given is None or not _is_plain(given):
            return func(*args, **(kwargs or {}))
        if not self.calls:
            self._grad_mode.enter_context(torch.enable_grad())
        f, target = given.pop("input"), given.pop("target")
        shape = _terms(func, f, target) if given.get("reduction", "mean") == "none" else ()
        # in float64, so that the factors have all their digits
        zero = torch.zeros(shape, dtype=torch.float64, device=f.device, requires_grad=True)
        self.calls.append(LossCall(func, f, target, given, zero))
        return zero * 1.0  # not a leaf: models may add to their loss in place

    def __exit__(self, *exception: Any) -> None:
        self._grad_mode.close()
        super().__exit__(*exception)


def _is_plain(given: Mapping[str, Any]) -> bool:
    """Return whether a call uses none of torch's deprecated options."""
    return given.get("size_average") is None and given.get("reduce") is None


def _terms(function: Any, f: Tensor, target: Tensor) -> torch.Size:
    """Return the shape of what an unreduced call returns."""
    if function is not F.cross_entropy:
        return torch.broadcast_shapes(f.shape, target.shape)
    return torch.Size([*f.shape[:1], *f.shape[2:]]) if f.dim() > 1 else torch.Size([])


def factors(loss: Tensor, calls: list[LossCall]) -> list[Tensor] | None:
    """Return ∂ loss / ∂ placeholder of every call; None where that is not a constant."""
    if not calls or not loss.requires_grad:
        return [torch.zeros_like(call.placeholder) for call in calls]
    # hidden from dispatch modes that observe the model
    with torch.enable_grad(), torch._C.DisableTorchFunction():
        found = torch.autograd.grad(
            loss, [call.placeholder for call in calls], retain_graph=True, create_graph=True, allow_unused=True
        )
    if any(w is not None and w.requires_grad for w in found):
        return None
    return [
        torch.zeros_like(call.placeholder) if w is None else w.detach() for w, call in zip(found, calls, strict=True)
    ]


def leaf_ids(node: Any) -> set[int]:
    """Return the ids of the leaves that the graph behind a node leads to."""
    found, seen, nodes = set(), set(), [node]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        nodes += [following for following, _ in node.next_functions]
    return found
