"""Losses: their gradient and Hessian with respect to the outputs, in float64.

Near zero loss p_y − 1 and u_y − ⟨p, u⟩ cancel: in float32 the products of a trained network would be noise. All that
lives on the outputs is therefore computed in float64, and the entry that would cancel is the sum of the others.

A new loss is also entered in `convert._closed_form`, and for ``loss="model"`` in `captured_calls._NAMES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from specdens_torch._loss.derivatives import DiagonalState, State, class_axes, class_rows
from specdens_torch._loss.label_checks import check_classes, misfit
from specdens_torch._loss.softmax_state import (
    LabelTargets,
    RowTargets,
    SoftmaxState,
    SoftTargets,
    chunks,
    class_weights,
)


class OutputLoss(Protocol):
    """A loss as a function of the outputs: its value, its divisor, and its derivatives at given outputs."""

    name: str
    needs_output: bool
    """Whether `count` needs the model's outputs."""

    def count(self, output: Tensor | None, target: Any) -> Tensor:
        """Return the contribution of one batch to the divisor of the loss."""

    def divisor(self, total: Tensor) -> Tensor:
        """Return the divisor of the loss, from the sum of the counts."""

    def value(self, output: Tensor, target: Any) -> Tensor:
        """Return the sum of the losses of one batch, before the division."""

    def state(self, output: Tensor, target: Any, divisor: Tensor) -> State:
        """Return gradient and Hessian at the given outputs."""

    def tensors(self) -> list[Tensor]:
        """Return the tensors that the loss depends on beside outputs and targets."""


class _Reduced:
    """Base of the closed forms: the reduction, by sums that are divided once."""

    needs_output = False
    weight: Tensor | None = None
    pos_weight: Tensor | None = None

    def __init__(self, reduction: str) -> None:
        self.reduction = reduction

    def divisor(self, total: Tensor) -> Tensor:
        return torch.ones_like(total) if self.reduction == "sum" else total

    def tensors(self) -> list[Tensor]:
        return [t for t in (self.weight, self.pos_weight) if t is not None]


