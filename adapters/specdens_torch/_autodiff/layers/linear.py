"""Linear layers whose weights' gradients go straight to their places in the product.

Torch's own backward makes every contribution to a weight's gradient in memory of its own, adds them up in a third
place, and a hook copies the sum. Such a weight is often most of a model, and these are passes over all of it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specdens_torch._autodiff.gradient_buffer import BackwardTarget, is_autocast, unread_gradient


class _Linear(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, index: int, backward_target: BackwardTarget
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.index, ctx.backward_target = index, backward_target
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        needs_x, _, needs_bias = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            return (*_Backward.apply(g, x, weight, needs_x, needs_bias, ctx.index, ctx.backward_target), None, None)
        to_weight = ctx.backward_target.put(ctx.index, _rows(g).mT, _rows(x))
        return (g @ weight if needs_x else None), to_weight, (_rows(g).sum(0) if needs_bias else None), None, None


class _Backward(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any,
        g: Tensor,
        x: Tensor,
        weight: Tensor,
        needs_x: bool,
        needs_bias: bool,
        index: int,
        backward_target: BackwardTarget,
    ) -> tuple[Tensor | None, ...]:
        ctx.save_for_backward(g, x, weight)
        ctx.set_materialize_grads(False)
        ctx.index, ctx.backward_target = index, backward_target
        rows = _rows(g)
        unread = backward_target.is_unread(weight)
        to_weight = unread_gradient(weight) if unread else rows.mT @ _rows(x)
        return (g @ weight if needs_x else None), to_weight, (rows.sum(0) if needs_bias else None)

    @staticmethod
    def backward(ctx: Any, vx: Tensor | None, vw: Tensor | None, vb: Tensor | None) -> tuple[Any, ...]:
        g, x, weight = ctx.saved_tensors
        product = None if vw is None else F.linear(x, vw, vb)
        if vw is None and vb is not None:
            product = vb.expand(g.shape)
        if vx is not None and product is not None and vw is not None:
            _rows(product).addmm_(_rows(vx), weight.mT)  # in place: one row of outputs may be as long as a vocabulary
        elif vx is not None:
            moved = F.linear(vx, weight)
            product = moved if product is None else product + moved
        to_x = to_weight = None
        if not ctx.backward_target.only_jvp:
            to_x = g @ vw if vw is not None and ctx.needs_input_grad[1] else None
            to_weight = None if vx is None else ctx.backward_target.put(ctx.index, _rows(g).mT, _rows(vx))
        return product, to_x, to_weight, None, None, None, None


def linear(backward_target: BackwardTarget, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return what ``F.linear`` returns, by way of the functions above where the weight is one of the leaves."""
    given = {**dict(zip(("input", "weight", "bias"), args, strict=False)), **kwargs}
    x, weight = given["input"], given["weight"]
    index = backward_target.index(weight)
    alike = x.dtype == weight.dtype and weight.dim() == 2 and x.layout is torch.strided
    if index is None or not (torch.is_grad_enabled() and alike and not is_autocast(x)):
        return F.linear(*args, **kwargs)
    return _Linear.apply(x, weight, given.get("bias"), index, backward_target)


def _rows(t: Tensor) -> Tensor:
    return t.reshape(math.prod(t.shape[:-1]), t.shape[-1])
