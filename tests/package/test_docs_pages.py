"""Every Python block of the documentation's pages runs, one after another, in a fresh folder."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"
FOLDERS = ("tutorials", "howto", "explanation")
PAGES = sorted(page for folder in FOLDERS for page in (DOCS / folder).glob("*.md"))
NEEDS_MORE = {"mpi4py", "torch.distributed", "sdt.shard"}  # several processes; .ci/clusters runs such code


def blocks(page: pathlib.Path) -> list[str]:
    """Return the Python blocks of a page that one process can run."""
    found = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [block for block in found if not any(word in block for word in NEEDS_MORE)]


def test_the_pages_have_blocks():
    assert sum(len(blocks(page)) for page in PAGES) > 30


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_the_blocks_of_a_page_run_one_after_another(page, tmp_path):
    code = "\n".join(blocks(page))
    for library in ("torch", "sklearn", "matplotlib", "jax"):
        if re.search(rf"\b{library}\b", code):
            pytest.importorskip(library)
    script = tmp_path / "page.py"
    script.write_text(code, encoding="utf-8")
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", ["matrix", "graph_or_data", "network"])
def test_a_tutorial_can_be_pasted_into_the_interpreter(name):
    """A line that follows an indented block without an empty line is a syntax error there."""
    for block in blocks(DOCS / "tutorials" / f"{name}.md"):
        lines = block.splitlines()
        for before, after in itertools.pairwise(lines):
            ends = before.startswith((" ", "\t")) and after and not after.startswith((" ", "\t", ")", "]", "}"))
            assert not ends or _is_continuation(lines, after), f"{name}: an empty line is missing before: {after}"


def _is_continuation(lines: list[str], line: str) -> bool:
    """Return whether a line belongs to a statement in brackets that began before."""
    text = "\n".join(lines[: lines.index(line)])
    return sum(map(text.count, "([{")) > sum(map(text.count, ")]}"))
