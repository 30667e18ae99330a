"""Checks that the outputs of a batch do not depend on which other examples are in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from specdens_torch._autodiff.mean_check import verified_rows
from specdens_torch._data.batches import Batch
from specdens_torch._data.pytree import mapped
from specdens_torch._loss.closed_forms import OutputLoss
from specdens_torch._loss.plain_loss import PlainLoss

_REMEDY = (
    "The loader shuffles, so the result would depend on the shuffle. Give batches in a fixed order (shuffle=False), or "
    "take what one pass gives, with data=list(loader)."
)


def check_examples_independent(values: Callable[[Any], Tensor], batch: Batch, loss: OutputLoss) -> None:
    """Compare the outputs and losses of the first half of a batch with the first half of those of the batch.

    Parameters
    ----------
    values : callable
        From a batch to the outputs.
    batch : Batch
        The batch.
    loss : OutputLoss
        The loss.

    Raises
    ------
    ValueError
        If they differ: the model (contrastive outputs, batch statistics) or the loss couples the examples.
    """
    n = batch.size
    half = n // 2
    if half == 0:
        return
    whole = values(batch.raw)
    first = None
    with contextlib.suppress(RuntimeError, ValueError, IndexError):  # a model that takes whole batches only
        first = values(_rows(batch.raw, n, slice(0, half)))
    if first is None or whole.is_meta or whole.shape[0] != n or first.shape[1:] != whole.shape[1:]:
        return
    if not _close(first, whole[:half]):
        raise ValueError(
            "the outputs of an example depend on the other examples of its batch (batch statistics, contrastive "
            f"outputs). {_REMEDY}"
        )
    if isinstance(loss, PlainLoss) and loss.counts_examples:
        _check_loss(loss, whole, batch, half)


def _check_loss(loss: PlainLoss, output: Tensor, batch: Batch, half: int) -> None:
    n = batch.size
    loss.count(output, batch.target)  # refuses a scalar of unknown count in its own words
    if loss.needs_verified_mean:
        verified_rows(loss, output, batch.target, None)
    total, parts = loss.value(output, batch.target), None
    with contextlib.suppress(RuntimeError, ValueError, IndexError):
        parts = sum(loss.value(output[rows], _rows(batch.target, n, rows)) for rows in (slice(0, half), slice(half, n)))
    if parts is not None and not _close(torch.as_tensor(parts).reshape(1), total.reshape(1)):
        raise ValueError(
            f"the loss of a batch is not the sum of the losses of its examples (a contrastive loss?). {_REMEDY}"
        )


def _rows(raw: Any, n: int, rows: slice) -> Any:
    return mapped(lambda t: t[rows] if t.dim() and t.shape[0] == n else t, raw)


def _close(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors agree in half of their digits: smaller batches round differently."""
    eps = torch.finfo(a.dtype).eps if a.is_floating_point() else 0.0
    finite = torch.isfinite(a) & torch.isfinite(b)
    a, b = a[finite].double(), b[finite].double()
    return bool((a - b).norm() <= eps**0.5 * b.norm())
