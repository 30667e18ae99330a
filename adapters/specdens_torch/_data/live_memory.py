"""Measuring the tensor memory that an operation leaves behind, and its peak."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from specdens_torch._data.pytree import tensors_in

# The memory that is alive is added up once in this many operations, to find the peak.
_STRIDE = 32


class LiveMemory(TorchDispatchMode):  # type: ignore[misc]
    """Follow the memory of the tensors that operations make within a ``with`` block.

    Attributes
    ----------
    peak : int
        The largest number of bytes alive at a time, sampled every few operations.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self._count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given = {_reference(t).cdata for t in tensors_in((args, kwargs)) if _has_storage(t)}
        for t in tensors_in(result):
            if _has_storage(t):
                reference = _reference(t)
                if reference.cdata not in given:
                    self._alive[reference.cdata] = (reference, t.untyped_storage().nbytes())
        self._count += 1
        if self._count % _STRIDE == 0:
            self.num_bytes()
        return result

    def num_bytes(self) -> int:
        """Return the bytes that are alive now."""
        self._alive = {key: (ref, size) for key, (ref, size) in self._alive.items() if not ref.expired()}
        alive = sum(size for _, size in self._alive.values())
        self.peak = max(self.peak, alive)
        return alive


def _has_storage(t: Tensor) -> bool:
    try:
        t.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse tensors and wrappers of torch.func have none
        return False
    return True


def _reference(t: Tensor) -> StorageWeakRef:
    return StorageWeakRef(t.untyped_storage())
