"""Failures in one line, and exit codes.

0: all is well. 1: it failed. 2: it was called wrongly. 3: some outputs could not be written, the others are there. 4:
all outputs are there, but standard output could not be written. 130: interrupted.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from specdens._cli import terminal
from specdens._cli.terminal import say

# What specdens raises with a message of its own; others are named with their type.
_SPEAKING = (ValueError, TypeError, ImportError)


class Command(click.Command):
    """A command whose exceptions become one line, and with ``--debug`` a traceback before it."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; warnings are lines of their own, without the place in the source."""
        try:
            with warnings.catch_warnings(), _logging(ctx.params.get("debug", False)):
                warnings.showwarning = _show_warning  # type: ignore[assignment]
                value = super().invoke(ctx)
            failure = terminal.failure()
            if failure is not None:
                say(f"Error: standard output: {failure.strerror}. All outputs are written.", err=True)
                raise click.exceptions.Exit(4)
            return value
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            raise click.ClickException(one_line(error)) from None
        except KeyboardInterrupt as interrupt:
            notes = getattr(interrupt, "__notes__", [])  # where the run was saved, and how to go on
            say(": ".join(["Interrupted", *notes]) + ".", err=True)
            raise click.exceptions.Exit(130) from None


class Group(click.Group):
    """A group whose usage errors are one line too."""

    command_class = Command

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run the command line and leave with its exit code."""
        extra["standalone_mode"] = False
        try:
            code = super().main(args, prog_name, **extra)
        except click.UsageError as error:
            place = error.ctx.command_path if error.ctx else "specdens"
            say(f"Error: {' '.join(error.format_message().split())} See {place} --help.", err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            say(f"Error: {error.format_message()}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            say("Interrupted.", err=True)
            sys.exit(130)
        sys.exit(code if isinstance(code, int) else 0)


def one_line(error: BaseException) -> str:
    """Return what an exception says, without line breaks."""
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, (*_SPEAKING, OSError)) and str(error):
        message = str(error)
    else:
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return " ".join(message.split())


def need(module: str, extra: str, purpose: str) -> None:
    """Refuse to start what an extra is missing for, with the command that installs it."""
    if importlib.util.find_spec(module) is None:
        raise ImportError(f'{purpose} needs {module}: pip install "specdens[{extra}]"')


@contextmanager
def _logging(debug: bool) -> Iterator[None]:
    """Show what specdens logs if asked to; what matters comes as results, warnings and errors."""
    handler = logging.StreamHandler() if debug else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    logger, level = logging.getLogger("specdens"), logging.getLogger("specdens").level
    logger.addHandler(handler)
    if debug:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _show_warning(message: Warning | str, *_: Any) -> None:
    say(f"Warning: {' '.join(str(message).split())}", err=True)
