"""The command line: `specdens density`, real processes, help."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from command_line import N, fail, matrix, run

import specdens as sd


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of one's own, with one matrix in every format."""
    monkeypatch.chdir(tmp_path)
    A = matrix()
    scipy.io.mmwrite("A.mtx", A.tocoo())
    with gzip.open("A.mtx.gz", "wb") as file:
        file.write((tmp_path / "A.mtx").read_bytes())
    scipy.sparse.save_npz("A.npz", A.tocsr())
    np.save("A.npy", A.toarray())
    return tmp_path


@pytest.mark.parametrize("matrix", ["A.mtx", "A.mtx.gz", "A.npz", "A.npy"])
def test_density_of_every_format_is_that_of_the_front_door(matrix):
    shown = run("density", matrix, "--steps", 20, "--probes", 3, "--rank", 1, "--seed", 5, "-o", "out.npz")
    wanted = sd.spectral_density(np.load("A.npy"), num_steps=20, num_probes=3, rank=1, seed=5)
    density = sd.load("out.npz")
    assert repr(density) in shown
    assert np.allclose(density.values, wanted.values, rtol=1e-6)  # dense and sparse products round differently
    assert density.outliers.values == pytest.approx(wanted.outliers.values)
    assert f"{matrix}: {N} × {N}" in shown


def test_density_writes_every_kind_of_output():
    outputs = ["out.npz", "out.csv", "out.png", "out.svg", "out.pdf"]
    shown = run("density", "A.npz", *(part for path in outputs for part in ("-o", path)))
    starts = {
        "out.npz": b"PK",
        "out.csv": b"# specdens",
        "out.png": b"\x89PNG",
        "out.svg": b"<?xml",
        "out.pdf": b"%PDF",
    }
    for path in outputs:
        assert f"Wrote {path}" in shown
        with open(path, "rb") as file:
            assert file.read(len(starts[path])) == starts[path]


