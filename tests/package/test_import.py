"""What `import specdens` brings in, and what it offers."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest
from docstrings import check_docstring

import specdens as sd

CONTRACT = (
    "LinearOperator",
    "as_operator",
    "check_operator",
    "fast_lanczos",
    "slow_lanczos",
    "kpm",
    "spectral_bounds",
    "normalize",
    "subspace_iteration",
    "top_eigenpairs",
    "deflate",
    "spectral_density",
)


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("work", ["", "sd.fast_lanczos([[1.0, 0.0], [0.0, 2.0]]).density()"], ids=["import", "use"])
def test_importing_and_using_specdens_imports_no_optional_library(work):
    optional = ("torch", "matplotlib", "jax", "numba", "sklearn", "cupy", "array_api_strict", "specdens_torch")
    loaded = run(f"import sys, specdens as sd; {work or 'pass'}; print(*sorted(sys.modules))").split()
    assert "specdens" in loaded
    assert not set(optional) & set(loaded)


@pytest.mark.slow
def test_importing_specdens_warns_of_nothing_and_prints_nothing():
    assert run("import warnings; warnings.simplefilter('error'); import specdens") == ""


OPTIONAL = {"click", "jax", "matplotlib", "mpl_toolkits", "msvcrt", "numba", "sklearn", "specdens_torch", "torch"}
ROOT = pathlib.Path(sd.__file__).parent


def imports_within_functions(path):
    """Return the modules that the functions of a file import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    nodes = [inner for function in functions for inner in ast.walk(function)]
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    return modules | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


def test_functions_import_optional_libraries_only():
    found = {
        (path.relative_to(ROOT).as_posix(), module)
        for path in ROOT.rglob("*.py")
        for module in imports_within_functions(path)
        if module.split(".")[0] not in OPTIONAL
    }
    # tqdm.auto may warn at import; the command line needs click, and says so where it is missing
    command_line = {("_cli/__init__.py", "specdens._cli.app"), ("_cli/__init__.py", "specdens._cli.terminal")}
    assert found == {("_running/progress.py", "tqdm.auto")} | command_line


def test_all_is_sorted_without_repetition():
    assert list(sd.__all__) == sorted(set(sd.__all__))


def test_all_is_complete():
    def ours(value):
        home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
        return home.split(".")[0] == "specdens"

    public = {name for name, value in vars(sd).items() if not name.startswith("_") and ours(value)}
    assert public | {"OperatorLike"} == {name for name in sd.__all__ if not name.startswith("_")}  # a type alias


@pytest.mark.parametrize("name", CONTRACT)
def test_every_name_of_the_contract_is_exported_and_documented(name):
    assert name in sd.__all__
    assert getattr(sd, name).__doc__


def test_results_of_the_contract_have_the_names_that_scripts_rely_on():
    measure = sd.fast_lanczos([[1.0, 0.5], [0.5, 2.0]])
    density = measure.density()
    for name in (
        *("alphas", "betas", "nodes", "weights", "density", "log_density", "density_of", "cdf", "cdf_bounds"),
        *("quantile", "count", "trace", "convergence"),
    ):
        assert hasattr(measure, name), name
    for name in ("grid", "values", "stderr", "axis", "plot", "atoms", "mass", "mass_outside", "cdf", "measure"):
        assert hasattr(density, name), name
    assert sd.spectral_bounds([[1.0]])._fields == ("lo", "hi")
    assert measure.trace(abs)._fields == ("value", "stderr")


def test_dir_shows_the_public_names_only():
    assert dir(sd) == sorted(sd.__all__)


def test_the_version_stands_in_one_place():
    root = pathlib.Path(__file__).parents[2]
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert sd.__version__ == version
    assert f"\nversion: {version}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")


PUBLIC = {f"sd.{name}": getattr(sd, name) for name in sd.__all__} | {
    f"sd.analysis.{name}": getattr(sd.analysis, name) for name in sd.analysis.__all__
}


def signatures():
    """Return the annotations of every public function and of the public methods of every public class, by name."""
    found = {}
    for name, value in PUBLIC.items():
        members = vars(value).items() if inspect.isclass(value) else [("", value)]
        for member, function in members:
            if inspect.isfunction(function) and (not member.startswith("_") or member == "__init__"):
                found[f"{name}.{member}".strip(".")] = " ".join(map(str, function.__annotations__.values()))
    return found


def test_every_type_of_a_public_signature_can_be_imported():
    """Names of this package in annotations; those of the standard library and of NumPy have their own homes."""
    elsewhere = {"Any", "ArrayLike", "Callable", "Iterable", "Iterator", "Literal", "Mapping", "NDArray", "None"}
    elsewhere |= {"PathLike", "Sequence", "Self", "Path"}
    exported = {*sd.__all__, *sd.analysis.__all__, *sd.adapters.__all__, *sd.typing.__all__} | elsewhere
    missing = {
        (name, each)
        for name, text in signatures().items()
        for each in re.findall(r"(?<![\w\"'])[A-Z]\w+", re.sub(r"Literal\[[^]]*\]", "", text))
        if each not in exported
    }
    assert not missing
    assert list(sd.typing.__all__) == sorted(sd.typing.__all__)
    assert all(hasattr(sd.typing, name) for name in sd.typing.__all__)


RESULTS = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
RESULTS = {
    name: kind
    for name, kind in RESULTS.items()
    if re.match(r"specdens\._(measure|density|distributions|analysis|eigenpairs|running\.progress)\.?", kind.__module__)
}


@pytest.mark.parametrize("name", RESULTS)
def test_help_shows_the_fields_of_results(name):
    kind = RESULTS[name]
    fields = getattr(kind, "_fields", None) or tuple(getattr(kind, "__dataclass_fields__", ()))
    for field in fields:
        assert re.search(rf"^ *([\w, ]+, )?{field}(, [\w, ]+)? : ", inspect.getdoc(kind), re.MULTILINE), field


# methods of results that algorithms call, not users
INTERNAL = {"within", "shortened", "from_recurrences", "chebyshev_moments", "state", "from_state"}
INTERNAL |= {"as_smooth", "at_resolution_of_run"}


def public_functions():
    """Return all public functions, and the methods of results, by name."""
    found = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
    for owner, kind in RESULTS.items():
        members = {name: getattr(kind, name) for name in vars(kind) if not name.startswith("_")}
        found |= {f"{owner}.{name}": each for name, each in members.items() if callable(each) and name not in INTERNAL}
    return found


@pytest.mark.parametrize("name", public_functions())
def test_docstrings_name_every_parameter_with_its_type_and_what_is_returned(name):
    check_docstring(public_functions()[name])


@pytest.mark.parametrize("module", [sd, sd.analysis], ids=lambda module: module.__name__)
def test_every_public_class_and_function_shows_an_example(module):
    public = {name: getattr(module, name) for name in module.__all__}
    shown = {name for name, value in public.items() if inspect.isclass(value) or inspect.isfunction(value)}
    assert [name for name in sorted(shown) if "Examples\n" not in (public[name].__doc__ or "")] == []
