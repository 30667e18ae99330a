"""Matrix Market files: every token is checked before SciPy, which reads ``1.5D+03`` as 1.5, sees the file."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import scipy.io

_CHUNK_BYTES = 2**22
_LONGEST_LINE = 2**20

_SPACE, _END = rb"[ \t]++", rb"[ \t]*+\r?\n"
_INDEX = rb"[ \t]*+\d++"
_INTEGER = rb"[+-]?\d++"
_REAL = rb"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?"
_VALUES = {
    "real": [_REAL], "double": [_REAL], "integer": [_INTEGER], "unsigned-integer": [rb"\d++"],
    "complex": [_REAL, _REAL], "pattern": [],
}  # fmt: skip
_SYMMETRIES = ("general", "symmetric", "hermitian", "skew-symmetric")


@dataclass(frozen=True)
class Header:
    """What the first lines of a Matrix Market file say."""

    layout: str
    """"coordinate" or "array"."""
    field: str
    shape: tuple[int, int]
    num_lines: int
    """The number of lines that must follow."""
    is_symmetric: bool

    @property
    def expanded_bytes(self) -> int:
        """About the memory that the matrix and the vectors of a run will take."""
        itemsize = 16 if self.field == "complex" else 8
        rows, columns = self.shape
        if self.layout == "array":
            return rows * columns * itemsize
        return 8 * rows + (1 + self.is_symmetric) * self.num_lines * (itemsize + 12) + 3 * itemsize * rows


def read_matrix_market(path: Path, max_bytes: float) -> Any:
    """Return the matrix in a file, or raise ValueError with the line that is wrong.

    Parameters
    ----------
    path
        A ``.mtx`` or ``.mtx.gz`` file.
    max_bytes
        How much memory it may take.
    """
    with _open(path) as file:
        header, first = _read_header(file)
        if header.expanded_bytes > max_bytes:
            raise ValueError(
                f"it claims to be {header.shape[0]} × {header.shape[1]} with {header.num_lines} entries, which would "
                f"take {header.expanded_bytes / 2**30:.3g} GiB. If you trust it, raise --max-bytes"
            )
        _check_lines(file, header, first, max_bytes)
    with _open(path) as file:
        source: Any = _Terminated(file)
        return scipy.io.mmread(source, spmatrix=False)


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else open(path, "rb")  # type: ignore[return-value]


def _read_header(file: IO[bytes]) -> tuple[Header, int]:
    """Return what the header says, and the number of the line after it."""
    banner = file.readline(_LONGEST_LINE).decode("ascii", "replace").lower()
    words = banner.split()
    if not banner.startswith("%%matrixmarket") or len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("Line 1: Not a Matrix Market file. Missing banner")
    layout, field, symmetry = words[2:]
    if layout not in ("coordinate", "array") or field not in _VALUES or symmetry not in _SYMMETRIES:
        raise ValueError(f"Line 1: a matrix {layout} {field} {symmetry} is not known")
    line, number = b"%", 1
    while line.startswith(b"%") or (line and not line.strip()):
        line, number = file.readline(_LONGEST_LINE), number + 1
    expected = 3 if layout == "coordinate" else 2
    if not re.fullmatch(rb"[ \t]*+\d{1,18}(?:[ \t]++\d{1,18}){%d}[ \t]*+\r?\n?" % (expected - 1), line):
        raise ValueError(f"Line {number}: must be {expected} sizes; got {_shown(line)}")
    rows, columns, *rest = (int(word) for word in line.split())
    size = rest[0] if rest else _num_entries(rows, columns, symmetry)
    return Header(layout, field, (rows, columns), size, symmetry != "general"), number + 1


def _num_entries(rows: int, columns: int, symmetry: str) -> int:
    """Return how many entries of a dense matrix are in the file."""
    if symmetry == "general":
        return rows * columns
    return rows * (rows - 1) // 2 if symmetry == "skew-symmetric" else rows * (rows + 1) // 2


def _check_lines(file: IO[bytes], header: Header, number: int, max_bytes: float) -> None:
    """Raise if a line is not what the header says, or if lines are missing."""
    values = [*([_INDEX, rb"\d++"] if header.layout == "coordinate" else []), *_VALUES[header.field]]
    line = (b"" if header.layout == "coordinate" else rb"[ \t]*+") + _SPACE.join(values) + _END
    blank = _END
    lines = re.compile(rb"(?:%s|%s)*+" % (line, blank))
    found = num_bytes = 0
    for chunk in _whole_lines(file):
        num_bytes += len(chunk)
        if num_bytes > max_bytes:
            raise ValueError(f"it is longer than {max_bytes / 2**30:.3g} GiB. If you trust it, raise --max-bytes")
        end = lines.match(chunk).end()  # type: ignore[union-attr]
        if end < len(chunk):
            number += chunk.count(b"\n", 0, end)
            wrong = _shown(chunk[end:].split(b"\n")[0])
            raise ValueError(f"Line {number}: {wrong} is not an entry ({header.field})")
        number += chunk.count(b"\n")
        found += chunk.count(b"\n") - len(re.findall(rb"(?m)^[ \t]*\r?\n", chunk))
    if found < header.num_lines:
        raise ValueError(f"Truncated file. Expected {header.num_lines} entries; got {found}")
    if found > header.num_lines:
        raise ValueError(f"Too many lines in file: {found} entries, not {header.num_lines}")


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a file in chunks that end with a line; the last line gets its end if that is missing."""
    left = b""
    while part := file.read(_CHUNK_BYTES):
        chunk, newline, left = (left + part).rpartition(b"\n")
        if newline:
            yield chunk + newline
        elif len(left) > _LONGEST_LINE:
            raise ValueError(f"a line of more than {_LONGEST_LINE} characters")
    if left:
        yield left + b"\n"


def _shown(line: bytes) -> str:
    text = line.strip().decode("ascii", "backslashreplace")
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


class _Terminated(io.RawIOBase):
    """A file whose last line has an end: without it SciPy may read beyond the memory of the last token."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._last = file, b"\n"

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return some bytes of the file, then the missing end of the last line."""
        data = self._file.read(size)
        if data:
            self._last = data[-1:]
        elif self._last != b"\n":
            data = self._last = b"\n"
        return data
