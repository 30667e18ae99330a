"""A mode that rejects operations on tensors of several devices."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class OneDevice(TorchDispatchMode):
    """Reject operations on tensors of several devices; `meta` alone lets a tensor of the host through silently.

    Numbers of the host may be copied to the device, and take part in arithmetic as scalars.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [t for t in tree_leaves((args, kwargs or {})) if isinstance(t, torch.Tensor)]
        devices = {t.device for t in tensors if t.dim() > 0}
        if len(devices) > 1 and func not in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            raise RuntimeError(f"{func} on several devices: {devices}")
        return func(*args, **(kwargs or {}))
