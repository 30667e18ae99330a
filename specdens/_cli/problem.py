"""A problem of one's own: a Python file whose ``problem()`` returns model, loss and data."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from specdens._cli.failures import one_line

RETURNS = (
    "(model, loss, train), (model, loss, train, test) or a dict with the keys model, loss, train (or data) and, if "
    "wanted, test, params, forward, reduction, count"
)
_OPTIONS = ("params", "forward", "reduction", "count")


@dataclass(frozen=True)
class Problem:
    """What a network's curvature is taken of."""

    model: Any
    loss: Any
    splits: Mapping[str, Any]
    """The data, under "train" and perhaps "test"."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else `specdens_torch.Curvature` takes."""


def load_problem(path: Path, options: Mapping[str, Any] | None = None) -> Problem:
    """Run a problem file and return what its ``problem(**options)`` returns, or say what is wrong in which line."""
    module = ModuleType(f"specdens_problem_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # for those of its classes and functions that look themselves up
    sys.path.insert(0, str(path.parent.resolve()))  # as for a script: it may import its neighbours, now and later
    with failures_of(path):
        exec(compile(path.read_bytes(), path, "exec"), vars(module))
    make = getattr(module, "problem", None)
    if not callable(make):
        raise ValueError(f"{path}: must define a function problem() that returns {RETURNS}")
    with failures_of(path):
        returned = make(**(options or {}))
    return _as_problem(path, returned)


@contextmanager
def failures_of(path: Path) -> Iterator[None]:
    """Name the file, and the line if it is in there, with what is raised."""
    try:
        yield
    except (Exception, SystemExit) as error:
        line = _line(path, error)
        where = f"{path}, line {line}: {_describe(error)}" if line else f"{path}: {one_line(error)}"
        raise ValueError(where) from error


def _as_problem(path: Path, returned: Any) -> Problem:
    if isinstance(returned, tuple) and len(returned) in (3, 4):
        model, loss, *data = returned
        return Problem(model, loss, dict(zip(("train", "test"), data, strict=False)))
    if not isinstance(returned, Mapping):
        size = f" of length {len(returned)}" if isinstance(returned, tuple) else ""
        raise ValueError(f"{path}: problem() must return {RETURNS}; got a {type(returned).__name__}{size}")
    found = dict(returned)
    if "data" in found and "train" not in found:
        found["train"] = found.pop("data")
    unknown = found.keys() - {"model", "loss", "train", "test", *_OPTIONS}
    missing = {"model", "loss", "train"} - found.keys()
    if unknown or missing:
        raise ValueError(f"{path}: problem() must return {RETURNS}; got the keys {', '.join(map(str, returned))}")
    splits = {name: found[name] for name in ("train", "test") if found.get(name) is not None}
    return Problem(found["model"], found["loss"], splits, {name: found[name] for name in _OPTIONS if name in found})


def _line(path: Path, error: BaseException) -> int | None:
    """Return the last line of the file that was running when the exception was raised."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


def _describe(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
