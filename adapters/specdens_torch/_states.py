"""Gradient and Hessian of a loss at given outputs, as functions on the outputs' space, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor


class State(Protocol):
    """The loss near the outputs of one batch. Everything is already divided by the divisor of the loss."""

    residual: Tensor
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


class SoftmaxState:
    """Cross-entropy −Σ τ_c log p_c: the Hessian is ω (diag p − p pᵀ) with ω = Σ τ_c.

    Everything happens on rows, one per example (or token, or pixel), with the classes as columns.
    """

    def __init__(
        self,
        logits: Tensor,
        tau: Tensor,
        labels: Tensor | None,
        perm: Callable[[Tensor], Tensor],
        back: Callable[[Tensor], Tensor],
    ) -> None:
        self.labels = labels
        self.p = logits.softmax(1)
        self.omega = tau.sum(1, keepdim=True)
        self.mass = self.omega * self.p
        """The weights ω p, rows by classes."""
        self.top = self.p.argmax(1, keepdim=True)
        self._perm, self._back = perm, back
        self.num_rows, self.width = logits.shape
        self.residual = back(self._closed(self.mass - tau))

    def _closed(self, q: Tensor) -> Tensor:
        """Return rows that sum to zero: the entry of the largest p, where q cancels, is minus the sum of the others."""
        q = q.scatter(1, self.top, 0.0)
        return q.scatter_(1, self.top, -q.sum(1, keepdim=True))

    def differences(self, u: Tensor) -> Tensor:
        """Return a = u − ⟨p, u⟩ on rows, without the cancellation where one p is nearly 1."""
        rows = self._perm(u).to(torch.float64)
        rows = rows - rows.gather(1, self.top)
        return rows - (self.p * rows).sum(1, keepdim=True)

    def back(self, q: Tensor) -> Tensor:
        """Return q − p Σ q as a cotangent of the outputs."""
        return self._back(self._closed(q - self.p * q.sum(1, keepdim=True)))

    def curvature(self, u: Tensor) -> Tensor:
        return self._back(self._closed(self.mass * self.differences(u)))

    def root(self, z: Tensor) -> Tensor:
        return self.back(self.mass.sqrt() * z)

    def root_transposed(self, u: Tensor) -> Tensor:
        return self.mass.sqrt() * self.differences(u)


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


class GraphState:
    """Any loss: S u is a derivative of the gradient, on the small graph from the outputs to the loss."""

    labels = None

    def __init__(self, leaf: Tensor, gradient: Tensor) -> None:
        self._leaf, self._gradient = leaf, gradient
        self.residual = gradient.detach()
        self.num_rows = leaf.shape[0] if leaf.dim() else 1
        self.width = leaf.numel() // max(1, self.num_rows)
        self._factor: Tensor | None = None

    def curvature(self, u: Tensor) -> Tensor:
        if not self._gradient.requires_grad:
            return torch.zeros_like(self.residual)
        (product,) = torch.autograd.grad(
            self._gradient, self._leaf, u.to(self._gradient.dtype), retain_graph=True, allow_unused=True
        )
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


def class_rows(output: Tensor, target: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return the logits as float64 rows (places, C), and the ways from the outputs' shape to rows and back.

    The classes are dimension 1, as torch has it, or the last where only that fits the targets (n, T) of (n, T, C).
    """
    dim = min(1, output.dim() - 1)
    usual = output.shape[:1] + output.shape[2:] == target.shape
    if not target.is_floating_point() and output.dim() > 2 and not usual and output.shape[:-1] == target.shape:
        dim = output.dim() - 1
    rest = output.shape[:dim] + output.shape[dim + 1 :]
    wanted = target.shape[:dim] + target.shape[dim + 1 :] if target.is_floating_point() else target.shape
    if tuple(rest) != tuple(wanted):
        raise ValueError(
            f"outputs of shape {tuple(output.shape)} and targets of shape {tuple(target.shape)} do not fit "
            "cross-entropy: (n, C, …) with labels (n, …), or (n, …, C). Reshape the output with forward=."
        )
    C = output.shape[dim]

    def perm(u: Tensor) -> Tensor:
        return u.movedim(dim, -1).reshape(-1, C)

    def back(q: Tensor) -> Tensor:
        return q.reshape(*rest, C).movedim(-1, dim)

    return perm(output).to(torch.float64), perm, back
