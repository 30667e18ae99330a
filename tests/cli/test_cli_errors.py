"""The command line: one line and an exit code for all that can go wrong, and nothing left half-written."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from command_line import N, fail, invoke, matrix

import specdens as sd


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of one's own, with a matrix."""
    monkeypatch.chdir(tmp_path)
    scipy.io.mmwrite("A.mtx", matrix().tocoo())
    scipy.sparse.save_npz("A.npz", matrix().tocsr())
    np.save("A.npy", matrix().toarray())


def write_bad_matrices():
    A = np.load("A.npy")
    np.save("rectangular.npy", A[:3])
    np.save("vector.npy", A[0])
    np.save("empty.npy", A[:0, :0])
    np.save("text.npy", np.array([["a"]]))
    np.save("pickled.npy", np.array([[object()]]), allow_pickle=True)
    np.save("nan.npy", np.where(A == 1, np.nan, A))
    np.save("huge.npy", np.array([[2**60]]))
    np.savez("arrays.npz", a=A, b=A)
    A[3, 1] = 7.5
    np.save("asymmetric.npy", A)
    scipy.io.mmwrite("asymmetric.mtx", scipy.sparse.coo_array(A))
    scipy.sparse.save_npz("asymmetric.npz", scipy.sparse.csc_array(A))
    np.save("not-hermitian.npy", np.array([[0, 1j], [1j, 0]]))
    for name, content in {
        "no.mtx": "hello",
        "short.mtx": "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1",
    }.items():
        with open(name, "w") as file:
            file.write(content)
    for name in ("zip.npz", "zero.npy", "broken.mtx.gz"):
        with open(name, "wb") as file:
            file.write(b"PK" if name == "zip.npz" else b"")
    sd.save("result.npz", sd.fast_lanczos(np.eye(3)))


@pytest.mark.parametrize(
    ("matrix", "line"),
    [
        ("rectangular.npy", f"rectangular.npy: the matrix must be square; got shape 3 × {N}"),
        ("vector.npy", f"vector.npy: the matrix must be square; got shape {N}"),
        ("empty.npy", "empty.npy: the matrix must not be empty"),
        ("text.npy", "text.npy: the matrix must be of numbers; got dtype <U1"),
        ("pickled.npy", "pickled.npy cannot be read: holds pickled objects"),
        ("nan.npy", f"nan.npy: the matrix must be finite; it has {2 * N - 1} nan or inf"),
        ("huge.npy", "`A` has integers beyond ±2**53"),
        (
            "arrays.npz",
            "arrays.npz cannot be read: it has no sparse matrix of scipy.sparse.save_npz, but the arrays a, b",
        ),
        ("asymmetric.npy", "the largest entry of |A − Aᵀ| is 7.5: A[1, 3] = 0 but A[3, 1] = 7.5"),
        ("asymmetric.mtx", "the matrix must be symmetric; the largest entry of |A − Aᵀ| is 7.5: A[1, 3] = 0 but"),
        ("asymmetric.npz", "the matrix must be symmetric; the largest entry of |A − Aᵀ| is 7.5: A[1, 3] = 0 but"),
        (
            "not-hermitian.npy",
            "must be Hermitian; the largest entry of |A − Aᴴ| is 2: A[0, 1] = 0+1j but A[1, 0] = 0+1j",
        ),
        ("no.mtx", "no.mtx cannot be read: Line 1: Not a Matrix Market file"),
        ("short.mtx", "short.mtx cannot be read: Truncated file"),
        ("zip.npz", "zip.npz cannot be read: "),
        ("zero.npy", "zero.npy cannot be read: "),
        ("broken.mtx.gz", "broken.mtx.gz cannot be read: "),
        ("result.npz", "result.npz cannot be read: it is a SpectralMeasure, a result of specdens; see specdens info"),
    ],
)
def test_a_bad_matrix_is_refused_in_one_line(matrix, line):
    write_bad_matrices()
    assert line in fail(1, "density", matrix, "-o", "out.npz")


