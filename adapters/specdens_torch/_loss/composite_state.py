"""Derivatives of a sum of several losses, whose outputs are concatenated in one flat tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdens_torch._loss.derivatives import State


class CompositeState:
    """A sum of losses, each of its own part of the outputs, and a last entry in which the sum is linear.

    Parameters
    ----------
    states
        The derivatives of the losses at their parts of the outputs.
    slope
        The derivative with respect to the last entry; None where there is no such entry.
    """

    labels = None

    def __init__(self, states: Sequence[State], slope: Tensor | None) -> None:
        self._states = tuple(states)
        self._slope = slope
        parts = [state.residual.reshape(-1) for state in states]
        self._sizes = [part.numel() for part in parts]
        if slope is not None:
            parts.append(slope.reshape(1).to(torch.float64))
            self._sizes.append(1)
        self.residual = torch.cat(parts)
        self.num_rows, self.width = 1, self.residual.numel()

    def curvature(self, u: Tensor) -> Tensor:
        """Return S u, block by block; zero where the loss is linear."""
        parts = u.split(self._sizes)
        products = [
            state.curvature(part.reshape(state.residual.shape)).reshape(-1)
            for state, part in zip(self._states, parts, strict=False)
        ]
        if self._slope is not None:
            products.append(torch.zeros_like(parts[-1], dtype=torch.float64))
        return torch.cat(products)
