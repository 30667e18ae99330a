"""What specdens says when something is wrong, and the checks that several modules share."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


def as_count(name: str, value: Any, *, minimum: int = 1, maximum: int | None = None, limit: str = "") -> int:
    """Return `value` as an int within [minimum, maximum], or say which argument is wrong."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"`{name}` must be an integer; got {value!r}") from None
    if count < minimum:
        raise ValueError(f"`{name}` must be at least {minimum}; got {count}")
    if maximum is not None and count > maximum:
        raise ValueError(f"`{name}` must be at most {limit or 'the dimension'} ({maximum}); got {count}")
    return count


def as_seed(value: Any) -> int:
    """Return `value` as a seed."""
    if value is None:
        raise TypeError("`seed` must be an integer; got None. The same seed gives the same result; take 0, 1, …")
    return as_count("seed", value, minimum=0)


def as_positive(name: str, value: Any, *, remedy: str = "") -> float:
    """Return `value` as a positive finite float."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a number; got {value!r}") from None
    if not 0 < number < float("inf"):
        raise ValueError(f"`{name}` must be positive and finite; got {number:g}.{' ' + remedy if remedy else ''}")
    return number


def as_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}; got {value!r}")
    return str(value)


def named_as(public: str) -> Callable[[Class], Class]:
    """Let the methods of a class that is part of a public one call themselves by that one's name in Python's errors."""

    def rename(part: Class) -> Class:
        for name, member in vars(part).items():
            if isinstance(member, FunctionType):
                for function in (member, inspect.unwrap(member)):
                    function.__qualname__ = f"{public}.{name}"
        return part

    return rename
