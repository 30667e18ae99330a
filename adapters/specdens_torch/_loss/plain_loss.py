"""Losses without a closed form: by automatic differentiation, with a count of terms that is given or verified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from specdens_torch._loss.closed_forms import number_of
from specdens_torch._loss.derivatives import GraphState, State

COUNT_EXAMPLE = "count=lambda output, target: (target != -100).sum() where -100 marks padding"


class PlainLoss:
    """Any twice differentiable function of outputs and targets, by automatic differentiation in float64."""

    name = "loss"
    needs_output = True

    def __init__(
        self,
        function: Callable[[Tensor, Any], Tensor],
        reduction: str | None,
        count: Any,
        *,
        check: Callable[[Tensor, Any], None] | None = None,
    ) -> None:
        self.function, self.reduction, self._count = function, reduction, count
        self._check = check  # called once with every batch
        self.several = False  # set by the engine: whether there is more than one batch
        self.wide = True

    @property
    def counts_examples(self) -> bool:
        """Whether the count is proportional to the number of examples; false if it was given per batch."""
        return self._count is None or callable(self._count)

    def tensors(self) -> list[Tensor]:
        function = self.function
        return [*function.parameters(), *function.buffers()] if isinstance(function, nn.Module) else []

    def losses(self, output: Tensor, target: Any) -> Tensor:
        """Return the losses, from outputs in float64 if the function accepts these."""
        if self.wide:
            try:
                return self.function(output.double(), _widened(target))
            except (RuntimeError, TypeError):
                self.wide = False  # a function with float32 constants of its own: it computes in its own dtype
        return self.function(output, target)

    def count(self, output: Tensor | None, target: Any) -> Tensor:
        if output is None:
            raise TypeError("`output` must be given for a plain loss")
        if self._check is not None:
            self._check(output, target)
        losses = self.losses(output, target)
        if not isinstance(losses, Tensor):
            raise TypeError(f"`loss` must return a tensor; got {type(losses).__name__}")
        if self._count is not None:
            number = self._count(output, target) if callable(self._count) else self._count
            return number_of(losses, number)
        if losses.dim() > 0:
            return number_of(losses, losses.numel())
        if self.reduction == "mean":
            return number_of(losses, output.shape[0])
        if self.reduction is None and self.several:
            raise ValueError(
                "`loss` returned a scalar, and how many terms it averages is not known: over several batches the "
                'result would depend on their sizes. Return one loss per example, or say reduction="sum", or '
                f'reduction="mean", with count= where the mean is not over examples: {COUNT_EXAMPLE}.'
            )
        return number_of(losses, 1)

    @property
    def needs_verified_mean(self) -> bool:
        """Whether a scalar may be the mean over something else than examples, which would weigh batches wrongly."""
        return self.several and self._count is None and self.reduction == "mean"

    def divisor(self, total: Tensor) -> Tensor:
        return torch.ones_like(total) if self.reduction == "sum" else total

    def _sum(self, output: Tensor, target: Any) -> Tensor:
        losses = self.losses(output, target)
        if losses.dim() == 0 and self.reduction == "mean":
            return losses * self.count(output.detach(), target).to(losses.dtype)
        return losses.sum()

    def value(self, output: Tensor, target: Any) -> Tensor:
        return self._sum(output, target).double()

    def state(self, output: Tensor, target: Any, divisor: Tensor) -> State:
        with torch.enable_grad():
            leaf = (output.double() if self.wide else output).detach().requires_grad_()
            total = self._sum(leaf, target)
            (residual,) = torch.autograd.grad(total / divisor.to(total.dtype), leaf, create_graph=True)
        return GraphState(leaf, residual)


def _widened(target: Any) -> Any:
    return target.double() if isinstance(target, Tensor) and target.is_floating_point() else target
