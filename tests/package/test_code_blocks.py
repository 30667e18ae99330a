"""Every code block of the README and every docstring example type-checks, as a user's file would."""

from __future__ import annotations

import doctest
import importlib
import os
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import specdens

ROOT = pathlib.Path(__file__).parents[2]


def readme_code() -> str:
    """Return the Python blocks of the README, one after another: later ones use names of earlier ones."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


def docstring_examples(package) -> dict[str, str]:
    """Return the code of every docstring example of the public names of a package, by name."""
    finder, sources = doctest.DocTestFinder(exclude_empty=True), {}
    names = [package.__name__, *(m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))]
    for name in names:
        if name.endswith("__main__"):
            continue
        module = importlib.import_module(name)
        for test in finder.find(module, name):
            code = "".join(example.source for example in test.examples)
            if re.search(r"import .*specdens", code):  # others are examples of private functions
                sources[test.name] = code
    return sources


@pytest.fixture(scope="module")
def complaints(tmp_path_factory) -> dict[str, list[str]]:
    """Run mypy --strict once over all blocks; return what it says, by name of the block."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("blocks")
    blocks = {"README": readme_code(), **docstring_examples(specdens)}
    files = {name: f"block_{i}.py" for i, name in enumerate(blocks)}
    for name, code in blocks.items():
        (folder / files[name]).write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent",
               f"--cache-dir={ROOT / '.mypy_cache' / 'blocks'}", *files.values()]  # fmt: skip
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "adapters"))
    done = subprocess.run(command, cwd=folder, env={**os.environ, "MYPYPATH": paths}, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {name: [line for line in done.stdout.splitlines() if line.startswith(f"{files[name]}:")] for name in blocks}
    return {name: lines for name, lines in found.items() if lines}


def test_there_are_blocks_to_check():
    assert "import specdens as sd" in readme_code()
    assert len(docstring_examples(specdens)) > 30


@pytest.mark.slow
def test_every_block_passes_strict_type_checking(complaints):
    assert not complaints, "\n".join(line for lines in complaints.values() for line in lines)