def test_a_matrix_of_another_kind_is_refused():
    os.rename("A.npy", "A.txt")
    assert "A.txt: must be .mtx, .mtx.gz (Matrix Market), .npz" in fail(1, "density", "A.txt")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["density"], "Missing argument 'MATRIX'. See specdens density --help."),
        (["dense"], "No such command 'dense'"),
        (["density", "A.npz", "--fast"], "No such option"),
        (["density", "missing.mtx"], "File 'missing.mtx' does not exist"),
        (["density", "A.npz", "-o", "nowhere/out.npz"], "nowhere/out.npz: the folder nowhere does not exist"),
        (["density", "A.npz", "-o", "out.gif"], "out.gif: the name must end in .npz, .csv, .png, .svg, .pdf"),
        (["density", "A.npz", "-o", "A.npz"], "A.npz would overwrite the input"),
        (["density", "A.npz", "-o", "a.csv", "-o", "./a.csv"], "a.csv would overwrite another output"),
        (["density", "A.npz", "-o", "a.npz", "--checkpoint", "a.npz"], "a.npz would overwrite the checkpoint"),
        (["density", "A.npz", "--checkpoint", "run.txt"], "run.txt: the name must end in .npz"),
        (["density", "A.npz", "--checkpoint", "no/run.npz"], "the folder no does not exist"),
        (["density", "A.npz", "--probes", "0"], "Invalid value for '--probes': 0 is not in the range x>=1"),
        (["density", "A.npz", "--kappa", "1"], "Invalid value for '--kappa'"),
        (["density", "A.npz", "--method", "slow"], "Invalid value for '--method': 'slow' is not one of"),
        (["density", "A.npz", "--method", "kpm", "--kappa", "2"], "--kappa is the width of --kernel gaussian"),
        (["density", "A.npz", "--function", "log", "--kernel", "jackson"], "--kernel does not go with --function log"),
        (["density", "A.npz", "--epsilon", "0.1"], "--epsilon goes with --function log"),
        (["density", "A.npz", "--max-products", "9", "--method", "kpm"], "--max-products goes with --method"),
        (["density", "A.npz", "--tol", "0.1", "--method", "kpm"], "--tol goes with --method fast_lanczos"),
        (["hessian", "A.mtx", "--operator", "Hess,J"], "'J' is not one of Hess, G, H, A1, A2, B1, B2, B2c:0"),
        (["hessian", "missing.py"], "File 'missing.py' does not exist"),
        (["plot", "A.npz"], "Missing option '-o'"),
        (["plot", "-o", "out.png"], "Missing argument 'RESULTS...'"),
        (["info", "missing.npz"], "File 'missing.npz' does not exist"),
        (["demo", "--output-dir", "nowhere"], "Directory 'nowhere' does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_wrong_call_is_one_line_and_exit_code_2(arguments, line):
    assert line in fail(2, *arguments)


def test_what_only_the_run_can_refuse_is_one_line_too():
    assert "`rank` must be at most the dimension (40); got 41" in fail(1, "density", "A.npz", "--rank", 41, "--quiet")


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(monkeypatch):
    os.mkdir("locked")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    assert "the folder locked is not writable" in fail(2, "density", "A.npz", "-o", "locked/out.npz")


def test_a_missing_extra_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'a picture needs matplotlib: pip install "specdens[plot]"' in fail(1, "density", "A.npz", "-o", "out.png")
    monkeypatch.setitem(sys.modules, "torch", None)
    open("problem.py", "w").close()
    assert 'specdens hessian needs torch: pip install "specdens[torch]"' in fail(1, "hessian", "problem.py")


def test_debug_shows_the_traceback_before_the_line():
    write_bad_matrices()
    code, _, err = invoke("density", "asymmetric.npy", "--debug")
    assert code == 1
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("Error: asymmetric.npy: the matrix must be symmetric")
