"""How much memory there is, what was promised of it to kept graphs and data, and when the device is done."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import torch

from specdens.adapters import available_bytes as host_bytes

# Promises that take more than this part of the free memory are looked at again after garbage collection.
_NOTICEABLE = 20


def available_bytes(device: Any) -> int:
    """Return the free memory of a device, as far as it tells; the host's where it is the host."""
    module: Any = None if device.type == "meta" else torch.get_device_module(device)
    if hasattr(module, "mem_get_info"):
        return int(module.mem_get_info(device)[0])
    return host_bytes()


class Promise:
    """Memory of a device that is set aside for something that is kept; it ends with its owner.

    Parameters
    ----------
    device : torch.device
        Where the memory is.

    Attributes
    ----------
    num_bytes : int
        What is kept in the end.
    held : int
        What is kept already: the device no longer counts it as free.
    """

    def __init__(self, device: Any) -> None:
        self.device, self.num_bytes, self.held = device, 0, 0
        _promises.add(self)


_promises: weakref.WeakSet[Promise] = weakref.WeakSet()


def shared_room(promise: Promise) -> int:
    """Return what a promise may take of the memory that all promises on its device share: half of what is free.

    Memory that others were promised and do not hold yet is not free, though the device says so.
    """
    free, taken = _free_and_taken(promise)
    if taken > free // _NOTICEABLE:  # perhaps by what nobody uses any more
        gc.collect()
        free, taken = _free_and_taken(promise)
    return max(0, free // 2 - taken)


def _free_and_taken(promise: Promise) -> tuple[int, int]:
    """Return what there would be without any promise, and what others were promised of it."""
    others = [other for other in set(_promises) if other is not promise and other.device == promise.device]
    free = available_bytes(promise.device) + promise.held + sum(other.held for other in others)
    return free, sum(max(other.num_bytes, other.held) for other in others)


def check_cache(cache: Any) -> int | None:
    """Return the bytes that kept graphs may take; None leaves it to the memory that there is."""
    if isinstance(cache, str) and cache == "auto":
        return None
    if (isinstance(cache, str) and cache == "off") or cache is False:
        return 0
    if isinstance(cache, bool) or not isinstance(cache, int | float) or not cache >= 0:
        raise ValueError(f'`cache` must be "auto", "off" or a number of bytes; got {cache!r}')
    return int(cache)


def synchronize(device: Any) -> None:
    """Wait for the device, if it is one that can be waited for."""
    module: Any = None if device.type == "meta" else torch.get_device_module(device)
    if hasattr(module, "synchronize"):
        module.synchronize()


def format_bytes(num_bytes: float) -> str:
    """Return a number of bytes in words."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes:.0f} B"
