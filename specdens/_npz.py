"""Named arrays in one ``.npz`` file, without pickling: written whole, read whole or refused."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specdens._atomic import replacing

Arrays: TypeAlias = dict[str, NDArray[Any]]

# What Python's zipfile raises where a byte is wrong: it takes some for encryption, or a compression unknown to it.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError)


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays under their names; the same arrays give the same bytes."""
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read_npz(path: str | os.PathLike[str], wanted: Callable[[str], bool] = lambda name: True) -> Arrays:
    """Return those of the arrays whose names are wanted, or say what is wrong with the file."""
    name = os.fspath(path)
    with open(path, "rb") as file:
        start = file.read(4)
        if start != b"PK\x03\x04":
            raise ValueError(
                f"`path` must name a file that sd.save wrote; {name} {'is not an .npz file' if start else 'is empty'}"
            )
        try:
            with zipfile.ZipFile(file) as archive:
                members = {member.removesuffix(".npy"): member for member in archive.namelist()}
                return {key: _read_array(archive, member) for key, member in members.items() if wanted(key)}
        except _DAMAGE as error:
            if "allow_pickle" in str(error):
                raise ValueError(f"{name} holds pickled objects, which specdens neither writes nor reads") from None
            raise ValueError(f"{name} is truncated or damaged: {error}") from None


def _read_array(archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    with archive.open(member) as entry:
        array = np.lib.format.read_array(entry, allow_pickle=False)
        if entry.read(1):  # to the end, where the checksum is compared
            raise ValueError(f"{member} is longer than its header says")
    return np.asarray(array)