@pytest.mark.parametrize(
    ("options", "drawn"),
    [
        (["--kernel", "jackson"], lambda m: m.density(kernel="jackson")),
        (["--kappa", "3", "--points", "77"], lambda m: m.density(77, kappa=3.0)),
        (["--function", "log"], lambda m: m.log_density()),
        (["--function", "log", "--epsilon", "0.1", "--kappa", "2"], lambda m: m.log_density(0.1, kappa=2.0)),
        (["--method", "kpm"], lambda m: m.density()),
        (["--method", "kpm", "--kernel", "lorentz", "--points", "50"], lambda m: m.density(50, kernel="lorentz")),
        (["--method", "kpm", "--kernel", "gaussian", "--kappa", "2"], lambda m: m.gauss.density(kappa=2.0)),
        (["--method", "slow_lanczos", "--kernel", "adaptive"], lambda m: m.density(kernel="adaptive")),
        (["--tol", "0.1", "--max-products", "60", "--points", "9"], lambda m: m.density(9)),
        (["--dtype", "float32", "--points", "9"], lambda m: m.density(9)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_choose_run_and_drawing(options, drawn):
    run("density", "A.npz", "--steps", 12, "--probes", 1, "--rank", 2, *options, "-o", "out.npz", "--quiet")
    density = sd.load("out.npz")
    wanted = drawn(density.measure)
    assert np.array_equal(density.values, wanted.values)
    assert np.array_equal(density.grid, wanted.grid)
    assert (density.axis, density.kernel) == (wanted.axis, wanted.kernel)
    assert density.outliers.rank == 2
    assert bool(density.notes) == ("--tol" in options)
    assert density.measure.dtype == ("float32" if "--dtype" in options else "float64")


def test_a_small_matrix_is_exact_unless_told_otherwise():
    run("density", "A.npz", "-o", "out.npz")
    exact = sd.load("out.npz")
    assert exact.measure.probes == "exact"
    assert any("eigenvalues were computed" in note for note in exact.notes)
    run("density", "A.npz", "--probes", 2, "-o", "out.npz")
    assert sd.load("out.npz").measure.num_probes == 2


def test_a_budget_alone_is_split_between_steps_and_probes():
    run("density", "A.npz", "--method", "fast_lanczos", "--max-products", 40, "-o", "out.npz")
    found = sd.load("out.npz").measure
    assert found.num_products <= 40
    assert found.num_probes > 1


def test_a_hermitian_matrix_is_taken():
    H = np.array([[0.0, 1j], [-1j, 0.0]])
    np.save("H.npy", H)
    assert "complex128" in run("density", "H.npy")


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int64"])
def test_a_matrix_of_integers_is_taken(dtype):
    np.save("B.npy", np.array([[0, 1], [1, 0]], dtype=dtype))
    printed = run("density", "B.npy", "--probes", 400, "--steps", 2)
    masses = [float(mass) for mass in re.findall(r"([\d.]+) at -?1\b", printed)]
    assert len(masses) == 2
    assert masses == pytest.approx([0.5, 0.5], abs=0.1)


def test_a_matrix_that_is_symmetric_to_rounding_is_taken():
    A = np.load("A.npy")
    A[0, 1] *= 1 + 1e-12
    np.save("A.npy", A)
    assert "Density per unit λ" in run("density", "A.npy")


def test_quiet_prints_nothing():
    assert run("density", "A.npz", "--quiet", "-o", "out.csv") == ""


def test_a_checkpoint_is_gone_on_from():
    run("density", "A.npz", "--steps", 8, "--checkpoint", "run.npz")
    run("density", "A.npz", "--steps", 20, "--checkpoint", "run.npz", "-o", "out.npz")
    run("density", "A.npz", "--steps", 20, "-o", "whole.npz")
    assert np.array_equal(sd.load("out.npz").values, sd.load("whole.npz").values)
    assert "made with seed=0; asked for seed=1" in fail(
        1, "density", "A.npz", "--steps", 20, "--checkpoint", "run.npz", "--seed", 1
    )


# -- real processes -----------------------------------------------------------------------------------------------

ROOT = os.path.dirname(os.path.dirname(sd.__file__))


def process(*arguments, code=None):
    command = [sys.executable, *(["-c", code] if code else ["-m", "specdens"]), *arguments]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finished(*arguments, code=None):
    with process(*arguments, code=code) as running:
        out, err = running.communicate(timeout=60)
    return running.returncode, out, err


@pytest.mark.slow
def test_the_module_is_the_command():
    code, out, err = finished("density", "A.mtx", "--steps", "9", "-o", "out.npz")
    assert (code, err) == (0, "")
    assert repr(sd.load("out.npz")) in out
    code, out, err = finished("density", "A.mtx", "--rank", "50")
    assert code == 1
    assert err == "Error: `rank` must be at most the dimension (40); got 50\n"
    assert finished("density")[::2] == (2, "Error: Missing argument 'MATRIX'. See specdens density --help.\n")


@pytest.mark.slow
def test_without_click_the_command_says_how_to_install_it():
    code, _, err = finished(code="import sys; sys.modules['click'] = None; from specdens._cli import main; main()")
    assert (code, err) == (1, 'Error: the command line needs click: pip install "specdens[cli]"\n')


@pytest.mark.slow
def test_importing_specdens_does_not_import_click():
    code, out, _ = finished(code="import sys, specdens; print('click' in sys.modules)")
    assert (code, out) == (0, "False\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
def test_an_interrupted_run_says_how_to_go_on_and_goes_on():
    # a process that was started in the background of a shell ignores SIGINT, and so would its children
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from specdens._cli import main; main()"
    n = 1_000_000  # ten seconds: the interrupt comes in the middle
    A = scipy.sparse.diags_array(np.linspace(-1, 1, n))
    scipy.sparse.save_npz("big.npz", A.tocsr())
    options = ["density", "big.npz", "--steps", "4000", "--function", "log", "--checkpoint", "run.npz", "-o", "out.npz"]
    with process(*options, code=code) as running:
        assert running.stdout.readline().startswith("big.npz")
        time.sleep(1.0)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err == "Interrupted: the run is saved in run.npz: make the same call again to go on.\n"
    assert sorted(os.listdir()) == ["A.mtx", "A.mtx.gz", "A.npy", "A.npz", "big.npz", "run.npz"]


@pytest.mark.slow
def test_a_warning_is_one_line():
    code, out, err = finished(
        "density", "A.npz", "--steps", "9",
        code="import sys, warnings, specdens._cli.options as options\n"
        "from specdens import SpecdensWarning, spectral_density\n"
        "def doubtful(A, **options):\n"
        "    warnings.warn('two\\nlines', SpecdensWarning)\n"
        "    return spectral_density(A, **options)\n"
        "options.spectral_density = doubtful\n"
        "from specdens._cli import main\n"
        "main()\n",
    )  # fmt: skip
    assert (code, err) == (0, "Warning: two lines\n")
    assert "Density per unit λ" in out


# -- help ---------------------------------------------------------------------------------------------------------


def test_help_has_examples():
    assert run() == run("--help")
    for command in ("density", "hessian", "plot", "info", "demo"):
        assert f"specdens {command}" in run("--help")
        shown = run(command, "--help")
        assert "Example" in shown
        assert f"specdens {command} " in shown
    assert run("--version").startswith("specdens ")
