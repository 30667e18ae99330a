"""What specdens says when something is wrong, and the checks that several modules share."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


def as_count(name: str, value: Any, *, minimum: int = 1, maximum: int | None = None, limit: str = "") -> int:
    """Return `value` as an int within [minimum, maximum], or say which argument is wrong.

    Parameters
    ----------
    name : str
        The name of the argument, for the message.
    value : object
        What was passed.
    minimum, maximum : int, optional
        The least and the largest value that is allowed; no maximum by default.
    limit : str
        What the maximum is, in words; by default "the dimension".

    Returns
    -------
    int
        The value.

    Raises
    ------
    TypeError, ValueError
        If it is no integer, or outside the limits.

    Examples
    --------
    >>> import numpy as np
    >>> from specdens.adapters import as_count
    >>> as_count("rank", np.int64(3), maximum=10)
    3
    >>> as_count("rank", 11, maximum=10)
    Traceback (most recent call last):
    ...
    ValueError: `rank` must be at most the dimension (10); got 11
    """
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
    """Return `value` as a positive finite float, or say which argument is wrong.

    Parameters
    ----------
    name : str
        The name of the argument, for the message.
    value : object
        What was passed.
    remedy : str
        A sentence for the end of the message.

    Returns
    -------
    float
        The value.

    Raises
    ------
    TypeError, ValueError
        If it is no number, or not positive and finite.

    Examples
    --------
    >>> from specdens.adapters import as_positive
    >>> as_positive("tol", 1)
    1.0
    >>> as_positive("tol", 0.0, remedy="Take 1e-6.")
    Traceback (most recent call last):
    ...
    ValueError: `tol` must be positive and finite; got 0. Take 1e-6.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a number; got {value!r}") from None
    if not 0 < number < float("inf"):
        raise ValueError(f"`{name}` must be positive and finite; got {number:g}.{' ' + remedy if remedy else ''}")
    return number


def as_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`, or say which argument is wrong.

    Parameters
    ----------
    name : str
        The name of the argument, for the message.
    value : object
        What was passed.
    choices : tuple of str
        What may be passed.

    Returns
    -------
    str
        The value.

    Raises
    ------
    ValueError
        If it is none of them.

    Examples
    --------
    >>> from specdens.adapters import as_choice
    >>> as_choice("matrix", "G", ("Hess", "G", "H"))
    'G'
    >>> as_choice("matrix", "F", ("Hess", "G", "H"))
    Traceback (most recent call last):
    ...
    ValueError: `matrix` must be one of Hess, G, H; got 'F'
    """
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
