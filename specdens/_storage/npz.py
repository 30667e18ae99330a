"""Named arrays in ``.npz`` files, without pickling: the one layer below results and checkpoints.

Arrays are read and written one at a time. Sizes are compared before memory is allocated, and whatever is wrong with a
file is a `DamagedFileError`.
"""

from __future__ import annotations

import math
import os
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specdens._storage.atomic_write import replacing

Arrays: TypeAlias = dict[str, NDArray[Any]]

EXPANSION = 20
"""Compressed arrays may be this many times as large as their file,"""
ALWAYS_ALLOWED = 2**28
"""or this many bytes, whichever is more; `max_bytes` allows more."""

_CHUNK_BYTES = 2**22
_START = b"PK\x03\x04"

# What Python's zipfile and NumPy raise where a byte is wrong.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError, EOFError, NotImplementedError,
    RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, MemoryError, OSError,
)  # fmt: skip


class DamagedFileError(ValueError):
    """A file that is truncated, damaged, or not what it must be."""


class ForeignFileError(DamagedFileError):
    """A file that is not an ``.npz`` file."""


def write_npz(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[Any] | Callable[[], NDArray[Any]]],
    *,
    unchanged: Collection[str] = (),
    source: str | os.PathLike[str] | None = None,
    ending: str = "tmp",
) -> None:
    """Replace `path` by a file with these arrays; the same arrays give the same bytes.

    Parameters
    ----------
    path
        Where to write.
    arrays
        The arrays, or functions that make them when it is their turn: one is in memory at a time.
    unchanged
        Names of arrays to copy from the file that is there, without loading them.
    source
        The file to copy them from, if it is another one.
    ending
        The ending of the temporary file.

    Raises
    ------
    DamagedFileError
        If an unchanged array cannot be copied. The file that is there stays.
    OSError
        If the file cannot be written.
    """
    with ExitStack() as stack:
        old = stack.enter_context(open_npz(path if source is None else source)) if unchanged else None
        file = stack.enter_context(replacing(path, ending=ending))
        archive = stack.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                values = array() if callable(array) else array
                values = np.ascontiguousarray(values) if values.ndim else values
                np.lib.format.write_array(entry, values, allow_pickle=False)
        for name in unchanged if old is not None else ():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                old.copy(name, entry)  # type: ignore[union-attr]


