"""Losses that are linear in the outputs: their Gauss–Newton matrix is zero, and Hess is H."""

from __future__ import annotations

import torch
from torch import Tensor

from specdens_torch._loss.closed_forms import CrossEntropy
from specdens_torch._loss.derivatives import GraphState, LinearState, State


class NegativeLogLikelihood:
    """The negative log-likelihood −Σ ω_y f_y of log-probabilities f, as ``nn.NLLLoss`` has it.

    Parameters
    ----------
    weight : Tensor, optional
        One weight per class.
    ignore_index : int
        The label of targets that do not count.
    reduction : str
        "mean", "sum" or "none".
    """

    name = "negative log-likelihood"
    needs_output = False

    def __init__(self, weight: Tensor | None, ignore_index: int, reduction: str) -> None:
        self._labels = CrossEntropy(weight, ignore_index, 0.0, reduction)

    def count(self, output: Tensor | None, target: Tensor) -> Tensor:
        return self._labels.count(output, target)

    def divisor(self, total: Tensor) -> Tensor:
        return self._labels.divisor(total)

    def tensors(self) -> list[Tensor]:
        return self._labels.tensors()

    def _coefficients(self, output: Tensor, target: Tensor) -> Tensor:
        """Return −ω_y at the labels and 0 elsewhere, of the outputs' shape."""
        dim = min(1, output.dim() - 1)
        if output.shape[:dim] + output.shape[dim + 1 :] != target.shape:
            raise ValueError(
                f"outputs of shape {tuple(output.shape)} and targets of shape {tuple(target.shape)} do not fit the "
                "negative log-likelihood: (n, C, …) with labels (n, …). Reshape the output with forward=."
            )
        rows = output.movedim(dim, -1).reshape(-1, output.shape[dim]).to(torch.float64)
        one = torch.ones((), dtype=torch.float64, device=rows.device)
        tau = self._labels.targets(rows, target, lambda t: t, one).tau(slice(0, rows.shape[0]))
        return -tau.reshape(*output.shape[:dim], *output.shape[dim + 1 :], output.shape[dim]).movedim(-1, dim)

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        coefficients = self._coefficients(output, target)
        return torch.where(coefficients != 0, coefficients * output.double(), 0.0).sum()

    def state(self, output: Tensor, target: Tensor, divisor: Tensor) -> State:
        return LinearState(self._coefficients(output, target) / divisor)


def is_linear(state: State) -> bool:
    """Return whether the loss is linear in the outputs, or piecewise so: its Hessian there is zero."""
    if not isinstance(state, GraphState) or state.is_linear:
        return isinstance(state, LinearState | GraphState)
    if state.residual.is_meta:
        return False
    u = torch.randn(state.residual.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    try:
        return not bool(state.curvature(u.to(state.residual)).any())
    except ValueError:  # cannot be differentiated twice, which products say
        return False
