"""Free memory of a device, reservations of it for kept graphs and data, and synchronization."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import torch

from specdens.adapters import available_bytes as host_bytes

# A reservation beyond this share of the free memory is computed again after a garbage collection.
_NOTICEABLE = 20


def available_bytes(device: Any) -> int:
    """Return the free memory of a device; that of the host for the CPU and for devices that do not report theirs."""
    module: Any = None if device.type == "meta" else torch.get_device_module(device)
    if hasattr(module, "mem_get_info"):
        return int(module.mem_get_info(device)[0])
    return host_bytes()


class Promise:
    """Memory of a device that is reserved for something that is kept. It is released with its owner.

    Parameters
    ----------
    device : torch.device
        Where the memory is.

    Attributes
    ----------
    num_bytes : int
        The bytes that will be kept in the end.
    held : int
        The bytes that are kept already, which the device no longer reports as free.
    """

    def __init__(self, device: Any) -> None:
        self.device, self.num_bytes, self.held = device, 0, 0
        _promises.add(self)


_promises: weakref.WeakSet[Promise] = weakref.WeakSet()


def shared_room(promise: Promise) -> int:
    """Return the bytes that a reservation may take: of half of the free memory, what others have not reserved.

    Memory that others have reserved and do not hold yet is not free, although the device reports it as free.
    """
    free, taken = _free_and_taken(promise)
    if taken > free // _NOTICEABLE:  # reference cycles may hold memory that nothing uses any more
        gc.collect()
        free, taken = _free_and_taken(promise)
    return max(0, free // 2 - taken)


def _free_and_taken(promise: Promise) -> tuple[int, int]:
    """Return the memory that would be free without any reservation, and the bytes that others have reserved."""
    others = [other for other in set(_promises) if other is not promise and other.device == promise.device]
    free = available_bytes(promise.device) + promise.held + sum(other.held for other in others)
    return free, sum(max(other.num_bytes, other.held) for other in others)


def check_cache(cache: Any) -> int | None:
    """Return the bytes that kept graphs may take; None if the free memory decides."""
    if isinstance(cache, str) and cache == "auto":
        return None
    if (isinstance(cache, str) and cache == "off") or cache is False:
        return 0
    if isinstance(cache, bool) or not isinstance(cache, int | float) or not cache >= 0:
        raise ValueError(f'`cache` must be "auto", "off" or a number of bytes; got {cache!r}')
    return int(cache)


def synchronize(device: Any) -> None:
    """Wait until the device has finished its work; do nothing for devices without a queue."""
    module: Any = None if device.type == "meta" else torch.get_device_module(device)
    if hasattr(module, "synchronize"):
        module.synchronize()


def format_bytes(num_bytes: float) -> str:
    """Return a number of bytes as text with a unit."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes:.0f} B"
