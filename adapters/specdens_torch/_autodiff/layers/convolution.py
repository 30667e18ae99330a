"""Convolution with a second derivative that computes what is asked for.

Torch's own double backward always returns three tensors; Jv needs one of them, the derivative with respect to the
incoming gradient, which is a third of the work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from specdens_torch._autodiff.gradient_buffer import BackwardTarget, is_autocast, unread_gradient

FUNCTIONS = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}


class ConvolutionOptions(NamedTuple):
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int
    bias_size: list[int] | None

    def convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.ops.aten.convolution(
            x, weight, bias, self.stride, self.padding, self.dilation, False, [0] * len(self.stride), self.groups
        )

    def backward(self, gradient: Tensor, x: Tensor, weight: Tensor, mask: list[bool]) -> list[Tensor | None]:
        return list(
            torch.ops.aten.convolution_backward(
                gradient, x, weight, self.bias_size, self.stride, self.padding, self.dilation, False,
                [0] * len(self.stride), self.groups, mask,
            )
        )  # fmt: skip


class _Convolution(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        options: ConvolutionOptions,
        backward_target: BackwardTarget,
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.options, ctx.backward_target = options, backward_target
        return options.convolve(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        mask = list(ctx.needs_input_grad[:3])
        return (*_Backward.apply(gradient, x, weight, ctx.options, mask, ctx.backward_target), None, None)


class _Backward(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any,
        gradient: Tensor,
        x: Tensor,
        weight: Tensor,
        options: ConvolutionOptions,
        mask: list[bool],
        backward_target: BackwardTarget,
    ) -> tuple[Tensor | None, ...]:
        ctx.save_for_backward(gradient, x, weight)
        ctx.set_materialize_grads(False)
        ctx.options, ctx.backward_target = options, backward_target
        unread = mask[1] and backward_target.is_unread(weight)
        computed = [mask[0], mask[1] and not unread, mask[2]]
        found = options.backward(gradient, x, weight, computed) if any(computed) else [None] * 3
        if unread:
            found[1] = unread_gradient(weight)
        return tuple(t if needed else None for t, needed in zip(found, mask, strict=True))

    @staticmethod
    def backward(ctx: Any, vx: Tensor | None, vw: Tensor | None, vb: Tensor | None) -> tuple[Any, ...]:
        gradient, x, weight = ctx.saved_tensors
        options = ctx.options
        product = None if vw is None else options.convolve(x, vw, vb)
        if vw is None and vb is not None:
            product = vb.view(-1, *[1] * (gradient.dim() - 2)).expand(gradient.shape)
        if vx is not None:
            moved = options.convolve(vx, weight, None)
            product = moved if product is None else product + moved
        to_x = to_weight = None
        if not ctx.backward_target.only_jvp:
            if vw is not None and ctx.needs_input_grad[1]:
                to_x = options.backward(gradient, x, vw, [True, False, False])[0]
            if vx is not None and ctx.needs_input_grad[2]:
                to_weight = options.backward(gradient, vx, weight, [False, True, False])[1]
        return product, to_x, to_weight, None, None, None


def convolution(func: Any, backward_target: BackwardTarget, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return what ``torch.conv1d``, ``conv2d`` or ``conv3d`` returns, by way of the functions above where they fit."""
    given = convolution_arguments(args, kwargs)
    options = convolution_options(FUNCTIONS[func], given) if torch.is_grad_enabled() else None
    if options is None:
        return func(*args, **kwargs)
    return _Convolution.apply(given["input"], given["weight"], given.get("bias"), options, backward_target)


def convolution_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a convolution by name."""
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    return {**dict(zip(names, args, strict=False)), **kwargs}


def convolution_options(dims: int, given: dict[str, Any]) -> ConvolutionOptions | None:
    """Return the options of a convolution in so many dimensions, or None where torch's own function has to serve."""
    x, weight, bias = given["input"], given["weight"], given.get("bias")
    usual = (
        not is_autocast(x)
        and x.dim() == dims + 2
        and x.dtype == weight.dtype
        and not isinstance(given.get("padding"), str)
    )
    if not usual:
        return None

    def spread(value: Any) -> list[int]:
        values = [value] if isinstance(value, int) else list(value)
        return values * dims if len(values) == 1 else values

    return ConvolutionOptions(
        spread(given.get("stride", 1)), spread(given.get("padding", 0)), spread(given.get("dilation", 1)),
        given.get("groups", 1), None if bias is None else [weight.shape[0]],
    )  # fmt: skip
