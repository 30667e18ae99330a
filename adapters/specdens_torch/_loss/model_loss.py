"""The loss that a model computes itself, with its own targets and its own count, in closed form where it has one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdens_torch._loss.captured_calls import CapturedCalls, LossCall, factors, leaf_ids
from specdens_torch._loss.closed_forms import BinaryCrossEntropy, CrossEntropy, OutputLoss, SquaredError
from specdens_torch._loss.composite_state import CompositeState
from specdens_torch._loss.derivatives import State
from specdens_torch._loss.model_output import logits_of, loss_of, run_model


@dataclass
class _Evaluation:
    """The result of one forward of the model: its loss calls, their scales, and the weight of the batch."""

    raw: Any
    calls: list[LossCall]
    scales: list[Tensor]
    """The factors of the terms of every call in the sum over batches."""
    weight: Tensor
    """The factor of the rest of the loss in the sum over batches."""
    count: Tensor
    """The contribution of the batch to the divisor."""
    shapes: list[torch.Size]
    placeholders: frozenset[int]


class ModelLoss:
    """The loss in the model's output.

    The model is called with its targets. Cross-entropy, squared error and binary cross-entropy inside it are taken out
    and have their closed form on the outputs; what is left (a router loss, say) is one further output in which the
    loss is linear, so that its curvature is part of H. Every batch is weighted by the count of its first call: the
    targets that are not ignored.

    Parameters
    ----------
    run
        ``run(model, batch)`` that returns the model's output, with a loss.
    count
        What to weigh a batch with instead: a number, or a function of the batch.
    form
        A closed form that replaces the options of the model's only call (label smoothing, say), not its targets.
    """

    needs_output = True

    def __init__(
        self,
        run: Callable[[nn.Module, Any], Any] | None = None,
        *,
        count: Any = None,
        form: CrossEntropy | None = None,
    ) -> None:
        self.run = run or run_model
        self._count, self._form = count, form
        self._last: _Evaluation | None = None
        self._same_logits: bool | None = None
        self.has_calls = True
        """Whether the loss is a sum of calls of torch's losses with constant factors, and a rest."""
        self.has_rest = False
        """Whether the loss has a part that depends on the parameters and has no closed form; found by `settle`."""
        self.several = False  # set by the engine: whether there is more than one batch
        self.name = "the model's loss" if form is None else form.name

    def tensors(self) -> list[Tensor]:
        return [] if self._form is None else self._form.tensors()

    # -- the model ---------------------------------------------------------------------------------------------------

    def settle(self, run: Callable[[], Tensor]) -> None:
        """Find out with the first batch what the loss consists of; `run` is a forward with gradients."""
        self.has_rest = True  # so that the forward returns the rest as an output
        with torch.enable_grad():
            f = run()
        last = self._evaluation
        # the rest is the last of the tensors that `forward` has joined
        self.has_rest = not last.calls or bool(leaf_ids(f.grad_fn.next_functions[-1][0]) - last.placeholders)

    def forward(self, model: nn.Module, raw: Any) -> Tensor:
        """Return the outputs on which the loss has a closed form, and the rest of the loss, as one tensor."""
        with CapturedCalls() if self.has_calls else contextlib.nullcontext() as captured:
            output = self.run(model, raw)
            loss = loss_of(output)
            found = captured.calls if captured is not None else []
            weights = factors(loss, found)
        if weights is None:  # the loss is another function of what the calls return
            self.has_calls = False
            return self.forward(model, raw)
        used = [(call, w) for call, w in zip(found, weights, strict=True) if _matters(w)]
        calls = [call for call, _ in used]
        inputs = [self._uncast(output, call) if len(calls) == 1 else call.input for call in calls]
        placeholders = frozenset(id(call.placeholder) for call in found)
        self._last = self._evaluated(raw, used, [f.shape for f in inputs], placeholders, loss.device)
        if len(inputs) == 1 and not self.has_rest:
            return inputs[0]
        if not inputs:
            return loss.reshape(1)
        dtype = torch.promote_types(inputs[0].dtype, torch.float32)
        rest = [loss.reshape(1).to(dtype)] if self.has_rest else []
        return torch.cat([*(f.reshape(-1).to(dtype) for f in inputs), *rest])

    def _uncast(self, output: Any, call: LossCall) -> Tensor:
        """Return the logits in the dtype in which the model made them: losses cast them to float32."""
        logits = logits_of(output)
        if logits is None or call.function is not F.cross_entropy or call.input.dim() != 2:
            return call.input
        if logits.shape[-1] != call.input.shape[-1] or logits.numel() != call.input.numel():
            return call.input
        if self._same_logits is None:
            rows = logits.detach().reshape(call.input.shape).to(call.input.dtype)
            self._same_logits = logits.is_meta or bool(torch.equal(rows, call.input.detach()))
        return logits.reshape(call.input.shape) if self._same_logits else call.input

    def _evaluated(
        self,
        raw: Any,
        used: list[tuple[LossCall, Tensor]],
        shapes: list[torch.Size],
        placeholders: frozenset[int],
        device: Any,
    ) -> _Evaluation:
        one = torch.ones((), dtype=torch.float64, device=device)
        calls, scales, weight, count = [call for call, _ in used], [], one, one
        if used:
            weight, count = self._batch_weight(raw, *used[0])
        if self._count is not None:
            weight = count = one * (self._count(raw) if callable(self._count) else self._count)
        for call, w in used:
            terms = self.form_of(call).count(call.input, call.target) if call.reduction == "mean" else one
            scale = one if self._form is not None else weight * w.double() / terms.clamp_min(1e-300)
            scales.append(scale if scale.dim() == 0 else _per_term(call, scale))
        return _Evaluation(raw, calls, scales, weight, count, shapes, placeholders)

    def _batch_weight(self, raw: Any, call: LossCall, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return the factor of a batch in the sum over batches, and its contribution to the divisor."""
        if call.reduction == "none" and self._form is None:
            count = (w != 0).sum().double()
            return count, count
        count = self.form_of(call).count(call.input, call.target)
        if call.reduction == "mean" or self._form is not None:
            return count, count
        if isinstance(raw, Mapping) and raw.get("num_items_in_batch") is not None:
            # a part of a larger batch: the sum over its targets, divided by their number in all of it
            return count.new_ones(()) * raw["num_items_in_batch"], count
        return count.new_ones(()), count.new_ones(())

    # -- the loss ----------------------------------------------------------------------------------------------------

    @property
    def _evaluation(self) -> _Evaluation:
        if self._last is None:
            raise RuntimeError("the model's loss is known after a forward only")
        return self._last

    def _of(self, raw: Any) -> _Evaluation:
        if self._evaluation.raw is not raw:
            raise RuntimeError("the model's loss must be asked for right after the forward with the same batch")
        return self._evaluation

    def form_of(self, call: LossCall) -> OutputLoss:
        """Return the closed form of a call."""
        options = call.options
        if call.function is F.mse_loss:
            return SquaredError("mean")
        if call.function is F.binary_cross_entropy_with_logits:
            return BinaryCrossEntropy(options.get("weight"), options.get("pos_weight"), "mean")
        if self._form is not None:
            return self._form
        smoothing = options.get("label_smoothing", 0.0)
        return CrossEntropy(options.get("weight"), options.get("ignore_index", -100), smoothing, "mean")

    @property
    def has_other_options(self) -> bool:
        """Whether the options of the model's call are replaced."""
        return self._form is not None

    @property
    def weight(self) -> Tensor:
        """The factor of the last batch in the sum over batches."""
        return self._evaluation.weight

    def of_model(self, model: nn.Module, raw: Any) -> Tensor:
        """Return the loss as the model computes it."""
        return loss_of(self.run(model, raw)).detach()

    @property
    def is_classification(self) -> bool:
        """Return whether the loss is cross-entropy with class labels and nothing else."""
        calls = self._evaluation.calls
        labels = len(calls) == 1 and calls[0].function is F.cross_entropy and not calls[0].target.is_floating_point()
        return labels and not self.has_rest

    def count(self, output: Tensor | None, raw: Any) -> Tensor:
        last = self._of(raw)
        if not last.calls and self._count is None and self.several:
            raise ValueError(
                "the model's loss has no closed form, and how many terms it averages is not known: over several "
                "batches the result would depend on their sizes. Say count=, a number or a function of the batch."
            )
        return last.count

    def divisor(self, total: Tensor) -> Tensor:
        calls = self._evaluation.calls
        if self._form is not None:
            return self._form.divisor(total)
        plain_sum = bool(calls) and calls[0].reduction == "sum" and self._count is None
        if plain_sum and not _is_part(self._evaluation.raw):
            return torch.ones_like(total)
        return total

    def _pieces(self, output: Tensor, last: _Evaluation) -> list[Tensor]:
        if len(last.shapes) == 1 and output.shape == last.shapes[0]:
            return [output]
        sizes = [shape.numel() for shape in last.shapes]
        parts = output.split([*sizes, output.numel() - sum(sizes)])
        return [part.reshape(shape) for part, shape in zip(parts, last.shapes, strict=False)] + [parts[-1]]

    def value(self, output: Tensor, raw: Any) -> Tensor:
        last = self._of(raw)
        pieces = self._pieces(output, last)
        total = torch.zeros((), dtype=torch.float64, device=output.device)
        for call, scale, f in zip(last.calls, last.scales, pieces, strict=False):
            if scale.dim() == 0:
                total = total + scale * self.form_of(call).value(f, call.target)
            else:
                options = {k: x.double() if isinstance(x, Tensor) else x for k, x in call.options.items()}
                terms = call.function(f.double(), call.target, **options)
                total = total + (scale.reshape(terms.shape) * terms).sum()
        return total + last.weight * pieces[-1].double().sum() if self.has_rest else total

    def state(self, output: Tensor, raw: Any, divisor: Tensor) -> State:
        last = self._of(raw)
        pieces = self._pieces(output, last)
        states = [
            self.form_of(call).state(f, call.target, divisor / scale)
            for call, scale, f in zip(last.calls, last.scales, pieces, strict=False)
        ]
        if len(states) == 1 and not self.has_rest:
            return states[0]
        return CompositeState(states, last.weight / divisor if self.has_rest else None)


def _matters(w: Tensor) -> bool:
    """Return whether a call has a factor other than zero."""
    return w.is_meta or bool((w != 0).any())


def _is_part(raw: Any) -> bool:
    return isinstance(raw, Mapping) and raw.get("num_items_in_batch") is not None


def _per_term(call: LossCall, scale: Tensor) -> Tensor:
    """Return the scales of terms in the shape of their closed form: one row each for cross-entropy."""
    return scale.reshape(-1, 1) if call.function is F.cross_entropy else scale
