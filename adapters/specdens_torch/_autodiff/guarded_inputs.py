"""Batches are not written to by the model that they are given to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from specdens_torch._autodiff.single_warnings import SingleWarnings
from specdens_torch._data.pytree import mapped, tensors_in


class GuardedInputs:
    """A function (model, batch) -> outputs whose batches stay as they are: it gets copies if it writes to them.

    Whether it does is found out with the first batch. Its warnings are shown once each.

    Parameters
    ----------
    run : callable
        The function.
    """

    def __init__(self, run: Callable[[Any, Any], Any]) -> None:
        self._run = run
        self._needs_copies: bool | None = None
        self._warnings = SingleWarnings()

    def __call__(self, model: Any, raw: Any) -> Any:
        """Return what the function returns."""
        if self._needs_copies is not False:
            raw = mapped(Tensor.clone, raw)
        before = _versions(raw)
        with self._warnings:
            output = self._run(model, raw)
        writes = _versions(raw) != before
        if writes and self._needs_copies is False:
            raise ValueError(
                "the model has written to its inputs, and did not do so with the first batch. Copy them in forward=, "
                "or replace the in-place operation."
            )
        self._needs_copies = bool(self._needs_copies) or writes
        return output


def _versions(raw: Any) -> list[int]:
    return [t._version for t in tensors_in(raw) if not t.is_inference()]
