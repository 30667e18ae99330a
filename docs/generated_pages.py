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
    _verified(docs)
    _reproduced(docs)
    _further_names(docs)


def _verified(docs: Path) -> None:
    from verified import tables

    store = json.loads((docs / "verified.json").read_text(encoding="utf-8"))
    (docs / "verified_tables.md").write_text(tables(store), encoding="utf-8")


def _reproduced(docs: Path) -> None:
    """Make a page of the reproduction's README, and show the figures that it only links or does not name."""
    folder = docs / "reproduction"

    def link(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        if target.startswith(("#", "http")):
            return match.group()
        return f"{mark}[{text}](reproduction/{target})" if (folder / target).is_file() else text

    text = (folder / "README.md").read_text(encoding="utf-8")
    lines = [re.sub(r"(!?)\[([^]\n]*)\]\(([^)\s]+)\)", link, text)]
    shown = set(re.findall(r"!\[[^]\n]*\]\(figures/([^)\s]+)\)", text))
    others = [path for path in sorted((folder / "figures").glob("*.png")) if path.name not in shown]
    lines += ["", "## Further figures"] if others else []
    for path in others:
        title = path.stem.replace("-", " ")
        lines += ["", f"### {title[0].upper()}{title[1:]}", "", f"![{title}](reproduction/figures/{path.name})"]
    (docs / "reproduced.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _figures(docs: Path) -> None:
    from page import write_tables  # benchmarks/page.py

    figures = json.loads((docs / "performance.json").read_text(encoding="utf-8"))
    write_tables(docs / "figures.md", figures["results"])


def _further_names(docs: Path) -> None:
    """List the public names that the reference's front page does not group, so that none is without a page."""
    text = (docs / "reference" / "index.md").read_text(encoding="utf-8")
    grouped = set(re.findall(r"^   (\w+)$", text, re.MULTILINE))
    lines: list[str] = []
    for module in (specdens, specdens.analysis, specdens_torch):
        names = [name for name in module.__all__ if name not in grouped | {"__version__", "analysis"}]
        if names:
            lines += ["```{eval-rst}", f".. currentmodule:: {module.__name__}", "", ".. autosummary::"]
            lines += ["   :toctree: generated", "", *(f"   {name}" for name in names), "```", ""]
    page = docs / "reference" / "further.md"  # with command_line.md, the page that the front page's pattern finds
    page.unlink(missing_ok=True)
    if lines:
        title = ["# Further names", "", "Public names that the [reference](index.md) does not group.", ""]
        page.write_text("\n".join([*title, *lines]), encoding="utf-8")
