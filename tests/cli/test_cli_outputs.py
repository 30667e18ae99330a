"""The command line: outputs before words, each on its own, whatever becomes of the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from command_line import fail, invoke, matrix, run

import specdens as sd
import specdens._storage.atomic_write as atomic_write

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of one's own, with a matrix."""
    monkeypatch.chdir(tmp_path)
    scipy.sparse.save_npz("A.npz", matrix().tocsr())


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command line in a shell; ``specdens`` is the one of this Python."""
    script = f'specdens() {{ "{sys.executable}" -m specdens "$@"; }}\n{command}'
    return subprocess.run(["bash", "-c", script], capture_output=True, check=False, env={**os.environ, **environment})


@pytest.mark.slow
def test_a_reader_that_leaves_early_loses_no_output():
    done = shell("set -o pipefail; specdens density A.npz -o r.npz -o r.csv | head -1")
    assert done.returncode == 0, done.stderr
    assert isinstance(sd.load("r.npz"), sd.Density)
    assert os.path.exists("r.csv")
    assert done.stderr == b""


@pytest.mark.slow
def test_a_reader_that_has_left_before_the_first_word_loses_no_output():
    shell("specdens density A.npz -o r.npz | true")
    assert isinstance(sd.load("r.npz"), sd.Density)


@pytest.mark.slow
def test_a_full_standard_output_is_said_when_all_is_written():
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    done = shell("specdens density A.npz -o r.npz -o r.csv > /dev/full")
    assert done.returncode == 4
    assert b"Error: standard output: No space left on device. All outputs are written." in done.stderr
    assert isinstance(sd.load("r.npz"), sd.Density)
    assert os.path.exists("r.csv")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_terminal_without_greek_letters_loses_no_output(encoding):
    done = shell("specdens density A.npz -o r.npz", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert b"Density per unit \\u03bb" in done.stdout
    assert isinstance(sd.load("r.npz"), sd.Density)


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", ">&- 2>&- <&-"])
def test_closed_standard_files_do_not_end_a_run(closed):
    done = shell(f"specdens density A.npz -o r.npz --checkpoint c.npz {closed}")
    assert done.returncode == 0
    assert isinstance(sd.load("r.npz"), sd.Density)


def test_a_closed_stderr_does_not_end_a_run_of_python(monkeypatch):
    for stream in (None, open(os.devnull, "w")):  # noqa: SIM115
        if stream is not None:
            stream.close()
        monkeypatch.setattr(sys, "stderr", stream)
        for progress in (None, True):
            density = sd.spectral_density(np.diag(np.arange(9.0)), num_steps=4, progress=progress)
            assert density.measure.num_steps == 4


@pytest.mark.slow
def test_a_dollar_sign_in_a_name_is_no_formula():
    os.rename("A.npz", "price_$x^_$.npz")
    run("density", "price_$x^_$.npz", "-o", "r.png", "-o", "r.npz")
    os.rename("r.npz", "$a_$b.npz")
    run("plot", "$a_$b.npz", "-o", "one.svg")
    sd.save("$\\frac$c.npz", sd.load("$a_$b.npz"))
    run("plot", "$a_$b.npz", "$\\frac$c.npz", "-o", "two.svg")
    assert all(os.path.getsize(picture) for picture in ("r.png", "one.svg", "two.svg"))


def test_one_output_that_fails_leaves_the_others_and_is_named(monkeypatch):
    os.mkdir("full")
    whole = atomic_write.os.open

    def full(path, *rest):
        if "full" in os.fspath(path):
            raise OSError(28, "No space left on device")
        return whole(path, *rest)

    monkeypatch.setattr(atomic_write.os, "open", full)
    code, out, err = invoke("density", "A.npz", "-o", "full/r.npz", "-o", "r.csv", "-o", "r.npz")
    assert code == 3
    assert err == "Error: full/r.npz: No space left on device\n"
    assert "Wrote r.csv" in out
    assert "Wrote r.npz" in out
    assert isinstance(sd.load("r.npz"), sd.Density)


@pytest.mark.parametrize(
    "option", [("--kappa", "nan"), ("--kappa", "inf"), ("--tol", "nan"), ("--checkpoint-interval", "nan")]
)
def test_nonsense_is_refused_before_the_run(option):
    assert "is not a finite number" in fail(2, "density", "A.npz", "-o", "r.npz", *option)


@pytest.mark.filterwarnings("default")
def test_a_picture_that_cannot_be_drawn_does_not_cost_the_result(monkeypatch):
    monkeypatch.setattr("specdens._cli.options.Drawing.redraw", lambda *_: 1 / 0)
    code, _, err = invoke("density", "A.npz", "-o", "r.npz", "--points", "50")
    assert code == 0
    assert "Warning: it cannot be drawn as asked for" in err
    assert isinstance(sd.load("r.npz"), sd.Density)


def test_escapes_in_metadata_do_not_reach_the_terminal():
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc"
    density = replace(sd.spectral_density(np.diag([1.0, 2.0, 3.0])), notes=(evil,), axis=evil, kernel=evil)
    sd.save("evil.npz", density)
    printed = run("info", "evil.npz")
    assert "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202eabc" in printed
    for text in (printed, repr(sd.load("evil.npz"))):
        assert not any(char in text for char in "\x1b\x07\x9b\u202e")


def test_escapes_in_names_of_files_do_not_reach_the_terminal():
    os.rename("A.npz", "\x1b[31mA.npz")
    code, out, err = invoke("density", "\x1b[31mA.npz", "--rank", "99")
    assert code == 1
    assert "\x1b" not in out + err
