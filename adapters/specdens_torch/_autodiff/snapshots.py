"""Snapshots of one object each: its attributes or its entries, to compare with and to go back to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from operator import is_
from types import CellType, FunctionType
from typing import Any, Protocol

# Values of these types are the same if they are equal; any others if they are identical.
_VALUES = frozenset({int, float, complex, str, bytes, tuple})
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
_LONG = 1000
_MISSING = object()


class Snapshot(Protocol):
    """What an object held at some time."""

    def values(self) -> Iterable[Any]:
        """Return what it referred to."""

    def is_same(self) -> bool:
        """Return whether it still refers to the same."""

    def restore(self) -> None:
        """Let it refer to what it did."""


class Items:
    """The entries of a dict, read and written past what a subclass may define."""

    def __init__(self, owner: dict[Any, Any], kind: type[dict[Any, Any]]) -> None:
        self._owner, self._kind = owner, kind
        self._saved = dict(kind.items(owner))

    def values(self) -> Iterable[Any]:
        return self._saved.values()

    def is_same(self) -> bool:
        return _same_dict(self._owner, self._saved, self._kind)

    def restore(self) -> None:
        self._kind.clear(self._owner)
        for key, value in self._saved.items():
            self._kind.__setitem__(self._owner, key, value)


class Attributes:
    """The attributes in the ``__dict__`` of an object."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._saved = dict(vars(owner))

    def values(self) -> Iterable[Any]:
        return self._saved.values()

    def is_same(self) -> bool:
        return _same_dict(vars(self._owner), self._saved, dict)

    def restore(self) -> None:
        place = vars(self._owner)
        place.clear()
        place.update(self._saved)


class Sequence:
    """The entries of a list or a deque."""

    def __init__(self, owner: Any, kind: type[list[Any]] | type[deque[Any]]) -> None:
        self._owner, self._kind = owner, kind
        self._saved = list(kind.__iter__(owner))
        # long lists of numbers are compared at once
        self._is_plain = type(owner) is list and len(owner) > _LONG and set(map(type, owner)) <= _PLAIN

    def values(self) -> Iterable[Any]:
        return () if self._is_plain else self._saved

    def is_same(self) -> bool:
        kind, saved, now = self._kind, self._saved, self._owner
        if kind.__len__(now) != len(saved):
            return False
        if self._is_plain and _is_plain_equal(now, saved):
            return True
        return all(map(is_, kind.__iter__(now), saved)) or all(map(_same, kind.__iter__(now), saved))

    def restore(self) -> None:
        self._kind.clear(self._owner)
        self._kind.extend(self._owner, self._saved)


class Members:
    """The members of a set."""

    def __init__(self, owner: set[Any]) -> None:
        self._owner, self._saved = owner, frozenset(owner)

    def values(self) -> Iterable[Any]:
        return self._saved

    def is_same(self) -> bool:
        return self._saved == self._owner

    def restore(self) -> None:
        set.clear(self._owner)
        set.update(self._owner, self._saved)


class _Several(ABC):
    """A fixed number of variables, each of which may be without a value."""

    def __init__(self) -> None:
        self._saved = self._current()

    @abstractmethod
    def _current(self) -> list[Any]:
        """Return their values now, `_MISSING` for one that has none."""

    def values(self) -> Iterator[Any]:
        return (value for value in self._saved if value is not _MISSING)

    def is_same(self) -> bool:
        return _all_same(self._current(), self._saved)


class Slots(_Several):
    """The attributes of an object that are declared in ``__slots__``."""

    def __init__(self, owner: Any, names: list[str]) -> None:
        self._owner, self._names = owner, names
        super().__init__()

    def _current(self) -> list[Any]:
        return [getattr(self._owner, name, _MISSING) for name in self._names]

    def restore(self) -> None:
        for name, value in zip(self._names, self._saved, strict=True):
            if value is not _MISSING:
                object.__setattr__(self._owner, name, value)
            elif hasattr(self._owner, name):
                object.__delattr__(self._owner, name)


class ClassAttributes:
    """The attributes of a class itself, without those that Python makes."""

    def __init__(self, owner: type) -> None:
        self._owner = owner
        self._saved = dict(vars(owner))

    def values(self) -> Iterator[Any]:
        return (
            value for name, value in self._saved.items() if not _is_special(name) and type(value) is not FunctionType
        )

    def is_same(self) -> bool:
        now = vars(self._owner)
        return (len(now) == len(self._saved) and all(map(is_, now.values(), self._saved.values()))) or not any(
            self._differences()
        )

    def _differences(self) -> Iterator[tuple[str, Any]]:
        """Yield names and former values of attributes that are others now."""
        now = vars(self._owner)
        for name in {*now, *self._saved}:
            former = self._saved.get(name, _MISSING)
            if not _is_special(name) and not _same(now.get(name, _MISSING), former):
                yield name, former

    def restore(self) -> None:
        for name, former in list(self._differences()):
            if former is _MISSING:
                delattr(self._owner, name)
            else:
                setattr(self._owner, name, former)


class Variables(_Several):
    """Some global variables of a Python module."""

    def __init__(self, namespace: dict[str, Any], names: list[str]) -> None:
        self._namespace, self._names = namespace, names
        super().__init__()

    def _current(self) -> list[Any]:
        return [self._namespace.get(name, _MISSING) for name in self._names]

    def restore(self) -> None:
        for name, value in zip(self._names, self._saved, strict=True):
            if value is not _MISSING:
                self._namespace[name] = value


class Cells(_Several):
    """The variables that a function has closed over."""

    def __init__(self, cells: tuple[CellType, ...]) -> None:
        self._cells = cells
        super().__init__()

    def _current(self) -> list[Any]:
        return [_contents(cell) for cell in self._cells]

    def restore(self) -> None:
        for cell, value in zip(self._cells, self._saved, strict=True):
            if value is not _MISSING:
                cell.cell_contents = value


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return _MISSING


def _is_special(name: str) -> bool:
    return (name.startswith("__") and name.endswith("__")) or name == "_abc_impl"


def _same_dict(now: dict[Any, Any], saved: dict[Any, Any], kind: type[dict[Any, Any]]) -> bool:
    if dict.__len__(now) != len(saved):
        return False
    if not saved:
        return True
    values = kind.values(now)
    return kind.keys(now) == saved.keys() and (
        all(map(is_, values, saved.values())) or all(map(_same, values, saved.values()))
    )


def _all_same(now: list[Any], saved: list[Any]) -> bool:
    """Return whether entries are the same, one by one; both are as long."""
    return all(map(is_, now, saved)) or all(map(_same, now, saved))


def _is_plain_equal(now: list[Any], saved: list[Any]) -> bool:
    try:
        return bool(now == saved)
    except (TypeError, ValueError, RuntimeError):  # something else in the place of a number
        return False


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b) or type(a) not in _VALUES:
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)
