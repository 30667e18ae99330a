"""Global variables that the functions of a model name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from specdens_torch._autodiff.object_state import is_left_out
from specdens_torch._autodiff.snapshots import Variables

_MAX_FUNCTIONS = 5000


def global_variables(functions: Iterable[Any]) -> list[Variables]:
    """Return the global variables that functions name, and those that the functions they call name, by namespace.

    Modules, classes and functions are none. Functions of torch and of Python's own modules are left out.
    """
    waiting = [f for f in functions if type(f) is FunctionType]
    seen: set[int] = set()
    found: dict[int, tuple[dict[str, Any], dict[str, None]]] = {}
    while waiting and len(seen) < _MAX_FUNCTIONS:
        function = waiting.pop()
        if id(function) in seen or is_left_out(function.__module__) or _is_of_torch(function):
            continue
        seen.add(id(function))
        namespace = function.__globals__
        for name in _names(function.__code__):
            value = namespace.get(name)
            if type(value) is FunctionType:
                waiting.append(value)
            elif name in namespace and not isinstance(value, ModuleType | type):
                found.setdefault(id(namespace), (namespace, {}))[1][name] = None
    return [Variables(namespace, list(names)) for namespace, names in found.values()]


def _is_of_torch(function: FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] in ("torch", "numpy", "specdens", "specdens_torch")


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names in a function and in the functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
