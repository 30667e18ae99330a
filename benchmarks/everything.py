"""Run all benchmarks, one after the other, each in a process of its own; print the table of goals, write one JSON.

``python benchmarks/everything.py`` prints the whole table; ``--json FILE`` keeps the figures, ``--page
docs/performance.md`` writes them into the page, and ``--read FILE`` does so without running anything.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import HEADER, Row, table_line

HERE = Path(__file__).parent
SCRIPTS = (
    "lanczos_sparse",
    "lanczos_dense",
    "vector_work",
    "kpm_lattice",
    "scale",
    "kneser",
    "top_eigenpairs",
    "torch_products",
    "growth",
    "import_time",
)
LIBRARIES = ("numpy", "scipy", "numba", "torch", "imate", "scikit-primate", "curvlinops-for-pytorch", "kwant")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def machine() -> dict[str, str]:
    """Return the processor and the versions of the libraries."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    found = {"processor": f"{model or platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def run(script: str, *, tiny: bool) -> dict[str, Any]:
    """Run one script, which prints as it goes, and return its figures."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "figures.json"
        print(f"\n=== {script}", flush=True)
        command = [sys.executable, str(HERE / f"{script}.py"), "--json", str(target)] + ["--tiny"] * tiny
        done = subprocess.run(command, check=False)
        if done.returncode or not target.exists():
            print(f"{script} has failed")
            return {"script": script, "failed": True, "rows": []}
        return dict(json.loads(target.read_text(encoding="utf-8")))


def rows_of(result: dict[str, Any]) -> list[Row]:
    return [Row(**row) for row in result["rows"]]


def goal_table(results: list[dict[str, Any]]) -> str:
    """Return the one table of all figures that have a goal."""
    lines = [f"| work {HEADER.splitlines()[0]}", f"|---{HEADER.splitlines()[1]}"]
    lines += [f"| {row.work} {table_line(row)}" for result in results for row in rows_of(result) if row.goal]
    lines += [f"| {result['script']} | failed |||||" for result in results if result.get("failed")]
    return "\n".join(lines)


def all_tables(results: list[dict[str, Any]]) -> str:
    """Return every figure, a table for each kind of work."""
    lines: list[str] = []
    for result in results:
        lines += ["", f"### `benchmarks/{result['script']}.py`"]
        work = ""
        for row in rows_of(result):
            if row.work != work:
                work = row.work
                lines += ["", f"**{work}**", "", HEADER]
            lines.append(table_line(row))
    return "\n".join(lines)


def page(figures: dict[str, Any]) -> str:
    """Return what stands between the marks of the page."""
    about = "; ".join(f"{name} {version}" for name, version in figures["machine"].items())
    goals, tables = goal_table(figures["results"]), all_tables(figures["results"])
    return f"\n\nMeasured on: {about}.\n\n## Goals\n\n{goals}\n\n## All figures\n{tables}\n\n"


def write_page(path: Path, figures: dict[str, Any]) -> None:
    """Replace what stands between the marks of the page."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}{page(figures)}{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", help=f"which ones; by default {', '.join(SCRIPTS)}")
    parser.add_argument("--tiny", action="store_true", help="small problems: checks that everything runs")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures; those of other scripts in it stay"
    )
    parser.add_argument("--read", type=Path, metavar="FILE", help="take the figures from a file and run nothing")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the figures into this page")
    arguments = parser.parse_args()
    if arguments.read:
        figures = json.loads(arguments.read.read_text(encoding="utf-8"))
    else:
        results = {script: run(script, tiny=arguments.tiny) for script in arguments.scripts or SCRIPTS}
        if arguments.json and arguments.json.exists():
            earlier = json.loads(arguments.json.read_text(encoding="utf-8"))["results"]
            results = {result["script"]: result for result in earlier} | results
        ordered = sorted(results.values(), key=lambda result: SCRIPTS.index(result["script"]))
        figures = {"machine": machine(), "results": ordered}
    print(f"\n{goal_table(figures['results'])}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if arguments.page:
        write_page(arguments.page, figures)
    if any(result.get("failed") for result in figures["results"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
