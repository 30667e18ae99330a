"""Checkpoints: the state of a run in one file that a kill at any moment leaves whole."""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._atomic import replacing

FORMAT = "specdens checkpoint"
VERSION = 1

_COPY_BYTES = 2**22


class CheckpointFile:
    """One ``.npz`` file of named arrays and JSON settings, replaced as a whole.

    Arrays are read and written one at a time, and those that did not change are copied from the old file to the new one
    without being loaded, so that the file may hold more than the memory does.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.seconds = 0.0
        """How long the last write took."""

    def check_writable(self) -> None:
        """Refuse a folder that is missing or not writable, before the first product."""
        folder = self.path.parent
        if not folder.is_dir():
            raise ValueError(f"`checkpoint` must lie in a folder that exists; got {str(self.path)!r}")
        probe = self._temporary()
        try:
            with open(probe, "wb"):
                pass
        except OSError as error:
            raise ValueError(f"`checkpoint` must be writable; got {str(self.path)!r}: {error}") from None
        probe.unlink()

    def check_room(self, num_bytes: int) -> None:
        """Refuse a disk that cannot hold a file of that size next to the one before."""
        free = shutil.disk_usage(self.path.parent).free
        if free < num_bytes:
            raise ValueError(
                f"`checkpoint` needs {num_bytes / 2**30:.3g} GiB of disk; {str(self.path.parent)!r} has "
                f"{free / 2**30:.3g} GiB free"
            )

    def read_settings(self) -> dict[str, Any] | None:
        """Return the settings in the file, or None if there is no file; refuse what is not a checkpoint."""
        if not self.path.exists():
            return None
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open("header.npy") as member:
                header = json.loads(str(np.lib.format.read_array(member, allow_pickle=False)))
        except (zipfile.BadZipFile, KeyError, ValueError, OSError, EOFError) as error:
            raise ValueError(
                f"cannot resume from {self.path}: it is not a checkpoint of specdens, or is truncated ({error}). "
                "Delete it or choose another name."
            ) from None
        if header.get("format") != FORMAT or header.get("version") != VERSION:
            raise ValueError(
                f"cannot resume from {self.path}: it is {header.get('format')!r}, version {header.get('version')}; "
                f"this version of specdens reads {FORMAT!r}, version {VERSION}. Delete it or choose another name."
            )
        return dict(header["settings"])

    def read(self, name: str) -> NDArray[Any]:
        """Return one array."""
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{name}.npy") as member:
                return np.asarray(np.lib.format.read_array(member, allow_pickle=False))
        except (zipfile.BadZipFile, KeyError, ValueError, OSError, EOFError) as error:
            raise ValueError(f"cannot resume from {self.path}: {name} cannot be read ({error}). Delete it.") from None

    def names(self) -> set[str]:
        """Return the names of the arrays in the file."""
        with zipfile.ZipFile(self.path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()} - {"header"}

    def write(
        self,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Callable[[], NDArray[Any]]],
        keep: Collection[str] = (),
    ) -> None:
        """Replace the file by one with these settings and arrays, and those of the old one that are kept.

        Written next to the old one, flushed to the disk, then renamed: a reader sees one or the other.
        """
        started = time.perf_counter()
        header = json.dumps({"format": FORMAT, "version": VERSION, "settings": dict(settings)})
        with (
            replacing(self.path, temporary=self._temporary()) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        ):
            _write_array(archive, "header", np.array(header))
            for name, make in arrays.items():
                _write_array(archive, name, make())
            if keep:
                with zipfile.ZipFile(self.path) as old:
                    for name in keep:
                        _copy_member(old, archive, f"{name}.npy")
        self.seconds = time.perf_counter() - started

    def _temporary(self) -> Path:
        return self.path.with_name(f".{self.path.name}.tmp")


def _write_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.ascontiguousarray(array) if array.ndim else array, allow_pickle=False)


def _copy_member(old: zipfile.ZipFile, new: zipfile.ZipFile, name: str) -> None:
    with old.open(name) as source, new.open(name, "w", force_zip64=True) as target:
        shutil.copyfileobj(source, target, _COPY_BYTES)