@contextmanager
def open_npz(path: str | os.PathLike[str], *, max_bytes: float | None = None) -> Iterator[NpzReader]:
    """Open a file to read its arrays one at a time.

    `max_bytes` is the size up to which compressed arrays are expanded; by default 20 times the size of the file, and
    256 MiB at least.

    Raises
    ------
    DamagedFileError
        If it is not an ``.npz`` file, or what is read of it is damaged.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        start = file.read(len(_START))
        if start != _START:
            raise ForeignFileError(f"{name} {'is not an .npz file' if start else 'is empty'}")
        with damage_of(name):
            archive = zipfile.ZipFile(file)
        with archive:
            yield NpzReader(archive, name, os.fstat(file.fileno()).st_size, max_bytes)


class NpzReader:
    """The arrays of an open ``.npz`` file."""

    def __init__(self, archive: zipfile.ZipFile, path: str, file_bytes: int, max_bytes: float | None) -> None:
        self._archive, self._path, self._file_bytes = archive, path, file_bytes
        self._allowed = max(EXPANSION * file_bytes, ALWAYS_ALLOWED) if max_bytes is None else max_bytes
        entries = archive.infolist()
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}
        if len(self._entries) < len(entries):
            raise DamagedFileError(f"{path} is damaged: it has two arrays of one name")

    @property
    def names(self) -> frozenset[str]:
        """The names of the arrays."""
        return frozenset(self._entries)

    def read(self, name: str) -> NDArray[Any]:
        """Return one array."""
        with self._open(name) as (entry, shape, dtype, fortran_order):
            array: NDArray[Any] = np.empty(math.prod(shape), dtype)
            _fill(entry, array)
            return array.reshape(shape[::-1]).T if fortran_order else array.reshape(shape)

    def chunks(self, name: str) -> Iterator[NDArray[Any]]:
        """Return the entries of one array a few megabytes at a time, as flat arrays."""
        with self._open(name) as (entry, shape, dtype, _):
            size, step = math.prod(shape), max(1, _CHUNK_BYTES // max(1, dtype.itemsize))
            for start in range(0, size, step):
                chunk: NDArray[Any] = np.empty(min(step, size - start), dtype)
                _fill(entry, chunk, is_last=start + step >= size)
                yield chunk

    def copy(self, name: str, target: IO[bytes]) -> None:
        """Copy one array to another file as it is; its checksum is compared."""
        with damage_of(self._path):
            source = self._archive.open(self._entry(name))
        with source:
            shutil.copyfileobj(_Checked(source, self._path), target, _CHUNK_BYTES)

    def _entry(self, name: str) -> zipfile.ZipInfo:
        if name not in self._entries:
            raise DamagedFileError(f"{self._path} is damaged: it lacks {name}")
        return self._entries[name]

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[IO[bytes], tuple[int, ...], np.dtype[Any], bool]]:
        info = self._entry(name)
        if info.compress_type == zipfile.ZIP_STORED and info.file_size > self._file_bytes:
            raise DamagedFileError(f"{self._path} is truncated or damaged: {name} is longer than the file")
        self._allowed -= info.file_size
        if info.compress_type != zipfile.ZIP_STORED and self._allowed < 0:
            raise DamagedFileError(
                f"{self._path} would take {info.file_size / 2**30:.3g} GiB of memory for {name}, far more than the "
                "file itself. If you trust it, raise `max_bytes`."
            )
        with damage_of(self._path), self._archive.open(info) as entry:
            shape, fortran_order, dtype = read_array_header(entry)
            if math.prod(shape) * dtype.itemsize != info.file_size - entry.tell():
                raise ValueError(f"{name} is shorter or longer than its header says")
            yield entry, shape, dtype, fortran_order


def read_array_header(entry: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and dtype of an array; pickled objects are refused."""
    version = np.lib.format.read_magic(entry)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the .npy format is not known")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(entry)
    if dtype.hasobject:
        raise ValueError("holds pickled objects, which specdens neither writes nor reads")
    if dtype.names or dtype.subdtype or any(length < 0 for length in shape):
        raise ValueError(f"an array of dtype {dtype} and shape {shape}")
    return shape, fortran_order, dtype


def _fill(entry: IO[bytes], array: NDArray[Any], *, is_last: bool = True) -> None:
    """Read the bytes of an array; at the end of the entry its checksum is compared."""
    view, filled = array.view(np.uint8), 0
    while filled < view.size:
        part = entry.read(min(_CHUNK_BYTES, view.size - filled))
        if not part:
            raise EOFError("an array ends too early")
        view[filled : filled + len(part)] = np.frombuffer(part, np.uint8)
        filled += len(part)
    if is_last and entry.read(1):
        raise ValueError("an array is longer than its header says")


class _Checked:
    """A file of which failures to read name the damaged file."""

    def __init__(self, source: IO[bytes], path: str) -> None:
        self._source, self._path = source, path

    def read(self, size: int = -1) -> bytes:
        """Return bytes, or raise `DamagedFileError`."""
        with damage_of(self._path):
            return self._source.read(size)


@contextmanager
def damage_of(path: str) -> Iterator[None]:
    """Raise whatever a damaged file makes zipfile and NumPy raise as `DamagedFileError`."""
    try:
        yield
    except DamagedFileError:
        raise
    except _DAMAGE as error:
        if "pickled objects" in str(error):
            raise DamagedFileError(f"{path} {error}") from None
        raise DamagedFileError(f"{path} is truncated or damaged: {error or type(error).__name__}") from None
