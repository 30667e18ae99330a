"""Damage files of every format and read them: refused in words, or as they were; no crash, no hang, no other numbers.

Usage: python tests/fuzz/files.py FORMAT NUM_CASES [SEED]

FORMAT is one of those below, or "all". Prints one line of JSON per format, and exits with 1 if a case failed:

refused
    ValueError, with the name of the file in its message.
same
    Read as before the damage.
read
    Formats without checksums (.npy, .mtx) and files made by hand: read as an independent reader reads them, or with
    content that passes the schema and from which everything can be computed.
failed
    All else, with examples.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

import specdens as sd
from specdens._cli.info import summarize
from specdens._cli.matrices import read_matrix

SECONDS = 20  # after which a case counts as a hang
N = 40
MATRIX = np.diag(np.concatenate([np.linspace(-1, 1, N - 2), [5.0, -7.0]]))
SPARSE = sp.csr_array(np.diag(np.arange(1.0, 13.0)) + np.eye(12, k=1) + np.eye(12, k=-1))
SETTINGS = {"num_steps": 10, "rank": 1, "num_probes": 2, "progress": False}

Rng = np.random.Generator


class Hang(BaseException):
    """A case took too long."""


# -- damage ------------------------------------------------------------------------------------------------------------


def damage(content: bytes, rng: Rng) -> bytes:
    """Return the content with one or a few changes."""
    data = bytearray(content)
    for _ in range(1 if rng.random() < 0.7 else int(rng.integers(2, 6))):
        at, size = int(rng.integers(0, max(1, len(data)))), int(rng.integers(1, 40))
        kind = rng.integers(0, 7)
        if not data or kind == 0:
            data[at:at] = rng.bytes(size)
        elif kind <= 2:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 3:
            data[at] = int(rng.integers(0, 256))
        elif kind == 4:
            del data[at : at + size]
        elif kind == 5:
            data[at : at + size] = bytes(len(data[at : at + size]))
        else:
            del data[at:]
    return bytes(data)


def damage_text(content: bytes, rng: Rng) -> bytes:
    """Return a text with some characters replaced by others that numbers are made of."""
    if rng.random() < 0.3:
        return damage(content, rng)
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at, new = int(rng.integers(0, len(data))), int(rng.choice(list(b"0123456789+-.eEdD, \n\t%naif_x\r\0")))
        if rng.random() < 0.5:
            data[at] = new
        else:
            data.insert(at, new)
    return bytes(data)


def damage_arrays(content: bytes, rng: Rng) -> bytes:
    """Return an .npz file with right checksums and wrong arrays or metadata, as somebody might make it by hand."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    name = str(rng.choice(list(arrays)))
    x, kind = arrays[name], rng.integers(0, 7)
    if x.dtype.kind == "U":
        text = damage_text(str(x).encode(), rng).decode("utf-8", "replace").replace("\0", "")
        arrays[name] = np.array(re.sub(r"\d+", lambda m: str(rng.choice([-1, 0, 3, 10**9])), text, count=1))
    elif kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = np.asarray(rng.choice([np.nan, np.inf, -1.0, 1e300]) * np.ones(x.shape))
    elif kind == 2:
        arrays[name] = x.ravel()[: int(rng.integers(0, x.size + 1))]
    elif kind == 3:
        arrays[name] = x.astype(str(rng.choice(["f4", "i8", "c16", "?", "U3", ">f8"])))
    elif kind == 4 and x.size:
        flat = x.astype(float).ravel()
        flat[rng.integers(0, x.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e9, 0.0])
        arrays[name] = flat.reshape(x.shape).astype(x.dtype, copy=False) if x.dtype.kind == "f" else flat
    elif kind == 5:
        arrays[name] = np.concatenate([np.atleast_1d(x), np.atleast_1d(x)])
    else:
        arrays[name] = np.asarray(x)[None]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


# -- formats: how a file is made, damaged and read ---------------------------------------------------------------------


def results() -> dict[str, Any]:
    """Return one result of every kind."""
    return {
        "SpectralMeasure": sd.fast_lanczos(MATRIX, num_steps=9, num_probes=2),
        "ChebyshevMoments": sd.kpm(MATRIX, num_moments=20, num_probes=2),
        "Density": sd.spectral_density(MATRIX, **SETTINGS),
        "EigenPairs": sd.top_eigenpairs(MATRIX, rank=2),
    }


def saved(result: Any) -> bytes:
    """Return the bytes of a saved result."""
    with tempfile.TemporaryDirectory() as folder:
        sd.save(Path(folder) / "x.npz", result)
        return (Path(folder) / "x.npz").read_bytes()


def as_bytes(value: Any) -> bytes:
    """Return what makes results comparable bit for bit: a result without what is not saved."""
    return saved(value)


def read_by_hand(path: Path) -> str:
    """Load a file made by hand, and compute all that `specdens info` shows."""
    result = sd.load(path)
    json.dumps(summarize(result), default=str)
    repr(result)
    return "read"


def resumed(path: Path, method: str) -> bytes:
    """Return the numbers of a run that continues from a checkpoint."""
    density = sd.spectral_density(MATRIX, method=method, checkpoint=path, **SETTINGS)
    return density.values.tobytes() + density.outliers.vectors.tobytes()


def entries(A: Any) -> bytes:
    """Return the numbers of a matrix."""
    dense = A.toarray() if sp.issparse(A) else np.asarray(A)
    return str(dense.shape).encode() + dense.dtype.str.encode() + dense.tobytes()


