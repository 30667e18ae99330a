"""Gradient and Hessian of cross-entropy at given logits, computed in float64 a few rows at a time.

With a large vocabulary the logits are larger than most layers of a model. What is stored beside them has one entry per
row; probabilities are computed anew where they are needed, chunk by chunk, unless they are small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

# Entries of a chunk: 2 MiB in float64. Smaller sets of rows keep their probabilities.
_CHUNK = 2**18

Rows = Callable[[Tensor], Tensor]


class RowTargets(Protocol):
    """The targets τ of all rows, given for some rows at a time."""

    labels: Tensor | None
    omega: Tensor
    """The sums over classes, of shape (rows, 1)."""

    def tau(self, rows: slice) -> Tensor:
        """Return τ of some rows in float64; the caller may write to it."""


class LabelTargets:
    """Class labels, with weights and label smoothing.

    Parameters
    ----------
    labels : Tensor
        One class per row; 0 for ignored rows.
    kept : Tensor
        Which rows are not ignored.
    hard : Tensor
        The weight of the label of every row.
    soft : Tensor or None
        What label smoothing adds to every class, of shape (C,).
    num_classes : int
        C.
    divisor : Tensor
        What τ is divided by: a number, or one per row of shape (rows, 1).
    """

    def __init__(
        self, labels: Tensor, kept: Tensor, hard: Tensor, soft: Tensor | None, num_classes: int, divisor: Tensor
    ) -> None:
        self.labels, self._num_classes = labels, num_classes
        self._hard = (hard * kept)[:, None] / divisor
        self._soft, self._scale = soft, kept[:, None] / divisor
        self.omega = self._hard if soft is None else self._hard + soft.sum() * self._scale

    def tau(self, rows: slice) -> Tensor:
        hard = self._hard[rows]
        if self._soft is None:
            tau = torch.zeros((hard.shape[0], self._num_classes), dtype=torch.float64, device=hard.device)
        else:
            tau = self._soft * self._scale[rows]
        return tau.scatter_add_(1, self.labels[rows, None], hard)


class SoftTargets:
    """A distribution over classes for every row.

    Parameters
    ----------
    rows : Tensor
        The distributions, in the dtype in which they were given.
    smoothing : float
        Label smoothing.
    weight : Tensor or None
        Class weights.
    divisor : Tensor
        As for `LabelTargets`.
    """

    labels = None

    def __init__(self, rows: Tensor, smoothing: float, weight: Tensor | None, divisor: Tensor) -> None:
        self._rows, self._smoothing, self._weight = rows, smoothing, weight
        self._divisor = divisor.expand(rows.shape[0], 1) if divisor.dim() else divisor
        parts = [self.tau(chunk).sum(1, keepdim=True) for chunk in chunks(*rows.shape)]
        self.omega = torch.cat(parts) if parts else self.tau(slice(0, 0)).sum(1, keepdim=True)

    def tau(self, rows: slice) -> Tensor:
        tau = self._rows[rows].to(torch.float64) * (1 - self._smoothing) + self._smoothing / self._rows.shape[1]
        tau = tau if self._weight is None else tau * self._weight
        return tau / (self._divisor[rows] if self._divisor.dim() else self._divisor)


def chunks(num_rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows that have a bounded number of entries."""
    step = max(1, _CHUNK // max(1, width))
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


class SoftmaxState:
    """Cross-entropy −Σ τ_c log p_c: the Hessian is ω (diag p − p pᵀ) with ω = Σ τ_c.

    Everything happens on rows, one per example (or token, or pixel), with the classes as columns.

    Parameters
    ----------
    logits : Tensor
        The logits as rows, in the dtype of the model.
    targets : RowTargets
        The targets, divided by the divisor of the loss.
    to_rows, to_outputs : callable
        Conversions from the outputs' shape to rows and back.
    """

    def __init__(self, logits: Tensor, targets: RowTargets, to_rows: Rows, to_outputs: Rows) -> None:
        self._logits, self._targets = logits, targets
        self._to_rows, self._to_outputs = to_rows, to_outputs
        self.num_rows, self.width = logits.shape
        self.labels, self.omega = targets.labels, targets.omega
        self.top = logits.argmax(1, keepdim=True)
        self._p = self._softmax(slice(0, self.num_rows)) if logits.numel() <= _CHUNK else None

    def _softmax(self, rows: slice) -> Tensor:
        return self._logits[rows].to(torch.float64).softmax(1)

    def _probabilities(self, rows: slice) -> Tensor:
        return self._softmax(rows) if self._p is None else self._p[rows]

    @property
    def p(self) -> Tensor:
        """The probabilities, rows by classes."""
        return self._probabilities(slice(0, self.num_rows))

    @property
    def mass(self) -> Tensor:
        """The weights ω p, rows by classes."""
        return self.omega * self.p

    def _closed(self, q: Tensor, rows: slice) -> Tensor:
        """Return rows that sum to zero: the entry of the largest p, where q cancels, is minus the sum of the others.

        Writes to q.
        """
        top = self.top[rows]
        q = q.scatter_(1, top, 0.0)
        return q.scatter_(1, top, -q.sum(1, keepdim=True))

    def _differences(self, u: Tensor, p: Tensor, rows: slice) -> Tensor:
        """Return a = u − ⟨p, u⟩ of some rows, in new memory."""
        a = u[rows].to(torch.float64, copy=True)
        a.sub_(a.gather(1, self.top[rows]))
        return a.sub_((p[:, None, :] @ a[:, :, None])[:, :, 0])

    def _filled(self, dtype: torch.dtype, fill: Callable[[slice], Tensor]) -> Tensor:
        """Apply `fill` to every chunk of rows, and return the result in the outputs' shape."""
        if self.num_rows * self.width <= _CHUNK:
            return self._to_outputs(fill(slice(0, self.num_rows)).to(dtype))
        out = torch.empty((self.num_rows, self.width), dtype=dtype, device=self._logits.device)
        for rows in chunks(self.num_rows, self.width):
            out[rows] = fill(rows)
        return self._to_outputs(out)

    # -- the loss near the outputs -----------------------------------------------------------------------------------

    def gradient(self, dtype: torch.dtype) -> Tensor:
        """Return the gradient at the outputs, computed in float64 and rounded once."""

        def fill(rows: slice) -> Tensor:
            q = self.omega[rows] * self._probabilities(rows)
            return self._closed(q.sub_(self._targets.tau(rows)), rows)

        return self._filled(dtype, fill)

    @property
    def residual(self) -> Tensor:
        """The gradient at the outputs in float64."""
        return self.gradient(torch.float64)

    def curvature(self, u: Tensor) -> Tensor:
        """Return S u in the dtype of u, computed in float64 and rounded once."""
        u_rows = self._to_rows(u)

        def fill(rows: slice) -> Tensor:
            p = self._probabilities(rows)
            q = self._differences(u_rows, p, rows)
            return self._closed(q.mul_(p).mul_(self.omega[rows]), rows)

        return self._filled(u.dtype, fill)

    # -- in float64, for class components and duals ------------------------------------------------------------------

    def differences(self, u: Tensor) -> Tensor:
        """Return a = u − ⟨p, u⟩ on rows, without the cancellation where one p is nearly 1."""
        everything = slice(0, self.num_rows)
        return self._differences(self._to_rows(u), self.p, everything)

    def cotangent(self, q: Tensor) -> Tensor:
        """Return q − p Σ q as a cotangent of the outputs."""
        everything = slice(0, self.num_rows)
        return self._to_outputs(self._closed(q - self.p * q.sum(1, keepdim=True), everything))

    def root(self, z: Tensor) -> Tensor:
        return self.cotangent(self.mass.sqrt() * z)

    def root_transposed(self, u: Tensor) -> Tensor:
        return self.mass.sqrt() * self.differences(u)


def class_weights(weights: Tensor, labels: Tensor) -> Tensor:
    """Return the weights of the classes of all rows; refuse labels beyond the classes of the outputs."""
    try:
        return weights[labels]
    except IndexError:  # without a check of its own, which would wait for the device
        raise ValueError(
            f"the targets must be classes below {len(weights)}, the number of outputs; got {int(labels.max())}"
        ) from None
