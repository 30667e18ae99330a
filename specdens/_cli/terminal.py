"""Printing that never ends a run: unencodable, closed or full, standard output is given up and remembered."""

from __future__ import annotations

import os
import sys
from typing import IO, Any

import click

from specdens._printable import printable

_failures: list[OSError] = []


def say(text: str, *, err: bool = False) -> None:
    """Print a line; control characters are shown as escapes, characters that the terminal lacks too."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    line = printable(text).encode(encoding, "backslashreplace").decode(encoding)
    try:
        click.echo(line, err=err)
    except (OSError, ValueError) as error:  # ValueError: closed
        if isinstance(error, OSError):
            _failures.append(error)
        _give_up(stream)


def failure() -> OSError | None:
    """Return why standard output could not be written, and forget it; a reader that has left is no failure."""
    failures = [error for error in _failures if not isinstance(error, BrokenPipeError)]
    _failures.clear()
    return failures[0] if failures else None


def occupy_standard_files() -> None:
    """Open the null device where standard files are closed, so that no result is opened in their place."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            while os.open(os.devnull, os.O_RDWR) < descriptor:
                pass


def _give_up(stream: IO[Any]) -> None:
    """Send everything else to nowhere, also what Python flushes when it ends."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError, AttributeError):
        pass
