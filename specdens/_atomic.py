"""Files that are whole or not there: written beside their place, synced to the disk, and then renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str], *, temporary: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` if the block ends well, and leaves no trace if it does not.

    A process that is killed leaves the temporary file; one with a given name is overwritten by the next attempt.
    """
    target = Path(os.path.realpath(path))  # behind a symbolic link: the link stays
    if not target.parent.is_dir():
        raise FileNotFoundError(f"`path` must be in a folder that exists; got {os.fspath(path)}")
    if target.is_dir():
        raise IsADirectoryError(f"`path` must name a file; {os.fspath(path)} is a folder")
    temporary = temporary or target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):  # a full disk names no file
            error.filename = os.fspath(path)
        raise
    _sync_folder(target.parent)


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
