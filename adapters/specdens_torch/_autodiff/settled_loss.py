"""The loss and the model's forward that belong together, found with the first batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn

from specdens_torch._autodiff.determinism import check_modules
from specdens_torch._autodiff.guarded_inputs import GuardedInputs
from specdens_torch._autodiff.model_function import Forward
from specdens_torch._data.batches import Batches, default_forward, target_key
from specdens_torch._data.rng import random_state_kept
from specdens_torch._loss.closed_forms import OutputLoss
from specdens_torch._loss.model_check import compare_with_model, refuse_unshifted, with_targets_of_model
from specdens_torch._loss.model_loss import ModelLoss


def settled_loss(
    model: nn.Module,
    loss: OutputLoss,
    batches: Batches,
    forward: Callable[[nn.Module, Any], Any] | None,
    make_function: Callable[[Callable[[nn.Module, Any], Any]], Forward],
    *,
    check: bool,
    callable_within: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[Forward, OutputLoss]:
    """Return the model as a function of its parameters, and the loss of its outputs.

    A model that computes its loss itself says which targets its logits are compared with. Where the user's loss is
    compared with that, a difference is refused. The model is called as it is only within `callable_within()`; the
    function is made outside of that, where the parameters are the model's own.
    """
    if check:
        check_modules(model)
    batch = batches.first
    key = target_key(batch.raw) if isinstance(batch.raw, Mapping) else None
    with random_state_kept(batches.device):
        if forward is None:
            with callable_within():
                loss = with_targets_of_model(model, loss, batch.raw, key)
        if not isinstance(loss, ModelLoss):
            function = make_function(GuardedInputs(forward or default_forward))
            if check:
                with callable_within():
                    refuse_unshifted(
                        model, loss, batch.raw, batch.target, key, lambda: function(function.leaves, batch.raw)
                    )
            return function, loss
        batches.use_whole_batches()
        loss.run = GuardedInputs(loss.run)
        function = make_function(loss.forward)
        loss.settle(lambda: function(function.leaves, batch.raw))
        if check and not loss.has_other_options:
            with callable_within():
                compare_with_model(loss, model, batch.raw)
    return function, loss
