"""How much memory there is, and when the device is done."""

from __future__ import annotations

from typing import Any

import torch

# Where the system does not tell.
_DEFAULT = 4 * 2**30


def available_bytes(device: Any) -> int:
    """Return the free memory of a device, as far as it tells; the host's where it is the host."""
    module: Any = None if device.type == "meta" else torch.get_device_module(device)
    if hasattr(module, "mem_get_info"):
        return int(module.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return _DEFAULT


def cache_budget(cache: Any, device: Any) -> int:
    """Return the bytes that kept graphs may take."""
    if cache == "auto":
        return available_bytes(device) // 2
    if cache == "off" or cache is False:
        return 0
    if isinstance(cache, bool) or not isinstance(cache, int | float) or cache < 0:
        raise ValueError(f'`cache` must be "auto", "off" or a number of bytes; got {cache!r}')
    return int(cache)


def synchronize(device: Any) -> None:
    """Wait for the device, if it is one that can be waited for."""
    module: Any = None if device.type == "meta" else torch.get_device_module(device)
    if hasattr(module, "synchronize"):
        module.synchronize()


def gib(num_bytes: float) -> str:
    """Return a number of bytes in words."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes:.0f} B"
