"""The command ``specdens``. Needs click, which is imported when the command runs."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    if importlib.util.find_spec("click") is None:
        sys.exit('Error: the command line needs click: pip install "specdens[cli]"')
    from specdens._cli.app import app
    from specdens._cli.terminal import occupy_standard_files

    occupy_standard_files()
    app(prog_name="specdens")
