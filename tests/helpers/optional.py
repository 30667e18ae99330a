"""Libraries that tests use where they are installed."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


class Missing:
    """Stand-in for a library that is not installed: modules may name it, tests that use it are skipped."""

    def __init__(self, library: str) -> None:
        self._library = library

    def _skip_within_a_test(self) -> None:
        if "PYTEST_CURRENT_TEST" in os.environ:
            pytest.skip(f"could not import {self._library!r}")

    def __getattr__(self, name: str) -> Missing:
        self._skip_within_a_test()
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args: object, **_options: object) -> Missing:
        self._skip_within_a_test()
        return self


def optional(library: str) -> Any:
    """Return a library, or a stand-in that skips the tests that use it."""
    try:
        return importlib.import_module(library)
    except ImportError:
        return Missing(library)
