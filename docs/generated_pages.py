"""Pages that are made from stored results when the documentation is built, and are not committed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import specdens_torch

import specdens


def write_all(docs: Path) -> None:
    """Write every generated page."""
    _figures(docs)
    _further_names(docs)


def _figures(docs: Path) -> None:
    from page import write_tables  # benchmarks/page.py

    figures = json.loads((docs / "performance.json").read_text(encoding="utf-8"))
    write_tables(docs / "figures.md", figures["results"])


def _further_names(docs: Path) -> None:
    """List the public names that the reference's front page does not group, so that none is without a page."""
    text = (docs / "reference" / "index.md").read_text(encoding="utf-8")
    grouped = set(re.findall(r"^   (\w+)$", text, re.MULTILINE))
    lines = ["# Further names", "", "```{eval-rst}"]
    for module in (specdens, specdens.analysis, specdens_torch):
        lines += [f".. currentmodule:: {module.__name__}", "", ".. autosummary::", "   :toctree: generated", ""]
        lines += [f"   {name}" for name in module.__all__ if name not in grouped | {"__version__", "analysis"}]
        lines += [""]
    (docs / "reference" / "further.md").write_text("\n".join([*lines, "```", ""]), encoding="utf-8")
