"""Running the command line in tests: it works, or it fails with one line."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("click")
from click.testing import CliRunner

from specdens._cli.app import app

N = 40


def matrix():
    """Return a symmetric tridiagonal matrix."""
    return scipy.sparse.diags_array([np.ones(N - 1), np.arange(N) / 10, np.ones(N - 1)], offsets=[-1, 0, 1])


def invoke(*arguments):
    """Run the command; return its exit code, what it printed and what it complained of."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="specdens")
    return result.exit_code, result.stdout, result.stderr


def run(*arguments):
    """Run the command, which must work without a complaint; return what it printed."""
    code, out, err = invoke(*arguments)
    assert code == 0, err
    assert err == ""
    return out


def fail(code, *arguments):
    """Run the command, which must fail with one line and leave no file behind; return the line."""
    before = sorted(os.listdir())
    seen, out, err = invoke(*arguments)
    assert seen == code, err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in out
    assert sorted(os.listdir()) == before
    return err
