"""The law of public docstrings: parameters have types or refer to another function, and results are described."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any


def check_parameters(documented: Callable[..., Any]) -> None:
    """Check that the docstring of a function or class gives every parameter a type, or says where it is described."""
    text = inspect.getdoc(documented)
    for name in inspect.signature(documented).parameters:
        if name not in ("self", "cls"):
            names = rf"^([\w, *]+, )?\*?{name}(, [\w, ]+)?"
            assert re.search(rf"{names}( : .+|\n    .*[Aa]s (for|in) `)", text, re.MULTILINE), name


def check_docstring(function: Callable[..., Any]) -> None:
    """Check the parameters of a function, and that its docstring says what it returns."""
    check_parameters(function)
    is_described = "Returns\n-------" in inspect.getdoc(function)
    assert is_described or inspect.signature(function).return_annotation in (None, "None")
