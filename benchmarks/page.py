"""The tables of figures in Markdown: those with a goal, all of them, and what they were measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import HEADER, Row, table_line

TINY = "**These are figures of tiny runs and mean nothing.**"
Result = dict[str, Any]


def rows_of(result: Result) -> list[Row]:
    return [Row(**row) for row in result["rows"]]


def goal_table(results: list[Result]) -> str:
    """Return the one table of all figures that have a goal."""
    lines = [f"| work {HEADER.splitlines()[0]}", f"|---{HEADER.splitlines()[1]}"]
    lines += [f"| {row.work} {table_line(row)}" for result in results for row in rows_of(result) if row.goal]
    lines += [f"| {result['script']} | failed |||||" for result in results if result.get("failed")]
    return "\n".join(lines)


def all_tables(results: list[Result]) -> str:
    """Return every figure, a table for each kind of work."""
    lines: list[str] = []
    for result in results:
        lines += ["", f"### `benchmarks/{result['script']}.py`"]
        notes = (difference(result, newest(results)), result.get("skipped", ""), "failed" * result.get("failed", False))
        lines += [line for note in notes if note for line in ("", f"{note[0].upper()}{note[1:]}.")]
        work = ""
        for row in rows_of(result):
            if row.work != work:
                work = row.work
                lines += ["", f"**{work}**", "", HEADER]
            lines.append(table_line(row))
    return "\n".join(lines)


def newest(results: list[Result]) -> Result:
    return max(results, key=lambda result: str(result.get("date", "")))


def about(machine: dict[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in machine.items())


def difference(result: Result, latest: Result) -> str:
    """Return on which day, or on what, figures were measured, where that is not as with the newest."""
    ours, theirs = result.get("machine", {}), latest.get("machine", {})
    other = {name: ours.get(name, "not known") for name in theirs | ours if ours.get(name) != theirs.get(name)}
    if not result["rows"] or (not other and result.get("date") == latest.get("date")):
        return ""
    return f"measured on {result.get('date') or 'an earlier day'}" + (f" with {about(other)}" if other else "")


def write_tables(path: Path, results: list[Result]) -> None:
    """Write all tables to a file."""
    latest = newest(results)
    day = f" on {latest['date']}" if latest.get("date") else ""
    measured = f"Measured{day}: {about(latest.get('machine', {}))}."
    if any(result.get("tiny") for result in results):
        measured = f"{TINY}\n\n{measured}"
    text = f"# All figures\n\n{measured}\n\n## Goals\n\n{goal_table(results)}\n\n## All tables\n{all_tables(results)}\n"
    path.write_text(text, encoding="utf-8")
