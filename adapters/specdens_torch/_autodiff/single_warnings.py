"""Warnings of a model, each shown once however often the model runs."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any


class SingleWarnings:
    """A context in which every warning is shown the first time only.

    Leaving ``warnings.catch_warnings`` makes Python forget what it has shown, and every pass would show it again.
    Filters are left alone: what is ignored stays so, and what is an error is raised.
    """

    def __init__(self) -> None:
        self._shown: set[tuple[Any, ...]] = set()
        self._outer: list[Any] = []

    def __enter__(self) -> None:
        show = warnings.showwarning
        self._outer.append(show)

        def show_once(
            message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: str | None = None
        ) -> None:
            key = (str(message), category, filename, lineno)
            if key not in self._shown:
                self._shown.add(key)
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = show_once

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        warnings.showwarning = self._outer.pop()
