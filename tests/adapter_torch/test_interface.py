"""The adapter is a guest: it imports public names only, and its own old names work on."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import specdens_torch as sdt
from docstrings import check_docstring, check_parameters

PACKAGE = Path(sdt.__file__).parent
PUBLIC = {"specdens", "specdens.adapters", "specdens.analysis"}


def imports_of(path):
    """Return (module, inside a function) of every import in a file."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    local = {id(inner) for node in functions for inner in ast.walk(node)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in local) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module, id(node) in local)]
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_file_of_the_adapter_imports_public_names_of_the_core_only(path):
    core = {module for module, _ in imports_of(path) if module.split(".")[0] == "specdens"}
    assert core <= PUBLIC
    optional = ("matplotlib", "transformers")
    assert not [module for module, local in imports_of(path) if local and module.split(".")[0] not in optional]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_evaluated_for_its_side_effect(path):
    dropped = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "_" for t in node.targets)
    ]
    assert not dropped


def test_the_old_module_is_a_deprecated_alias():
    from specdens_torch import curvature

    with pytest.warns(DeprecationWarning, match=r"specdens_torch\.curvature\.Curvature is deprecated"):
        assert curvature.Curvature is sdt.Curvature


def test_without_torch_the_import_names_the_extra():
    code = "import sys; sys.modules['torch'] = None\nimport specdens_torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: specdens_torch needs torch. Install the extra: pip install 'specdens[torch]'" in done.stderr


DOCUMENTED = {name: getattr(sdt, name) for name in sdt.__all__ if inspect.isfunction(getattr(sdt, name))} | {
    f"Curvature.{name}": value
    for name, value in inspect.getmembers(sdt.Curvature, inspect.isfunction)
    if name[0] != "_"
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_name_every_parameter_with_its_type_and_what_is_returned(name):
    check_docstring(DOCUMENTED[name])


def test_the_arguments_of_curvature_are_described_with_their_types():
    check_parameters(sdt.Curvature)