def reference_mtx(content: bytes) -> bytes:
    """Read a Matrix Market file as its definition says, slowly."""
    lines = content.decode("ascii").replace("\r\n", "\n").split("\n")
    words = lines[0].lower().split()
    symmetric = words[4] == "symmetric"
    if words[:4] != ["%%matrixmarket", "matrix", "coordinate", "real"] or not (symmetric or words[4] == "general"):
        raise ValueError(lines[0])
    body = [line.split() for line in lines[1:] if line.strip() and not line.startswith("%")]
    rows, columns, count = map(int, body[0])
    A = np.zeros((rows, columns))
    for i, j, x in body[1:]:
        A[int(i) - 1, int(j) - 1] += float(x)
        if symmetric and int(i) != int(j):
            A[int(j) - 1, int(i) - 1] += float(x)
    if len(body) - 1 != count or any(int(i) < 1 or int(j) < 1 for i, j, _ in body[1:]):
        raise ValueError("indices")
    return entries(A)


def written(write: Callable[[Any], None]) -> bytes:
    """Return what a function writes to a file."""
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


class Case:
    """One format: content, damage, and what reading a damaged file gives."""

    def __init__(self, name: str, content: bytes, change: Callable[[bytes, Rng], bytes], read: Callable[[Path], Any]):
        self.name, self.content, self.change, self.read = name, content, change, read

    def outcome(self, folder: Path, rng: Rng, expected: Any) -> str:
        """Damage the file, read it, and return what happened."""
        path = folder / self.name
        data = self.change(self.content, rng)
        path.write_bytes(data)
        try:
            found = self.read(path)
        except ValueError as error:
            return "refused" if path.name in str(error) else f"unnamed: {error}"
        if isinstance(found, str):
            return found
        if found == expected:
            return "same"
        if self.name.endswith((".npy", ".mtx")):
            return "read" if found == independent(self.name, data) else "other numbers"
        return "other numbers"


def independent(name: str, data: bytes) -> bytes | None:
    """Return what an independent reader makes of a file without checksums."""
    try:
        return entries(np.load(io.BytesIO(data))) if name.endswith(".npy") else reference_mtx(data)
    except Exception:
        return None


def checkpoint(method: str) -> bytes:
    """Return the bytes of a finished checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.npz"
        resumed(path, method)
        return path.read_bytes()


def cases(kind: str) -> list[Case]:
    """Return the cases of a format."""
    if kind == "result":
        return [Case("x.npz", saved(r), damage, lambda path: as_bytes(sd.load(path))) for r in results().values()]
    if kind == "by-hand":
        return [Case("x.npz", saved(r), damage_arrays, read_by_hand) for r in results().values()]
    if kind == "checkpoint":
        methods = ("fast_lanczos", "slow_lanczos", "kpm")
        return [Case("c.npz", checkpoint(m), damage, lambda path, m=m: resumed(path, m)) for m in methods]
    general, text = SPARSE.tocoo(), {}
    for symmetry in ("symmetric", "general"):
        text[symmetry] = written(lambda file, s=symmetry: scipy.io.mmwrite(file, general, symmetry=s))
    if kind == "mtx":
        return [
            Case("A.mtx", content, damage_text, lambda path: entries(read_matrix(path))) for content in text.values()
        ]
    if kind == "mtx.gz":
        content = gzip.compress(text["symmetric"])
        return [Case("A.mtx.gz", content, damage, lambda path: entries(read_matrix(path)))]
    if kind == "sparse":
        formats = [SPARSE, SPARSE.tocsc(), SPARSE.tobsr((2, 2)), SPARSE.tocoo(), SPARSE.todia()]
        contents = [
            written(lambda file, A=A, c=c: sp.save_npz(file, A, compressed=c)) for A in formats for c in (True, False)
        ]
        return [Case("A.npz", content, damage, lambda path: entries(read_matrix(path))) for content in contents]
    if kind == "npy":
        content = written(lambda file: np.save(file, SPARSE.toarray()))
        return [Case("A.npy", content, damage, lambda path: entries(read_matrix(path)))]
    raise SystemExit(f"FORMAT must be one of {', '.join(FORMATS)}; got {kind}")


FORMATS = ("result", "by-hand", "checkpoint", "sparse", "mtx", "mtx.gz", "npy")


def fuzz(kind: str, num_cases: int, seed: int) -> dict[str, Any]:
    """Damage and read so many files of one format."""
    counts: dict[str, Any] = {"format": kind, "cases": num_cases, "refused": 0, "same": 0, "read": 0, "failed": 0}
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared = []
        for case in cases(kind):
            (folder / case.name).write_bytes(case.content)
            prepared.append((case, case.read(folder / case.name)))
        for number in range(num_cases):
            case, expected = prepared[number % len(prepared)]
            rng = np.random.default_rng((seed, number))
            signal.alarm(SECONDS)
            try:
                outcome = case.outcome(folder, rng, expected)
            except Hang:
                outcome = "hang"
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
            finally:
                signal.alarm(0)
            if outcome in counts:
                counts[outcome] += 1
            else:
                counts["failed"] += 1
                failures.append(f"case {number}: {outcome}"[:200])
    return {**counts, **({"failures": failures[:20]} if failures else {})}


def _raise_hang(*_: object) -> None:
    raise Hang


def main() -> None:
    """Fuzz the formats that were asked for."""
    kind, num_cases, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _raise_hang)
    reports = [fuzz(each, num_cases, seed) for each in (FORMATS if kind == "all" else [kind])]
    for report in reports:
        print(json.dumps(report, ensure_ascii=False), flush=True)
    sys.exit(any(report["failed"] for report in reports))


if __name__ == "__main__":
    main()
