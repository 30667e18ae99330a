"""Checkpoints: the state of a run in one file that a kill at any moment leaves whole.

The arrays come from the `state` of recurrences and eigenpairs, the settings from `Monitor.stage`. `_storage.npz` writes
them, by way of `_storage.atomic_write`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from specdens._running.file_lock import FileLock, FileLockedError
from specdens._storage.atomic_write import leftovers
from specdens._storage.npz import DamagedFileError, open_npz, write_npz

FORMAT = "specdens checkpoint"
VERSION = 2

T = TypeVar("T")

_ENDING = "checkpoint"  # of temporary files, which only the holder of the lock removes


class CheckpointFile:
    """One ``.npz`` file of named arrays and JSON settings, replaced as a whole.

    Arrays are read and written one at a time, and those that did not change are copied from the old file to the new one
    without being loaded, so that the file may hold more than the memory does.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.seconds = 0.0
        """How long the last write took."""
        self.is_read_only = False
        """Whether another process of the same run locks and writes the file."""
        self._lock = FileLock(self.path)
        self._num_users = 0

    def alike(self, work: Callable[[], T]) -> T:
        """Return work(); files of which every process has a part raise on all of them if it raises on one."""
        return work()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs away from the file; a run that holds it may lock it again."""
        if self.is_read_only:
            yield
            return
        if self._num_users == 0:
            self._acquire()
        self._num_users += 1
        try:
            yield
        finally:
            self._num_users -= 1
            if self._num_users == 0:
                self._lock.release()

    def _acquire(self) -> None:
        if not self._lock.path.parent.is_dir():
            raise ValueError(f"`checkpoint` must lie in a folder that exists; got {str(self.path)!r}")
        try:
            self._lock.acquire()
        except FileLockedError as holder:
            raise ValueError(
                f"`checkpoint` must not be in use; {str(self.path)!r} is used by {holder}. Wait for that run, or "
                "choose another name."
            ) from None
        except OSError as error:
            raise ValueError(f"`checkpoint` must be writable; got {str(self.path)!r}: {error}") from None
        for temporary in leftovers(self.path, ending=_ENDING):
            with contextlib.suppress(OSError):
                temporary.unlink()

    def check_room(self, num_bytes: int) -> None:
        """Refuse a disk that cannot hold a file of that size next to the one before."""
        folder = Path(os.path.realpath(self.path)).parent
        free = shutil.disk_usage(folder).free
        if free < num_bytes:
            raise ValueError(
                f"`checkpoint` needs {num_bytes / 2**30:.3g} GiB of disk; {str(folder)!r} has "
                f"{free / 2**30:.3g} GiB free"
            )

    def read_settings(self) -> dict[str, Any] | None:
        """Return the settings in the file, or None if there is no file; refuse what is not a checkpoint."""
        if not self.path.exists():
            return None
        try:
            with open_npz(self.path) as file:
                header = json.loads(str(file.read("header")))
            found = (header["format"], header["version"])
        except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
            raise ValueError(
                f"cannot resume from {self.path}: it is not a checkpoint of specdens, or is truncated ({error}). "
                "Delete it or choose another name."
            ) from None
        if found != (FORMAT, VERSION):
            raise ValueError(
                f"cannot resume from {self.path}: it is {found[0]!r}, version {found[1]}; this version of specdens "
                f"reads {FORMAT!r}, version {VERSION}. Delete it or choose another name."
            )
        settings = header.get("settings")
        if not isinstance(settings, dict) or not isinstance(settings.get("stages"), dict):
            raise ValueError(f"cannot resume from {self.path}: its header is damaged. Delete it.")
        return settings

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Say that a file cannot be resumed from, whatever is wrong with what is read of it."""
        try:
            yield
        except (DamagedFileError, OSError) as error:
            raise ValueError(f"cannot resume from {self.path}: {error}. Delete it or choose another name.") from None

    def read(self, name: str) -> NDArray[Any]:
        """Return one array."""
        with self.reading(), open_npz(self.path) as file:
            return file.read(name)

    def chunks(self, name: str) -> Iterator[NDArray[Any]]:
        """Return the entries of one array, a few megabytes at a time."""
        with self.reading(), open_npz(self.path) as file:
            yield from file.chunks(name)

    def names(self) -> frozenset[str]:
        """Return the names of the arrays in the file."""
        with self.reading(), open_npz(self.path) as file:
            return file.names - {"header"}

    def write(
        self,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Callable[[], NDArray[Any]]],
        unchanged: Collection[str] = (),
        *,
        source: Path | None = None,
    ) -> None:
        """Replace the file by one with these settings and arrays, and with the unchanged arrays of the old one.

        The old one is `source`, if it has another name.
        """
        started = time.perf_counter()
        header = json.dumps({"format": FORMAT, "version": VERSION, "settings": dict(settings)})
        write_npz(self.path, {"header": np.array(header), **arrays}, unchanged=unchanged, source=source, ending=_ENDING)
        self.seconds = time.perf_counter() - started
