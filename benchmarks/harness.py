"""What the benchmarks share: interleaved timing, figures with their spread, one table, JSON; and our side's steps."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from specdens._lanczos.recurrence import Recurrence
from specdens._operators.convert import as_operator
from specdens._running.start_vectors import start_block

# -- measuring -------------------------------------------------------------------------------------------------------

Times = dict[str, list[float]]


_PAUSE = 0.25  # seconds between two candidates: threads of BLAS and OpenMP spin for a while after their last work


def interleaved(work: Mapping[str, Callable[[], object]], repeats: int) -> Times:
    """Return the seconds of every candidate, round after round; the first round warms up and does not count."""
    times: Times = {name: [] for name in work}
    for round_ in range(repeats + 1):
        for name in list(work)[:: 1 if round_ % 2 else -1]:  # to and fro: nobody always follows the same neighbour
            time.sleep(_PAUSE if repeats > 1 else 0.0)
            started = time.perf_counter()
            work[name]()
            times[name].append(time.perf_counter() - started)
    return {name: values[1:] for name, values in times.items()}


def per(times: Sequence[float], units: float) -> list[float]:
    """Return times per step, per probe, per element: divided by how many of them there were."""
    return [seconds / units for seconds in times]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the ratio of every round."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def fastest(times: Times) -> str:
    """Return the name of the candidate with the least median."""
    return min(times, key=lambda name: statistics.median(times[name]))


def peak_bytes() -> int:
    """Return the largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # of this program alone; ru_maxrss begins with that of the process that started it
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peer(name: str) -> ModuleType | None:
    """Import a peer, or say that it is not there."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"skipped: {name} is not installed ({error})", flush=True)
        return None


# -- our side --------------------------------------------------------------------------------------------------------


def has_fast_path() -> bool:
    """Return whether the extra `fast` is installed."""
    try:
        return bool(importlib.import_module("specdens._vectors.dispatch").available())
    except ImportError:
        return False


@contextmanager
def fast_path(on: bool) -> Iterator[None]:
    """Run with the fast path, where it is installed, or without it."""
    with (
        nullcontext() if on or not has_fast_path() else importlib.import_module("specdens._vectors.dispatch").without()
    ):
        yield


def lanczos_steps(A: Any, num_probes: int, num_steps: int, *, fast: bool = True) -> Callable[[], None]:
    """Return a function that takes so many further steps of a recurrence that has begun."""
    indices = tuple(range(num_probes))
    with fast_path(fast):
        operator = as_operator(A)
        run = Recurrence.start(operator, indices, start_block(operator, "gaussian", indices, 0))
        run.preserve_inputs = False  # as in a run without a checkpoint

    def steps() -> None:
        with fast_path(fast):
            for _ in range(num_steps):
                run.step(operator, check=False)
        if not run.active.all():
            raise RuntimeError("the recurrence has ended: there are no further steps to time")

    return steps


# -- reporting -------------------------------------------------------------------------------------------------------


class Goal(NamedTuple):
    """The interval in which a figure is to be."""

    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"≤ {self.high:g}"
        return f"≥ {self.low:g}" if math.isinf(self.high) else f"{self.low:g} … {self.high:g}"


def at_most(value: float) -> Goal:
    return Goal(high=value)


def at_least(value: float) -> Goal:
    return Goal(low=value)


@dataclass(frozen=True)
class Row:
    """One figure: the median over rounds with the least and the largest, its unit ("" for ratios) and its goal."""

    work: str
    what: str
    median: float
    low: float
    high: float
    unit: str = ""
    goal: str = ""
    met: bool | None = None


class Report:
    """The rows of one script: printed as they come, written as JSON in the end. A tiny run meets no goal."""

    def __init__(self, script: str, arguments: argparse.Namespace) -> None:
        self.script, self.rows = Path(script).stem, list[Row]()
        self.tiny, self.path, self.skipped = arguments.tiny, arguments.json, ""

    def add(
        self, work: str, what: str, values: float | Sequence[float], unit: str = "", goal: Goal | None = None
    ) -> None:
        """Record one figure."""
        values = [float(value) for value in ([values] if isinstance(values, int | float) else values)]
        median = statistics.median(values)
        met = None if goal is None or self.tiny else goal.low <= median <= goal.high
        row = Row(work, what, median, min(values), max(values), unit, str(goal or ""), met)
        if not self.rows or self.rows[-1].work != work:
            print(f"\n{work}\n\n{HEADER}")
        self.rows.append(row)
        print(table_line(row), flush=True)

    def add_times(self, work: str, times: Times, unit: str, factor: float) -> None:
        """Record the time of every candidate, in a unit of which there are so many in a second."""
        for name, values in times.items():
            self.add(work, name, [factor * value for value in values], unit)

    def skip(self, why: str) -> None:
        """Say why there are no figures."""
        self.skipped = f"skipped: {why}"
        print(self.skipped, flush=True)

    def write(self) -> None:
        """Write the rows as JSON, if that was asked for."""
        if self.path:
            content = {"script": self.script, "tiny": self.tiny, "rows": [asdict(row) for row in self.rows]}
            content |= {"skipped": self.skipped} if self.skipped else {}
            Path(self.path).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


HEADER = "| what | median | min … max | goal | met |\n|---|---|---|---|---|"


def table_line(row: Row) -> str:
    """Return a row of the table in Markdown; a goal between the least and the largest is not decided."""
    bounds = [float(bound) for bound in re.findall(r"-?[\d.]+(?:e[+-]?\d+)?", row.goal)]
    median, low, high = (digits(value, bounds) for value in (row.median, row.low, row.high))
    met = "" if row.met is None else "yes" if row.met else "**no**"
    if met and row.low < row.high and any(row.low <= bound <= row.high for bound in bounds):
        met += ", within the spread"
    spread = "" if row.low == row.high else f"{low} … {high}"
    return f"| {row.what} | {f'{median} {row.unit}'.strip()} | {spread} | {row.goal} | {met} |"


def digits(value: float, bounds: Sequence[float]) -> str:
    """Return three digits, or four where three would be those of a bound."""
    short = f"{value:.3g}"
    return f"{value:.4g}" if any(short == f"{bound:.3g}" for bound in bounds) else short


def options(doc: str | None, *, repeats: int = 7) -> argparse.ArgumentParser:
    """Return the arguments that every benchmark takes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small problem, in seconds: checks that everything runs")
    parser.add_argument("--repeats", type=int, default=repeats, help="rounds of interleaved timing")
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file")
    return parser
