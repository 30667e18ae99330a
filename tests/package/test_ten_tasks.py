"""The ten tasks of the comparison page: ours run as they stand, and the page counts their lines right."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "ten_tasks"
TOOLS = ("specdens", "PyHessian", "curvlinops", "kwant", "WeightWatcher")


def num_lines(tool):
    """Return the lines of every task in the file of a tool, without comments."""
    _, *sections = re.split(r"^# task: ", (FOLDER / f"{tool.lower()}.py").read_text(), flags=re.MULTILINE)
    parts = (section.partition("\n") for section in sections)
    return {name: sum(bool(line.strip()) for line in code.splitlines()) for name, _, code in parts}


def table():
    """Return the table of the page: per task and tool the number of lines, 0 where there is none."""
    text = (DOCS / "comparison.md").read_text().partition("## Ten tasks")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    assert rows[0] == ["task", *TOOLS]
    numbers = {row[0]: [int(cell.split()[0].replace("—", "0")) for cell in row[1:]] for row in rows[2:12]}
    return {(task, tool): number for task, row in numbers.items() for tool, number in zip(TOOLS, row, strict=True)}


def test_the_table_has_the_lines_of_the_files():
    counted = {tool: num_lines(tool) for tool in TOOLS}
    found = table()
    assert list(counted["specdens"]) == list(dict.fromkeys(task for task, _ in found))
    assert len(counted["specdens"]) == 10
    assert {place: number for place, number in found.items() if number} == {
        (task, tool): number for tool in TOOLS for task, number in counted[tool].items()
    }


@pytest.mark.slow
def test_our_snippets_run_as_they_stand(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    plt = pytest.importorskip("matplotlib.pyplot")
    spec = importlib.util.spec_from_file_location("setup", FOLDER / "setup.py")
    setup = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "setup", setup)
    spec.loader.exec_module(setup)
    monkeypatch.chdir(tmp_path)
    exec(compile((FOLDER / "specdens.py").read_text(), "specdens.py", "exec"), {})
    assert plt.get_fignums()
    assert (tmp_path / "run.npz").exists()
    plt.close("all")
