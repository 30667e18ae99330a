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


PRIVATE_NAMES = {
    "_BatchNorm": "layers of other packages derive from it",
    "_C": "DisableTorchFunction and peek_interpreter_stack: nothing public tells modes and transforms apart",
    "_current_level": "whether the model is in a forward mode of its own",
    "_forward_cls": "the class of a custom autograd function, from its node",
    "_forward_pre_hooks": "weight_norm, spectral_norm and pruning by hooks",
    "_functorch": "peek_interpreter_stack, see _C",
    "_non_persistent_buffers_set": "the buffers that are saved; state_dict tells too, but runs hooks",
    "_orig_mod": "the model that torch.compile wraps",
    "_python_dispatch": "TorchDispatchMode, which the documentation of torch imports from there",
    "_pytree": "keystr and tree_flatten_with_path: the names of the leaves of a batch",
    "_reparametrize_module": "functional_call as a context",
    "_tensor_name": "the tensor that a pruning hook computes",
    "_version": "whether a tensor was written to",
}
"""The private names of torch that the adapter uses, for which there is no public way."""


def private_names_of(path):
    """Return the names with one underscore that a file uses and the adapter does not define, but for namedtuples."""
    tree, found = ast.parse(path.read_text()), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and not node.module.startswith("specdens_torch"):
            found |= set(node.module.split("."))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr"):
            found |= {arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)}
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def defined_names_of(path):
    """Return the names of functions, classes and attributes that a file defines."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    stored = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    fields = [node for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return names | {node.attr for node in stored} | {node.target.id for node in fields}


def test_private_names_of_torch_are_those_without_a_public_way():
    files = sorted(PACKAGE.rglob("*.py"))
    defined = set().union(*map(defined_names_of, files)) | {"_fields", "_asdict", "_replace"}
    assert set().union(*map(private_names_of, files)) - defined == set(PRIVATE_NAMES)


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


def test_every_public_class_and_function_shows_an_example():
    public = {name: getattr(sdt, name) for name in sdt.__all__}
    shown = {name for name, value in public.items() if inspect.isclass(value) or inspect.isfunction(value)}
    assert [name for name in sorted(shown) if "Examples\n" not in (public[name].__doc__ or "")] == []
