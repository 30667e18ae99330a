"""Arithmetic with numbers that carry a standard error."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any, Generic, SupportsIndex, TypeVar, cast

import numpy as np

Result = TypeVar("Result")

_DIGITS = 10  # of a value whose error is smaller than all of them
# What `np.float64(2) * estimate` and the like call.
_OPERATORS: dict[Any, Any] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.true_divide: operator.truediv,
    np.negative: operator.neg, np.absolute: operator.abs, np.equal: operator.eq, np.not_equal: operator.ne,
    np.less: operator.lt, np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge,
}  # fmt: skip


class ErrorArithmetic(Generic[Result]):
    """Sums with numbers, multiples and quotients of a pair (value, stderr), for subclasses that are such tuples."""

    __slots__ = ()

    def _made(self, value: Any, stderr: Any) -> Result:
        """Return the result of an operation."""
        raise NotImplementedError

    def __add__(self, other: complex) -> Result:
        value, stderr = _pair(self)
        number = _as_number("+", other)
        return NotImplemented if number is None else self._made(value + number, stderr)

    def __radd__(self, other: complex) -> Result:
        return self + other

    def __sub__(self, other: complex) -> Result:
        value, stderr = _pair(self)
        number = _as_number("-", other)
        return NotImplemented if number is None else self._made(value - number, stderr)

    def __rsub__(self, other: complex) -> Result:
        value, stderr = _pair(self)
        number = _as_number("-", other)
        return NotImplemented if number is None else self._made(number - value, stderr)

    def __mul__(self, other: complex) -> Result:
        value, stderr = _pair(self)
        number = _as_number("*", other)
        return NotImplemented if number is None else self._made(value * number, stderr * abs(number))

    def __rmul__(self, other: complex) -> Result:
        return self * other

    def __truediv__(self, other: complex) -> Result:
        value, stderr = _pair(self)
        number = _as_number("/", other)
        return NotImplemented if number is None else self._made(value / number, stderr / abs(number))

    def __neg__(self) -> Result:
        value, stderr = _pair(self)
        return self._made(-value, stderr)

    def __pos__(self) -> Result:
        return self._made(*_pair(self))

    def __abs__(self) -> Result:
        value, stderr = _pair(self)
        return self._made(abs(value), stderr)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Leave arithmetic with NumPy's numbers to the operators; refuse functions, which know no error."""
        plain = [
            each.item() if isinstance(each, np.generic | np.ndarray) and not each.ndim else each for each in inputs
        ]
        simple = method == "__call__" and not options and not any(isinstance(each, np.ndarray) for each in plain)
        if simple and ufunc in _OPERATORS:
            return _OPERATORS[ufunc](*plain)
        raise TypeError(
            f"`np.{ufunc.__name__}` has no rule for the standard error of an estimate. Take its parts: "
            f"np.{ufunc.__name__} of `.value`, whose error is about |f′(value)| · `.stderr`."
        )


class NumberWithError(ErrorArithmetic[Result]):
    """One value and its error: converts, compares and prints as a number does."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return bool(_pair(self)[0])

    def __float__(self) -> float:
        return float(_pair(self)[0])

    def __int__(self) -> int:
        return int(_pair(self)[0])

    def __complex__(self) -> complex:
        return complex(_pair(self)[0])

    def __round__(self, ndigits: SupportsIndex | None = None) -> Any:
        value = _pair(self)[0]
        return round(value) if ndigits is None else round(value, ndigits)

    def __eq__(self, other: object) -> bool:
        return bool(_pair(self)[0] == other) if isinstance(other, numbers.Number) else tuple.__eq__(_pair(self), other)

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return hash(_pair(self)[0])

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> bool:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, operator.ge)

    def _compared(self, other: Any, relation: Any) -> bool:
        """Return how the value compares with a number, or with another value: an order is one of values."""
        if isinstance(other, NumberWithError):
            other = _pair(other)[0]
        return bool(relation(_pair(self)[0], other)) if isinstance(other, numbers.Number) else NotImplemented

    def __format__(self, spec: str) -> str:
        value, stderr = _pair(self)
        return f"{value:{spec}} ± {stderr:{spec}}" if spec else str(self)

    def __repr__(self) -> str:
        return format_error(*_pair(self))


def format_error(value: complex, stderr: float) -> str:
    """Return the value to the second digit of its error, but at most ten, and the error.

    Examples
    --------
    >>> format_error(84861.2, 262.7), format_error(12.0, 0.391), format_error(33.5600000001, 7.5e-12)
    ('84861 ± 263', '12.00 ± 0.39', '33.56 ± 7.5e-12')
    """
    if isinstance(value, complex):
        size = max(abs(value.real), abs(value.imag))
        real, imaginary = (_digits(part, stderr, size) for part in (value.real, abs(value.imag)))
        text = f"{real} {'-' if value.imag < 0 else '+'} {imaginary}j"
        return f"({text}) ± {_short(stderr)}"
    return f"{_digits(value, stderr, abs(value))} ± {_short(stderr)}"


def _digits(value: float, stderr: float, size: float) -> str:
    """Return a value of a number of this size to the second digit of the error, at most ten in all."""
    if not (0 < stderr < math.inf and math.isfinite(size)):
        return f"{value:.{_DIGITS}g}"
    place = 1 - math.floor(math.log10(float(f"{stderr:.1e}")))  # decimals that show two digits of the error
    leading = math.floor(math.log10(size)) + 1 if size > 0 else 0  # digits before the point
    if leading + place > _DIGITS:
        return f"{value:.{_DIGITS}g}"
    if -4 < leading <= _DIGITS and place < _DIGITS:
        return f"{value:.{max(0, place)}f}"
    return f"{value:.{max(0, leading + place - 1)}e}" if size > 0 else "0"


def _short(stderr: float) -> str:
    """Return an error to two digits, or to the unit."""
    return f"{stderr:.0f}" if stderr == 0 or 9.95 <= stderr < 10**_DIGITS else f"{stderr:#.2g}"


def _pair(self: object) -> tuple[Any, Any]:
    """Return the pair as a plain tuple."""
    return cast(tuple[Any, Any], tuple(cast(tuple[Any, Any], self)))


def _as_number(symbol: str, other: object) -> Any:
    """Return a number as Python has it, so that float32 does not narrow a value, or None for what is no number.

    A second estimate is refused: its errors may go with those of the first.
    """
    if isinstance(other, ErrorArithmetic):
        raise TypeError(
            f"estimates do not combine by `{symbol}`: errors that come from the same probes depend on each other. Take "
            "one trace, such as measure.trace(lambda x: f(x) + g(x)), or combine `.value` and `.stderr` by hand."
        )
    if isinstance(other, np.generic):
        other = other.item()
    return other if isinstance(other, numbers.Number) else None
