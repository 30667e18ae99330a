"""Former ways to call public functions: they still work and warn."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def warn_deprecated(message: str, *, stacklevel: int = 3) -> None:
    """Issue a DeprecationWarning for the caller of the deprecated function."""
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def deprecate_positional(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that accepts keyword-only parameters by position too, with a DeprecationWarning.

    Parameters
    ----------
    *names : str
        The keyword-only parameters, in the order in which they were once positional.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters.values()
        num_positional = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            extra = args[num_positional:]
            if not extra or len(extra) > len(names):
                return function(*args, **kwargs)
            by_name = dict(zip(names, extra, strict=False))
            warn_deprecated(f"pass {', '.join(f'`{name}`' for name in by_name)} by keyword")
            keywords = inspect.signature(function).bind_partial(**kwargs, **by_name).kwargs  # refuses repetitions
            return function(*args[:num_positional], **keywords)  # type: ignore[arg-type]

        return call

    return decorate


def resolve_renamed(old: str, old_value: bool | None, new: str, new_value: bool) -> bool:
    """Return the value of a parameter that was renamed, with a DeprecationWarning if the old name was used."""
    if old_value is None:
        return new_value
    warn_deprecated(f"`{old}` is deprecated; use `{new}`", stacklevel=4)
    return old_value
