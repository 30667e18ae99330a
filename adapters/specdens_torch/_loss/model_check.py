"""Comparison of the user's loss with the loss that the model itself computes, on the first batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from specdens_torch._loss.closed_forms import CrossEntropy, OutputLoss
from specdens_torch._loss.model_loss import ModelLoss
from specdens_torch._loss.model_output import find_loss, logits_of, run_model, takes_targets
from specdens_torch._loss.plain_loss import PlainLoss


def with_targets_of_model(model: nn.Module, loss: OutputLoss, raw: Any, key: str | None) -> OutputLoss:
    """Return cross-entropy with the targets that the model itself uses.

    A causal language model shifts its labels by one place inside its forward. Where the batch has targets under a name
    that the model's forward knows, the model's own call of cross-entropy says which targets are meant; the options
    (label smoothing, weights) stay those of the given loss.
    """
    if not isinstance(loss, CrossEntropy) or not isinstance(raw, Mapping) or not takes_targets(model, key):
        return loss
    with torch.no_grad():
        output = run_model(model, raw)
    theirs = find_loss(output)
    if theirs is None or theirs.is_meta:
        return loss
    trial = ModelLoss()
    trial.settle(lambda: trial.forward(model, raw))
    if trial.is_classification:
        compare_with_model(trial, model, raw)
        return ModelLoss(form=loss)
    plain, shifted = _plain_and_shifted(output, raw[key])
    if plain is not None and _agree(plain, theirs):
        return loss
    others = "" if plain is None else f"; the cross-entropy of its logits and labels is {plain:.6g}"
    others += "" if shifted is None else f", or {shifted:.6g} with labels shifted by one place"
    raise ValueError(
        f"`loss` is cross-entropy, but the model's own loss on the first batch, {float(theirs):.6g}, is not that alone"
        f'{others}. Use loss="model" to take what the model computes, or give batches as tuples (inputs, targets).'
    )


def compare_with_model(loss: ModelLoss, model: nn.Module, raw: Any) -> None:
    """Refuse a closed form that differs from what the model itself returns for the first batch."""
    with torch.no_grad():
        output = loss.forward(model, raw)
        ours = loss.value(output, raw) / loss.weight
        theirs = loss.of_model(model, raw)
    if not theirs.is_meta and not _agree(float(ours), theirs):
        raise ValueError(
            f"the closed form of the model's loss gives {float(ours):.8g} on the first batch, and the model "
            f"{float(theirs):.8g}. Give the loss as a function of (output, target)."
        )


def refuse_unshifted(
    model: nn.Module, loss: OutputLoss, raw: Any, target: Any, key: str | None, outputs: Callable[[], Tensor]
) -> None:
    """Refuse a loss that compares the logits of a causal model with labels that are not shifted, as the model does."""
    if not isinstance(loss, CrossEntropy | PlainLoss) or not isinstance(target, Tensor) or target.is_floating_point():
        return
    if not isinstance(raw, Mapping):
        _refuse_copied_inputs(model, raw, target)
        return
    if not takes_targets(model, key):
        return
    with torch.no_grad():
        output = run_model(model, raw)
        theirs, f = find_loss(output), outputs()
        if theirs is None or theirs.is_meta:
            return
        plain, shifted = _plain_and_shifted(output, target)
        if plain is None or shifted is None or _agree(plain, theirs) or not _agree(shifted, theirs):
            return
        given = float(loss.value(f, target) / loss.count(f, target))
    if _agree(given, theirs) or not _agree(given, torch.tensor(plain)):
        return
    raise ValueError(
        f"`loss` compares the logits with the labels of the same place ({given:.6g} on the first batch), and the model "
        f"with those of the next ({float(theirs):.6g}). Leave out forward= and give torch.nn.CrossEntropyLoss() or "
        'loss="model": the labels are then shifted as the model does it.'
    )


def _refuse_copied_inputs(model: nn.Module, raw: Any, target: Tensor) -> None:
    """Refuse targets that are the inputs themselves, for a model that predicts the next token."""
    own_loss = getattr(getattr(model, "loss_function", None), "__name__", "")
    is_encoder_decoder = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    if own_loss != "ForCausalLMLoss" or is_encoder_decoder or not isinstance(raw, list | tuple):
        return
    inputs = raw[0].get("input_ids") if isinstance(raw[0], Mapping) else raw[0]
    if not isinstance(inputs, Tensor) or inputs.shape != target.shape or inputs.is_meta:
        return
    kept = target != -100
    if bool(kept.any()) and bool((inputs[kept] == target[kept]).all()):
        raise ValueError(
            "the targets are the inputs themselves, place by place, and the model predicts the next token. Give dicts "
            'with "labels", which are shifted as the model does it, or tuples with targets shifted by one place.'
        )


def _plain_and_shifted(output: Any, labels: Any) -> tuple[float | None, float | None]:
    """Return the cross-entropy of logits and labels place by place, and with labels shifted by one place."""
    logits = logits_of(output)
    if logits is None or not isinstance(labels, Tensor) or logits.shape[:-1] != labels.shape:
        return None, None
    form = CrossEntropy(None, -100, 0.0, "mean")

    def mean(f: Tensor, y: Tensor) -> float:
        f, y = f.reshape(-1, f.shape[-1]), y.reshape(-1)
        return float(form.value(f, y) / form.count(f, y))

    shifted = mean(logits[..., :-1, :], labels[..., 1:]) if labels.dim() > 1 else None
    return mean(logits, labels), shifted


def _agree(ours: float, theirs: Tensor) -> bool:
    """Return whether two values of a loss are the same up to the rounding of the model's dtype."""
    eps = torch.finfo(theirs.dtype).eps if theirs.is_floating_point() else 0.0
    return abs(ours - float(theirs)) <= max(1e-5, 8 * eps) * max(abs(float(theirs)), 1e-2)