class CrossEntropy(_Reduced):
    """Softmax cross-entropy with class labels or soft targets: −Σ τ_c log p_c with weights τ."""

    name = "cross-entropy"

    def __init__(self, weight: Tensor | None, ignore_index: int, smoothing: float, reduction: str) -> None:
        super().__init__(reduction)
        self.weight, self.ignore_index, self.smoothing = weight, ignore_index, smoothing
        self.find_axis: Callable[[], None] | None = None
        """Set by the engine: evaluates batches with `note_axis` until one tells which axis holds the classes."""
        self._last: bool | None = None  # whether the classes are the last dimension of outputs with three or more

    def note_axis(self, output: Tensor, target: Tensor) -> bool:
        """Infer from a batch which axis holds the classes; return whether that is known now."""
        axes = class_axes(output, target)
        if self._last is None and len(axes) == 1 and output.dim() > 2:
            self._last = axes[0] != 1
        return self._last is not None or len(axes) < 2

    def _axis(self, output: Tensor, target: Tensor) -> int:
        """Return the dimension of the classes. It is the same for all batches; one batch alone may be ambiguous."""
        axes = class_axes(output, target)
        if not self.note_axis(output, target) and self.find_axis is not None:
            self.find_axis()
        if output.dim() > 2 and self._last is not None:
            axes = [dim for dim in axes if (dim != 1) == self._last]
        shapes = f"outputs of shape {tuple(output.shape)} and targets of shape {tuple(target.shape)}"
        if not axes:
            raise ValueError(f"{shapes} do not fit cross-entropy: {misfit(output, target)}")
        if len(axes) > 1:
            raise ValueError(
                f"{shapes} leave open whether the classes are dimension 1 or the last. Give rows, with outputs "
                "(n T, C) and targets (n T): reshape the output with forward= and the targets in the data."
            )
        return axes[0]

    def count(self, output: Tensor | None, target: Tensor) -> Tensor:
        if target.is_floating_point():
            # one row per example and place: all but the class dimension
            return number_of(target, target.numel() // max(1, target.shape[min(1, target.dim() - 1)]))
        if self.reduction == "none":
            return number_of(target, target.numel())
        kept = target != self.ignore_index
        self._check_labels(target, kept)
        if self.weight is None:
            return kept.sum(dtype=torch.float64)
        weight = self.weight.to(target.device, torch.float64)
        return (weight[torch.where(kept, target, 0).to(torch.int64)] * kept).sum()

    def _check_labels(self, target: Tensor, kept: Tensor) -> None:
        """Refuse negative labels that are not ignored: torch would take them for the last classes in places."""
        negative = kept & (target < 0)
        if not target.is_meta and bool(negative.any()):
            raise ValueError(
                f"the targets must be classes from 0 on, or {self.ignore_index}, which is ignored; got "
                f"{int(target[negative][0])}. Set ignore_index of the loss to leave it out."
            )

    def targets(self, rows: Tensor, target: Tensor, to_rows: Callable[[Tensor], Tensor], divisor: Tensor) -> RowTargets:
        """Return the targets of all rows, divided by the divisor."""
        C = rows.shape[1]
        weight = None if self.weight is None else self.weight.to(rows.device, torch.float64)
        if target.is_floating_point():
            return SoftTargets(to_rows(target), self.smoothing, weight, divisor)
        labels = target.reshape(-1).to(torch.int64)
        kept = labels != self.ignore_index
        labels = torch.where(kept, labels, 0)
        check_classes(labels, C)
        ones = torch.ones(C, dtype=torch.float64, device=rows.device) if weight is None else weight
        soft = (self.smoothing / C) * ones if self.smoothing else None
        return LabelTargets(labels, kept, (1 - self.smoothing) * class_weights(ones, labels), soft, C, divisor)

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        rows, to_rows, _ = class_rows(output, self._axis(output, target))
        total = torch.zeros((), dtype=torch.float64, device=rows.device)
        targets = self.targets(rows, target, to_rows, torch.ones_like(total))
        for chunk in chunks(*rows.shape):
            tau = targets.tau(chunk)
            # a masked logit, -inf, has no target
            total -= torch.where(tau != 0, tau * rows[chunk].to(torch.float64).log_softmax(1), 0.0).sum()
        return total

    def state(self, output: Tensor, target: Tensor, divisor: Tensor) -> State:
        rows, to_rows, to_outputs = class_rows(output, self._axis(output, target))
        return SoftmaxState(rows, self.targets(rows, target, to_rows, divisor), to_rows, to_outputs)


class SquaredError(_Reduced):
    """The squared error Σ (f − y)²."""

    name = "squared error"

    def count(self, output: Tensor | None, target: Tensor) -> Tensor:
        return number_of(target, target.numel())

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        return ((_same_shape(output, target).double() - target.double()) ** 2).sum()

    def state(self, output: Tensor, target: Tensor, divisor: Tensor) -> State:
        residual = 2 * (_same_shape(output, target).double() - target.double()) / divisor
        return DiagonalState(residual, (2 / divisor).expand(residual.shape))


class BinaryCrossEntropy(_Reduced):
    """Binary cross-entropy of logits, with `weight` and `pos_weight`."""

    name = "binary cross-entropy"

    def __init__(self, weight: Tensor | None, pos_weight: Tensor | None, reduction: str) -> None:
        super().__init__(reduction)
        self.weight, self.pos_weight = weight, pos_weight

    def count(self, output: Tensor | None, target: Tensor) -> Tensor:
        return number_of(target, target.numel())

    def _factors(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return what multiplies −log σ(f) and −log σ(−f)."""
        y = target.double()
        positive, negative = y, 1 - y
        if self.pos_weight is not None:
            positive = positive * self.pos_weight.to(y.device, torch.float64)
        if self.weight is not None:
            weight = self.weight.to(y.device, torch.float64)
            positive, negative = positive * weight, negative * weight
        return positive, negative

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        positive, negative = self._factors(output, target)
        f = _same_shape(output, target).double()
        return -(positive * F.logsigmoid(f) + negative * F.logsigmoid(-f)).sum()

    def state(self, output: Tensor, target: Tensor, divisor: Tensor) -> State:
        positive, negative = (x / divisor for x in self._factors(output, target))
        f = _same_shape(output, target).double()
        on, off = f.sigmoid(), (-f).sigmoid()  # 1 − σ(f) would cancel where the loss is small
        return DiagonalState(negative * on - positive * off, (positive + negative) * on * off)


def number_of(like: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.to(like.device, torch.float64)
    return torch.full((), float(value), dtype=torch.float64, device=like.device)


def _same_shape(output: Tensor, target: Tensor) -> Tensor:
    if output.shape != target.shape:
        raise ValueError(
            f"outputs and targets must have one shape for this loss; got {tuple(output.shape)} and "
            f"{tuple(target.shape)}. Reshape the output with forward=."
        )
    return output
