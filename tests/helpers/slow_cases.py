"""Cases of a parametrized test of which the fast loop runs a few."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_after(number: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases, marked as slow from the one with this number on."""
    return [case if i < number else _slow(case) for i, case in enumerate(cases)]


def slow_except(fast: Collection[str], names: Iterable[str]) -> list[Any]:
    """Return the names, marked as slow but for those of the fast loop."""
    return [name if name in fast else _slow(name) for name in names]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
