"""Conversion of the user's loss to a function of the outputs, in closed form where there is one."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdens_torch._loss.closed_forms import BinaryCrossEntropy, CrossEntropy, OutputLoss, SquaredError
from specdens_torch._loss.linear_losses import NegativeLogLikelihood
from specdens_torch._loss.model_loss import ModelLoss
from specdens_torch._loss.plain_loss import PlainLoss

REDUCTIONS = ("mean", "sum")


def as_loss(loss: Any, reduction: str | None, count: Any, forward: Any = None) -> OutputLoss:
    """Return the loss as a function of the outputs: a closed form where there is one."""
    if reduction is not None and reduction not in REDUCTIONS:
        raise ValueError(f"`reduction` must be one of {', '.join(REDUCTIONS)}; got {reduction!r}")
    if isinstance(loss, str):
        return _loss_of_model(loss, reduction, count, forward)
    if not callable(loss):
        raise TypeError(f"`loss` must be a function of (output, target) or a loss module; got {type(loss).__name__}")
    known = None if count is not None else _closed_form(loss, reduction)
    if known is not None:
        return known
    if isinstance(loss, nn.Module) and getattr(loss, "reduction", None) in REDUCTIONS and count is None:
        return _unreduced(loss, reduction)
    return PlainLoss(loss, reduction, count)


def _loss_of_model(loss: str, reduction: str | None, count: Any, forward: Any) -> OutputLoss:
    if loss != "model":
        raise TypeError(f'`loss` must be a function of (output, target), a loss module or "model"; got {loss!r}')
    if reduction is not None:
        raise ValueError(f'`reduction` must be left out with loss="model", which has its own; got {reduction!r}')
    return ModelLoss(forward, count=count)


def _closed_form(loss: Any, reduction: str | None) -> OutputLoss | None:
    options: dict[str, Any] = {}
    function = loss
    if isinstance(loss, functools.partial) and not loss.args:
        function, options = loss.func, dict(loss.keywords)
    forward = getattr(type(loss), "forward", None)
    if forward is nn.CrossEntropyLoss.forward:
        names: tuple[str, ...] = ("weight", "ignore_index", "label_smoothing", "reduction")
        function, options = F.cross_entropy, {name: getattr(loss, name) for name in names}
    elif forward is nn.MSELoss.forward:
        function, options = F.mse_loss, {"reduction": loss.reduction}
    elif forward is nn.NLLLoss.forward:
        function, options = F.nll_loss, {name: getattr(loss, name) for name in ("weight", "ignore_index", "reduction")}
    elif forward is nn.BCEWithLogitsLoss.forward:
        names = ("weight", "pos_weight", "reduction")
        function, options = F.binary_cross_entropy_with_logits, {name: getattr(loss, name) for name in names}
    reduced = options.pop("reduction", "mean") if reduction is None else reduction
    options.pop("reduction", None)
    if function is F.cross_entropy and options.keys() <= {"weight", "ignore_index", "label_smoothing"}:
        return CrossEntropy(
            options.get("weight"), options.get("ignore_index", -100), options.get("label_smoothing", 0.0), reduced
        )
    if function is F.nll_loss and options.keys() <= {"weight", "ignore_index"}:
        return NegativeLogLikelihood(options.get("weight"), options.get("ignore_index", -100), reduced)
    if function is F.mse_loss and not options:
        return SquaredError(reduced)
    if function is F.binary_cross_entropy_with_logits and options.keys() <= {"weight", "pos_weight"}:
        return BinaryCrossEntropy(options.get("weight"), options.get("pos_weight"), reduced)
    return None


def _unreduced(loss: nn.Module, reduction: str | None) -> OutputLoss:
    """Return a loss module of torch as a function that returns one loss per element."""

    def plain(output: Tensor, target: Any) -> Tensor:
        module = copy.copy(loss)  # with its settings as they are now
        module.reduction = "none"
        losses: Tensor = module(output, target)
        return losses

    def check(output: Tensor, target: Any) -> None:
        losses, theirs = plain(output, target), loss(output, target)
        mine = losses.mean() if loss.reduction == "mean" else losses.sum()
        if not mine.is_meta and not torch.allclose(mine, theirs, rtol=1e-4, equal_nan=True):
            raise ValueError(
                f"`loss` {type(loss).__name__} does not average over its elements, so that batches cannot be combined. "
                "Give a function that returns one loss per example, or count="
            )

    return PlainLoss(plain, loss.reduction if reduction is None else reduction, None, check=check)
