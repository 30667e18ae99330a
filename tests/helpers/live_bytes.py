"""Tensor memory as seen by a test: every operation, from the making of its result to its end."""

from __future__ import annotations

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Follow the memory that operations make, from its making to its end."""

    def __init__(self):
        super().__init__()
        self.peak = 0
        self._alive = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs or {})) if isinstance(t, torch.Tensor)}
        for t in tree_leaves(result):
            if isinstance(t, torch.Tensor) and t.untyped_storage()._cdata not in given:
                storage = t.untyped_storage()
                self._alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.peak = max(self.peak, self.now())
        return result

    def now(self):
        """Return the bytes that are alive."""
        self._alive = {key: (ref, size) for key, (ref, size) in self._alive.items() if not ref.expired()}
        return sum(size for _, size in self._alive.values())
