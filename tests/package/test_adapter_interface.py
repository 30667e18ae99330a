"""The interface for adapters: documented, complete, and the example of its page runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from docstrings import check_docstring

import specdens as sd
from specdens import adapters

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "write_an_adapter.md"


def run_example():
    """Run the page's example, and return what it prints and the names that it defines."""
    code, printed = re.findall(r"```(?:python|text)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names, out = {}, io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, PAGE.name, "exec"), names)
    return code, printed, out.getvalue(), names


@pytest.mark.slow
def test_the_example_of_the_page_prints_what_the_page_says():
    _, printed, found, _ = run_example()
    assert found == printed


@pytest.mark.slow
def test_the_example_imports_public_names_only():
    code, *_ = run_example()
    modules = set(re.findall(r"^(?:from|import) (\S+)", code, flags=re.MULTILINE))
    assert modules == {"numpy", "specdens", "specdens.adapters"}


@pytest.mark.slow
def test_the_example_gives_the_spectrum_of_the_matrix():
    *_, names = run_example()
    X = np.random.default_rng(1).standard_normal((60, 20))
    A = names["Covariance"](X)
    np.testing.assert_allclose(A @ np.eye(60), X @ X.T / 20, atol=1e-12)
    exact = np.linalg.eigvalsh(X @ X.T / 20)
    density = sd.spectral_density(A, rank=3)
    pairs = density.outliers
    np.testing.assert_allclose(pairs.values, exact[::-1][:3])
    np.testing.assert_allclose(A @ pairs.vectors, pairs.vectors * pairs.values, atol=1e-6 * exact[-1])
    assert round(density.measure.count(-1e-9, 1e-9).value, 6) == 40
    # 17 steps exhaust what is left of the samples' space: every eigenvalue is a node
    np.testing.assert_allclose(density.measure.nodes[0], exact[40:57], rtol=1e-6)


# what an operator has but does not override
FIXED = {"shape", "vectors", "dtype", "device", "combination_type", "shifted"}
HOOKS = sorted(name for name in vars(sd.Operator) if not name.startswith("_") and name not in FIXED)


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_has_a_full_docstring_and_a_row_on_the_page(name):
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert any(re.search(rf"`{name}[`(]", row.split("|")[1]) for row in rows)
    hook = getattr(sd.Operator, name)
    if callable(hook):
        check_docstring(hook)
    elif isinstance(hook, property):
        assert hook.__doc__


@pytest.mark.parametrize("name", HOOKS)
def test_a_wrapper_forwards_every_hook(name):
    assert name in vars(sd.Wrapper)


def test_every_name_of_the_interface_is_documented():
    assert list(adapters.__all__) == sorted(adapters.__all__)
    assert all(getattr(adapters, name).__doc__ for name in adapters.__all__ if name != "Array")
    for name in ("Operator", "Atoms", "EigenPairs", "LinearOperator"):
        assert getattr(adapters, name) is getattr(sd, name)
