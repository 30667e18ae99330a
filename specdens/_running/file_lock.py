"""A lock on a file that the operating system releases when its process ends, however that ends."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import time
import weakref
from datetime import datetime
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger("specdens")

_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_TAKEN = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # other errors: a file system without locks
_HELD: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLockedError(RuntimeError):
    """Another process, or another run of this one, uses the file."""


class FileLock:
    """An exclusive lock on `path`, held by way of a file ``.NAME.lock`` next to it.

    The lock belongs to an open file, so that it ends with the process. Forked children do not inherit it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        target = Path(os.path.realpath(path))
        self.path = target.with_name(f".{target.name}.lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise `FileLockedError` with who has it."""
        while True:
            descriptor = os.open(self.path, _OPEN, 0o644)
            try:
                _lock(descriptor)
            except OSError as error:
                if error.errno in _TAKEN:
                    holder = _read_holder(descriptor)
                    os.close(descriptor)
                    raise FileLockedError(holder) from None
                _log.warning("%s cannot be locked (%s): do not use it from two processes", self.path, error)
            if _is_same_file(descriptor, self.path):
                break
            os.close(descriptor)  # its holder has removed it in the meantime
        now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"process": os.getpid(), "since": now}).encode())
        self._descriptor = descriptor
        _HELD.add(self)

    def release(self) -> None:
        """Give the lock back, and remove its file."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):  # while it is held: nobody else can have it
            self.path.unlink()
        self.forget()

    def forget(self) -> None:
        """Close the file of the lock, as a forked child does."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        _HELD.discard(self)


def _lock(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    import msvcrt

    locking: Any = msvcrt
    os.lseek(descriptor, 2**30, os.SEEK_SET)  # beyond the text, which others may read
    locking.locking(descriptor, locking.LK_NBLCK, 1)
    os.lseek(descriptor, 0, os.SEEK_SET)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _read_holder(descriptor: int) -> str:
    """Return who holds the lock; its text may not be there yet."""
    for _ in range(5):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            os.lseek(descriptor, 0, os.SEEK_SET)
            holder = json.loads(os.read(descriptor, 1000))
            return f"process {int(holder['process'])} since {datetime.fromisoformat(holder['since'])}"
        time.sleep(0.01)
    return "another process"


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
