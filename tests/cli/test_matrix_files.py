"""Matrices from others: what is not a number, an index or a size is refused, before it costs memory."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import specdens as sd
from specdens._cli.matrices import read_matrix

HEADER = "%%MatrixMarket matrix coordinate real symmetric\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of one's own."""
    monkeypatch.chdir(tmp_path)


def read_text(text: str, name: str = "A.mtx"):
    """Return the matrix that a text says."""
    data = text.encode()
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return read_matrix(Path(name))


@pytest.mark.parametrize("token", ["1.5D+03", "2,5", "1.5.3", "0x10", "1e", "nan", "1_000", "--1", "1+2", "٣", "1 2"])
def test_what_is_not_a_number_is_refused_with_its_line(token):
    with pytest.raises(ValueError, match=r"A.mtx cannot be read: Line 5: '2 2 .*' is not an entry \(real\)"):
        read_text(f"{HEADER}% a comment\n2 2 2\n1 1 1.0\n2 2 {token}\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("2 2 1\n0 1 1.0\n", "ndex"),
        ("2 2 1\n3 1 1.0\n", "ndex"),
        ("2 2 2\n1 1 1.0\n", "Truncated file. Expected 2 entries; got 1"),
        ("2 2 1\n1 1 1.0\n2 2 1\n", "Too many lines in file: 2 entries, not 1"),
        ("2 2 1\n1 1\n", "Line 3: '1 1' is not an entry"),
        ("2 2\n", "Line 2: must be 3 sizes; got '2 2'"),
        ("-2 2 1\n", "must be 3 sizes"),
        ("99999999999999999999 2 1\n1 1 1.0\n", "must be 3 sizes"),
    ],
)
def test_what_does_not_fit_the_header_is_refused(body, message):
    with pytest.raises(ValueError, match=message):
        read_text(HEADER + body)


@pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n", " \t"])
def test_the_last_line_may_end_as_it_likes(name, end):
    A = read_text(f"{HEADER}2 2 3\n1 1 1.5e0\n2 1 -.5\n 2\t2 3.{end}", name)
    np.testing.assert_array_equal(A.toarray(), [[1.5, -0.5], [-0.5, 3.0]])


@pytest.mark.parametrize("field", ["real", "integer", "complex", "pattern"])
@pytest.mark.parametrize("sparse", [True, False])
def test_what_scipy_writes_is_read_as_scipy_reads_it(field, sparse):
    rng = np.random.default_rng(0)
    A = np.round(10 * rng.standard_normal((9, 9)))
    A = A + 1j * np.triu(A, 1) - 1j * np.triu(A, 1).T if field == "complex" else A
    A = A + A.conj().T
    A = A.astype(int) if field == "integer" else A
    if field == "pattern" and not sparse:
        return
    scipy.io.mmwrite("A.mtx", sp.coo_array(A) if sparse else A, field=field)
    expected = scipy.io.mmread("A.mtx", spmatrix=False)
    found = read_matrix(Path("A.mtx"))
    np.testing.assert_array_equal(found.toarray() if sparse else found, expected.toarray() if sparse else expected)


def test_a_file_that_claims_a_huge_matrix_is_refused_without_its_memory():
    Path("bomb.mtx").write_text(f"{HEADER}300000000 300000000 1\n1 1 1.0\n")
    with pytest.raises(ValueError, match=r"claims to be 300000000 × 300000000 with 1 entries.*raise --max-bytes"):
        read_matrix(Path("bomb.mtx"))
    Path("many.mtx").write_text(f"{HEADER}3 3 1000000000\n1 1 1.0\n")
    with pytest.raises(ValueError, match="claims to be"):
        read_matrix(Path("many.mtx"))


@pytest.mark.slow
def test_compressed_zeros_are_refused_and_the_limit_can_be_raised():
    n = 2**27 + 1
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in {"format": np.array(b"dia"), "shape": np.array([5, 5]), "offsets": np.array([0])}.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array)
            archive.writestr(f"{name}.npy", buffer.getvalue())
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1, n)})
        with archive.open("data.npy", "w", force_zip64=True) as entry:
            entry.write(header.getvalue())
            for _ in range(n // 2**20 + 1):
                entry.write(bytes(8 * 2**20))
    assert os.path.getsize("bomb.npz") < 4e6
    with pytest.raises(ValueError, match=r"would take 1.01 GiB of memory for data, .* If you trust it, raise"):
        read_matrix(Path("bomb.npz"))


@pytest.mark.slow
def test_a_gzip_bomb_is_refused_at_its_first_wrong_line():
    Path("bomb.mtx.gz").write_bytes(gzip.compress(f"{HEADER}3 3 1\n".encode() + b" " * 10**8))
    with pytest.raises(ValueError, match="a line of more than"):
        read_matrix(Path("bomb.mtx.gz"))


def test_an_array_that_is_shorter_than_its_header_is_refused_without_its_memory():
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)})
    Path("bomb.npy").write_bytes(header.getvalue() + bytes(80))
    with pytest.raises(ValueError, match="shorter or longer than its header says"):
        read_matrix(Path("bomb.npy"))


EVIL = {"data": np.ones(3), "indices": np.int32([0, 1, 2 * 10**9]), "indptr": np.int32([0, 1, 2, 3])}


@pytest.mark.slow
@pytest.mark.parametrize("changes", [
    {}, {"format": b"csc"}, {"indices": np.int32([0, 1, -5])}, {"indptr": np.int32([0, 1, 2, 10**9])},
    {"indptr": np.int32([0, 3, 1, 3]), "indices": np.int32([0, 1, 2])}, {"indices": np.int32([0, 1])},
    {"format": b"bsr", "data": np.ones((3, 1, 1))}, {"indices": np.array([0.0, 1.0, 2.0])},
    {"shape": [-3, 3]}, {"shape": [3]}, {"format": b"lil"}, {"data": np.array(["a", "b", "c"])},
])  # fmt: skip
def test_indices_out_of_range_are_refused_and_never_used(changes):
    np.savez("evil.npz", **{"format": b"csr", "shape": [3, 3], **EVIL, **changes})
    command = [sys.executable, "-m", "specdens", "density", "evil.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("Error: evil.npz")


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo"])
def test_an_operator_of_a_matrix_with_indices_out_of_range_is_refused(kind):
    A = sp.eye_array(4, format=kind)
    target = A.coords[0] if kind == "coo" else A.indices
    target[-1] = 2 * 10**9
    with pytest.raises(ValueError, match=r"`A` must be a valid sparse matrix: .*ind(ex|ices)"):
        sd.as_operator(A)
