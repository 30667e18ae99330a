"""Gradient and Hessian of a loss with respect to the outputs, at given outputs, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from specdens_torch._loss.softmax_state import SoftmaxState


class State(Protocol):
    """Derivatives of the loss at the outputs of one batch, divided by the divisor of the loss."""

    @property
    def residual(self) -> Tensor:
        """The gradient r = ∂ℓ/∂f, of the outputs' shape."""

    def curvature(self, u: Tensor) -> Tensor:
        """Return S u for the Hessian S with respect to the outputs."""


class Rooted(Protocol):
    """A state whose Hessian has a root: S = L Lᵀ."""

    num_rows: int
    width: int

    def root(self, z: Tensor) -> Tensor:
        """Return L z, of the outputs' shape, for z of shape (rows, width)."""

    def root_transposed(self, u: Tensor) -> Tensor:
        """Return Lᵀ u."""


class DiagonalState:
    """A loss that is a sum over output entries: S is diagonal."""

    labels = None

    def __init__(self, residual: Tensor, diagonal: Tensor) -> None:
        self.residual, self.diagonal = residual, diagonal
        self.num_rows = residual.shape[0] if residual.dim() else 1
        self.width = residual.numel() // max(1, self.num_rows)

    def curvature(self, u: Tensor) -> Tensor:
        return self.diagonal * u.to(torch.float64)

    def root(self, z: Tensor) -> Tensor:
        return self.diagonal.sqrt() * z.reshape(self.diagonal.shape)

    def root_transposed(self, u: Tensor) -> Tensor:
        return (self.diagonal.sqrt() * u.to(torch.float64)).reshape(self.num_rows, self.width)


class LinearState:
    """A loss that is linear in the outputs: S is zero."""

    labels = None

    def __init__(self, residual: Tensor) -> None:
        self.residual = residual
        self.num_rows = residual.shape[0] if residual.dim() else 1
        self.width = residual.numel() // max(1, self.num_rows)

    def curvature(self, u: Tensor) -> Tensor:
        return torch.zeros_like(self.residual)

    def root(self, z: Tensor) -> Tensor:
        return torch.zeros_like(self.residual)

    def root_transposed(self, u: Tensor) -> Tensor:
        return torch.zeros((self.num_rows, self.width), dtype=torch.float64, device=self.residual.device)


class GraphState:
    """Any loss: S u is a derivative of the gradient, on the small graph from the outputs to the loss."""

    labels = None

    def __init__(self, leaf: Tensor, gradient: Tensor) -> None:
        self._leaf, self._gradient = leaf, gradient
        self.residual = gradient.detach()
        self.num_rows = leaf.shape[0] if leaf.dim() else 1
        self.width = leaf.numel() // max(1, self.num_rows)
        self._factor: Tensor | None = None

    @property
    def is_linear(self) -> bool:
        """Whether the gradient does not depend on the outputs."""
        return not self._gradient.requires_grad

    def curvature(self, u: Tensor) -> Tensor:
        if self.is_linear:
            return torch.zeros_like(self.residual)
        try:
            (product,) = torch.autograd.grad(
                self._gradient, self._leaf, u.to(self._gradient.dtype), retain_graph=True, allow_unused=True
            )
        except RuntimeError as error:
            raise ValueError(
                "the loss cannot be differentiated twice with respect to the outputs, which Hess and G need: "
                f"{str(error).splitlines()[0].rstrip('.')}. Write it with other operations; H needs the first "
                "derivative only."
            ) from error
        return torch.zeros_like(self.residual) if product is None else product

    def root(self, z: Tensor) -> Tensor:
        return (self._roots() @ z[:, :, None]).reshape(self.residual.shape)

    def root_transposed(self, u: Tensor) -> Tensor:
        rows = u.to(torch.float64).reshape(self.num_rows, self.width, 1)
        return (self._roots().mT @ rows)[:, :, 0]

    def _roots(self) -> Tensor:
        """Return L with S = L Lᵀ for every example, of shape (rows, width, width), by way of its eigenvalues."""
        if self._factor is None:
            S = self._blocks()
            values, vectors = torch.linalg.eigh(S)
            # a convex loss has no negative eigenvalues beyond the rounding of its own dtype
            eps = torch.finfo(self._gradient.dtype).eps
            if not values.is_meta and bool((values < -100 * eps * values.abs().amax()).any()):
                raise ValueError(
                    f"the dual needs a loss that is convex in the outputs; an example has the eigenvalue "
                    f"{float(values.min()):.3g}. Use the operator itself, with dual=False."
                )
            self._factor = vectors * values.clamp_min(0.0).sqrt()[:, None, :]
        return self._factor

    def _blocks(self) -> Tensor:
        """Return S of every example: one product per output, the same one for all examples."""
        shape = (self.num_rows, self.width)
        columns = []
        for k in range(self.width):
            unit = torch.zeros(shape, dtype=torch.float64, device=self._leaf.device)
            unit[:, k] = 1.0
            columns.append(self.curvature(unit.reshape(self.residual.shape)).reshape(shape).to(torch.float64))
        S = torch.stack(columns, dim=2)
        signs = 1.0 - 2.0 * (torch.arange(self.num_rows, device=S.device) % 2).to(torch.float64)
        u = signs[:, None].expand(shape)
        seen = self.curvature(u.reshape(self.residual.shape)).reshape(shape).to(torch.float64)
        if not S.is_meta and not torch.allclose(
            seen, (S @ u[:, :, None])[:, :, 0], rtol=1e-4, atol=float(S.abs().max()) * 1e-4
        ):
            raise ValueError(
                "the dual needs a loss that is a sum over examples; this one couples the examples of a batch. Use the "
                "operator itself, with dual=False."
            )
        return (S + S.mT) / 2


def gradient_in(state: State, dtype: torch.dtype) -> Tensor:
    """Return the gradient at the outputs as new memory in the given dtype, without a copy of it in float64."""
    if isinstance(state, SoftmaxState):
        return state.gradient(dtype)
    return state.residual.to(dtype, copy=True)


def class_axes(output: Tensor, target: Tensor) -> list[int]:
    """Return the dimensions of the outputs that may be the classes: 1, as torch has it, or the last."""
    usual = min(1, output.dim() - 1)
    if target.is_floating_point():
        return [usual] if output.shape == target.shape else []
    axes = dict.fromkeys((usual, output.dim() - 1))
    return [dim for dim in axes if output.shape[:dim] + output.shape[dim + 1 :] == target.shape]


def class_rows(output: Tensor, dim: int) -> tuple[Tensor, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return the logits as rows (places, C), and the maps from the outputs' shape to rows and back."""
    rest, C = output.shape[:dim] + output.shape[dim + 1 :], output.shape[dim]

    def to_rows(u: Tensor) -> Tensor:
        return u.movedim(dim, -1).reshape(-1, C)

    def to_outputs(q: Tensor) -> Tensor:
        return q.reshape(*rest, C).movedim(-1, dim)

    return to_rows(output), to_rows, to_outputs
