"""A check that the mean which a loss returns is a mean over examples, so that batches are weighed rightly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specdens_torch._data.pytree import mapped, tensors_in
from specdens_torch._loss.plain_loss import COUNT_EXAMPLE, PlainLoss

_UNKNOWN = "`loss` returned a scalar that is no mean over examples, so that the weights of batches are not known"
_REMEDY = (
    f"Say how many terms it averages, with count= ({COUNT_EXAMPLE}; count=lambda output, target: len(output) weighs "
    "batches by their examples), or return one loss per example."
)

# Examples of the first batch with which the mean of every batch is compared.
_NUM_ROWS = 8


@dataclass(frozen=True)
class SomeRows:
    """A few examples with the mean that the loss gives them."""

    output: Tensor
    target: Any
    mean: float

    def on_host(self) -> SomeRows:
        """Return the same examples in host memory, to be sent to other ranks."""
        return SomeRows(self.output.cpu(), mapped(lambda t: t.cpu(), self.target), self.mean)


def verified_rows(loss: PlainLoss, output: Tensor, target: Any, others: SomeRows | None) -> SomeRows | None:
    """Refuse a scalar that is no mean over the examples of a batch and others; return some examples to compare with.

    A mean over the examples of two sets is that of their two means, weighed by the numbers of examples. One over the
    tokens that are not masked is not.
    """
    mean = loss.losses(output, target)
    if mean.dim() or mean.is_meta:
        return None
    n, mean = output.shape[0], float(mean)
    try:
        rows = _some_rows(loss, output, target) if others is None else others
        m = rows.output.shape[0]
        joined = loss.losses(torch.cat([rows.output, output]), _joined(rows.target, target, m, n))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{_UNKNOWN}: examples of two batches have no common mean. {_REMEDY}") from error
    expected = (m * rows.mean + n * mean) / (m + n)
    size = (m * abs(rows.mean) + n * abs(mean)) / (m + n)
    if not abs(float(joined) - expected) <= 1e3 * torch.finfo(joined.dtype).eps * size:  # sums of many terms round
        raise ValueError(
            f"{_UNKNOWN}: it is {float(joined):.6g} for {m + n} examples that have the mean {expected:.6g} by their "
            f"parts, as where padding does not count or examples are coupled. {_REMEDY}"
        )
    return rows


def _some_rows(loss: PlainLoss, output: Tensor, target: Any) -> SomeRows:
    n, m = output.shape[0], min(output.shape[0], _NUM_ROWS)
    rows = mapped(lambda t: t[:m] if t.dim() and t.shape[0] == n else t, target)
    return SomeRows(output[:m], rows, float(loss.losses(output[:m], rows)))


def _joined(first: Any, second: Any, m: int, n: int) -> Any:
    """Return the targets of m examples followed by those of n others; what has no row per example is the second's."""
    rows = iter(list(tensors_in(first)))

    def join(t: Tensor) -> Tensor:
        other = next(rows)
        has_rows = t.dim() > 0 and t.shape[0] == n and other.dim() > 0 and other.shape[0] == m
        return torch.cat([other, t]) if has_rows else t

    return mapped(join, second)
