"""The command line: `specdens info` and `specdens plot`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from command_line import fail, matrix, run

import specdens as sd
from specdens._cli.plot import names_apart


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of one's own, with a matrix."""
    monkeypatch.chdir(tmp_path)
    scipy.io.mmwrite("A.mtx", matrix().tocoo())
    scipy.sparse.save_npz("A.npz", matrix().tocsr())


def test_info_says_what_is_in_a_result():
    density = sd.spectral_density(matrix(), num_steps=12, num_probes=2, rank=1)
    sd.save("density.npz", density)
    printed = run("info", "density.npz")
    assert printed.startswith("density.npz: Density, ")
    assert repr(density) in printed
    assert "written by specdens" in printed
    assert "outliers" in printed
    summary = json.loads(run("info", "density.npz", "--json"))
    assert summary["kind"] == "Density"
    assert summary["measure"]["num_steps"] == 12
    assert summary["measure"]["convergence"]["steps"] == density.measure.convergence().steps
    assert summary["outliers"]["values"] == density.outliers.values.tolist()


def cross(A):
    return sd.cross_measure(A, np.ones(A.shape[0]), np.arange(A.shape[0]))


@pytest.mark.parametrize(
    "make", [sd.fast_lanczos, sd.kpm, lambda A: sd.top_eigenpairs(A, rank=2), cross, lambda A: cross(A).density()]
)
def test_info_of_every_kind(make):
    result = make(matrix())
    sd.save("result.npz", result)
    assert repr(result) in run("info", "result.npz")
    assert json.loads(run("info", "result.npz", "--json"))["kind"] == type(result).__name__


@pytest.mark.parametrize("command", [["info"], ["plot", "-o", "out.png"]])
def test_what_is_no_result_is_refused(command):
    assert "A.npz was not written by sd.save" in fail(1, *command, "A.npz")
    assert "A.mtx is not an .npz file" in fail(1, *command, "A.mtx")


def test_a_signed_measure_is_not_drawn_as_a_density():
    sd.save("cross.npz", cross(matrix()))
    assert "holds a signed measure" in fail(1, "plot", "cross.npz", "-o", "out.png")


def save_results():
    A = matrix()
    sd.save("density.npz", sd.spectral_density(A, num_steps=12, rank=1))
    sd.save("measure.npz", sd.fast_lanczos(A, num_steps=12))
    sd.save("moments.npz", sd.kpm(A, num_moments=20))
    sd.save("pairs.npz", sd.top_eigenpairs(A, rank=2))


@pytest.mark.slow
def test_plot_draws_one_or_several_results():
    save_results()
    run("plot", "density.npz", "-o", "one.png", "-o", "one.svg")
    run("plot", "density.npz", "measure.npz", "moments.npz", "-o", "several.png")
    for name in ("one.png", "several.png"):
        with open(name, "rb") as file:
            assert file.read(4) == b"\x89PNG"
    with open("one.svg", encoding="utf-8") as file:
        assert "</svg>" in file.read()


def test_plot_draws_anew_without_a_product():
    save_results()
    run("plot", "measure.npz", "--function", "log", "-o", "log.npz")
    assert sd.load("log.npz").axis == "log(|λ| + ε)"
    run("plot", "density.npz", "--kernel", "jackson", "--points", 99, "-o", "jackson.npz")
    again = sd.load("jackson.npz")
    assert again.grid.size == 99
    assert again.outliers.rank == 1


def test_a_picture_of_several_names_what_tells_them_apart():
    names = ["r-Hess-train.npz", "r-G-train.npz", "r-H-train.npz"]
    for name in names:
        sd.save(name, sd.fast_lanczos(matrix(), num_steps=5))
    run("plot", *names, "--log-y", "-o", "out.svg")
    assert names_apart([Path(name) for name in names]) == ["Hess", "G", "H"]
    assert names_apart([Path("a/run.npz"), Path("b/run.npz")]) == ["a/run.npz", "b/run.npz"]
    assert names_apart([Path("run.npz"), Path("run-2.npz")]) == ["run", "run-2"]
    assert names_apart([Path("run.npz"), Path("run.npz")]) == ["run.npz (1)", "run.npz (2)"]
    assert names_apart([Path("density-log.npz")]) == ["density-log"]


def test_densities_on_different_axes_are_not_drawn_together():
    save_results()
    run("plot", "measure.npz", "--function", "log", "-o", "log.npz")
    line = fail(1, "plot", "density.npz", "log.npz", "-o", "out.png")
    assert "must have the same axis; got density: λ, log: log(|λ| + ε)" in line


def test_plot_refuses_what_it_cannot_draw():
    save_results()
    assert "pairs.npz: holds eigenpairs, which have no density" in fail(1, "plot", "pairs.npz", "-o", "out.png")
    assert "hold one density: give one RESULT" in fail(2, "plot", "density.npz", "measure.npz", "-o", "out.csv")
    assert "density.npz would overwrite the input" in fail(2, "plot", "density.npz", "-o", "density.npz")
    assert "--kappa is the width of --kernel gaussian" in fail(2, "plot", "moments.npz", "--kappa", 2, "-o", "out.png")


@pytest.mark.slow
def test_a_symmetric_log_axis_can_be_asked_for():
    pytest.importorskip("matplotlib")
    eigenvalues = np.concatenate([np.linspace(-0.1, 0.1, 200), [30.0, -20.0]])
    sd.save("wide.npz", sd.fast_lanczos(np.diag(eigenvalues), num_steps=40).density())
    run("plot", "wide.npz", "--x", "symlog", "--log-y", "-o", "wide.svg")
    symlog = Path("wide.svg").read_text(encoding="utf-8")
    run("plot", "wide.npz", "--log-y", "-o", "wide.svg")
    assert len(symlog) > 10_000
    assert symlog != Path("wide.svg").read_text(encoding="utf-8")
    np.save("wide.npy", np.diag(eigenvalues))
    for options in (["--x", "symlog", "--log-y"], ["--log-y"], []):
        run("density", "wide.npy", *options, "-o", f"{len(options)}.svg")
    pictures = {Path(f"{k}.svg").read_text(encoding="utf-8") for k in (0, 1, 3)}
    assert len(pictures) == 3
    for command in (["plot", "wide.npz"], ["density", "wide.npy"]):
        line = fail(2, *command, "--x", "symlog", "--function", "log", "-o", "out.svg")
        assert "--x symlog goes with densities of λ" in line
