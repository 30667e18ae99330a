"""Atomic file replacement: write to a temporary file, sync it to the disk, rename it."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# The temporary file is new: an existing file or link of that name is an error, and no link is followed.
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def replacing(path: str | os.PathLike[str], *, ending: str = "tmp") -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends, and is removed when the block raises.

    A symbolic link stays, and the file that it points to is replaced. A file that is replaced hands on its permissions.
    A process that is killed leaves the temporary file ``.NAME.XXXXXXXX.ENDING`` next to the target.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"`path` must be in a folder that exists; got {os.fspath(path)}")
    if target.is_dir():
        raise IsADirectoryError(f"`path` must name a file; {os.fspath(path)} is a folder")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.{ending}")
    mode = _permissions(target)
    try:
        # a file that others must not read is never readable to them, not even half written
        descriptor = os.open(temporary, _NEW_FILE, 0o666 if mode is None else 0o600)
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if mode is not None:
                os.chmod(temporary, mode)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):  # a full disk names no file
            error.filename = os.fspath(path)
        raise
    _sync_folder(target.parent)


def leftovers(path: str | os.PathLike[str], *, ending: str) -> list[Path]:
    """Return the temporary files that killed processes have left next to `path`."""
    target = Path(os.path.realpath(path))
    start, end = f".{target.name}.", f".{ending}"
    names = [name for name in os.listdir(target.parent) if name.startswith(start) and name.endswith(end)]
    return [target.with_name(name) for name in names if len(name) == len(start) + 8 + len(end)]


def _permissions(target: Path) -> int | None:
    """Return the permissions of a file that is there, else None."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself survive a loss of power, where folders can be synced at all."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse; the file itself is safe
        pass
    finally:
        os.close(descriptor)
