"""The memory that a process may still take on the host, within the limits of containers and of the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows
    resource = None

_DEFAULT = 4 * 2**30  # where the system does not tell

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")


class _Files(NamedTuple):
    """The names of a control group's files: its limit, what it uses, and the file cache among that."""

    limit: str
    usage: str
    cache: str


_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Files("memory.max", "memory.current", "inactive_file")


def available_bytes(*, proc: Path = _PROC, cgroup: Path = _CGROUP) -> int:
    """Return the bytes of host memory that this process can still take.

    That is the least of what the system has available, what every control group around the process leaves (cgroup
    version 1 and 2, as containers and schedulers set them) and what RLIMIT_AS leaves of the address space. File caches
    count as available.

    Parameters
    ----------
    proc : Path
        The mount point of procfs.
    cgroup : Path
        The mount point of the control groups.

    Returns
    -------
    int
        A number of bytes, at least 0; 4 GiB where the system does not tell.

    Examples
    --------
    >>> from specdens.adapters import available_bytes
    >>> n = 1_000_000
    >>> width = max(1, available_bytes() // (8 * n * 4))  # a quarter of it for a block of float64 vectors
    >>> width >= 1
    True
    """
    sizes = [*_system_bytes(proc), *_group_bytes(proc, cgroup), *_address_bytes(proc)]
    return max(0, min(sizes)) if sizes else _DEFAULT


def _system_bytes(proc: Path) -> Iterator[int]:
    """Yield what the system has available."""
    for line in _lines(proc / "meminfo"):
        if line.startswith("MemAvailable:"):
            yield 1024 * int(line.split()[1])
            return
    names = getattr(os, "sysconf_names", {})
    if "SC_PAGE_SIZE" in names and "SC_PHYS_PAGES" in names:  # macOS: all that there is
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _group_bytes(proc: Path, cgroup: Path) -> Iterator[int]:
    """Yield what is left of the limit of every control group of this process, from its own to the root."""
    for line in _lines(proc / "self" / "cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            root, files = cgroup, _V2
        elif "memory" in controllers.split(","):
            root, files = cgroup / "memory", _V1
        else:
            continue
        parts = [part for part in path.strip().split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield from _remaining(root.joinpath(*parts[:depth]), files)


def _remaining(folder: Path, files: _Files) -> Iterator[int]:
    """Yield what is left of the limit of one control group, if it has one."""
    limit, usage = _number(folder / files.limit), _number(folder / files.usage)
    if limit is None:
        return
    cache = [int(words[1]) for words in map(str.split, _lines(folder / "memory.stat")) if words[:1] == [files.cache]]
    yield limit - max(0, (usage or 0) - sum(cache))


def _address_bytes(proc: Path) -> Iterator[int]:
    """Yield what RLIMIT_AS leaves of the address space."""
    if resource is None or not hasattr(resource, "RLIMIT_AS"):
        return
    limit = int(resource.getrlimit(resource.RLIMIT_AS)[0])
    if limit == resource.RLIM_INFINITY:
        return
    taken = [int(line.split()[0]) * os.sysconf("SC_PAGE_SIZE") for line in _lines(proc / "self" / "statm")]
    yield limit - sum(taken[:1])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None
