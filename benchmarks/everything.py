"""Run all benchmarks, one after the other, each in a process of its own; print the table of goals, write one JSON.

``python benchmarks/everything.py`` prints the whole table; ``--json FILE`` keeps the figures, each script's as soon as
it has run, ``--tables FILE`` writes all of them as tables in Markdown, and ``--read FILE`` does so without running
anything. A script that fails, or has nothing to report on this machine, leaves the figures that the file has of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from machine import machine
from page import Result, goal_table, write_tables

HERE = Path(__file__).parent
SCRIPTS = (
    "lanczos_sparse",
    "lanczos_dense",
    "first_second",
    "vector_work",
    "wrapped_products",
    "kpm_lattice",
    "scale",
    "kneser",
    "top_eigenpairs",
    "torch_products",
    "growth",
    "import_time",
)


def run(script: str, *, tiny: bool) -> Result:
    """Run one script, which prints as it goes, and return its figures, with the day and the machine."""
    about = {"script": script, "tiny": tiny, "date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "figures.json"
        print(f"\n=== {script}", flush=True)
        command = [sys.executable, str(HERE / f"{script}.py"), "--json", str(target)] + ["--tiny"] * tiny
        done = subprocess.run(command, check=False)
        if done.returncode or not target.exists():
            print(f"{script} has failed", flush=True)
            return about | {"failed": True, "rows": []}
        return about | json.loads(target.read_text(encoding="utf-8"))


def read(path: Path) -> dict[str, Result]:
    """Return the figures of every script in a file; once there was one machine for all of them."""
    figures = json.loads(path.read_text(encoding="utf-8"))
    common = {"machine": figures["machine"]} if "machine" in figures else {}
    return {result["script"]: common | result for result in figures["results"] if result["script"] in SCRIPTS}


def write(path: Path, results: dict[str, Result]) -> None:
    """Write the figures at once or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps({"results": in_order(results)}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, path)


def in_order(results: dict[str, Result]) -> list[Result]:
    return [results[script] for script in SCRIPTS if script in results]


def run_all(results: dict[str, Result], arguments: argparse.Namespace) -> list[str]:
    """Run the scripts, put their figures into `results` and into the file, and return which scripts have failed."""
    failed = []
    for script in arguments.scripts or SCRIPTS:
        result = run(script, tiny=arguments.tiny)
        if result.get("failed"):
            failed.append(script)
        if not result["rows"] and results.get(script, {}).get("rows"):
            print(f"{script}: the earlier figures stay", flush=True)
        else:
            results[script] = result
        if arguments.json:
            write(arguments.json, results)
    return failed


def known(script: str) -> str:
    """Return the name of a script (`choices` of argparse do not go with no name at all before Python 3.12)."""
    if script not in SCRIPTS:
        raise argparse.ArgumentTypeError(f"{script!r} is none of {', '.join(SCRIPTS)}")
    return script


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=known, metavar="script", help=f"by default {', '.join(SCRIPTS)}")
    parser.add_argument("--tiny", action="store_true", help="small problems: checks that everything runs")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures; those of other scripts in it stay"
    )
    parser.add_argument("--read", type=Path, metavar="FILE", help="take the figures from a file and run nothing")
    parser.add_argument("--tables", type=Path, metavar="FILE", help="write the figures as tables in Markdown")
    return parser


def earlier(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> dict[str, Result]:
    """Return the figures that are there; whatever would stop us in the end stops us here, before the first run."""
    source = arguments.read or arguments.json
    try:
        results = read(source) if source and (arguments.read or source.exists()) else {}
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"{type(error).__name__}: {error}")
    if arguments.read and (arguments.scripts or arguments.json or arguments.tiny):
        parser.error("--read runs nothing and writes no figures: it goes with --tables only")
    if not arguments.read and any(bool(result.get("tiny")) != arguments.tiny for result in results.values()):
        parser.error(f"{source} has figures of {'full' if arguments.tiny else 'tiny'} runs, which are not to be mixed")
    return results


def main() -> None:
    parser = options()
    arguments = parser.parse_args()
    results = earlier(parser, arguments)
    failed = [] if arguments.read else run_all(results, arguments)
    ordered = in_order(results)
    print(f"\n{goal_table(ordered)}")
    if arguments.tables:
        write_tables(arguments.tables, ordered)
    failed += [result["script"] for result in ordered if result.get("failed") and result["script"] not in failed]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
