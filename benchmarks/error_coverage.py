"""Coverage of ±2 standard errors, and standard errors over true spreads, for every reading on every family.

Rows are families; per reading two figures: the share of (seed, place) within two standard errors of the exact value, in
per cent, and the root mean square standard error over the root mean square error (1 is ideal, 2 is twice too wide).
Where a reading gives no standard error the first figure is missing and the second is the error itself.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from families import FAMILIES, operator
from numpy.typing import NDArray
from untuned_families import UNTUNED

import specdens as sd

ALL = FAMILIES | UNTUNED

Array = NDArray[Any]
Reading = tuple[str, float, float, float, float]
"""Group, value, standard error, exact value, what the error is relative to."""

SETTINGS = {"1 x 128": (1, 128), "8 x 32": (8, 32), "8 x 128": (8, 128)}
GROUPS = ("whole", "count", "top", "cdf", "mean", "square", "smooth", "rough", "quantile")


def readings(measure: Any, e: Array) -> Iterator[Reading]:
    """Return everything that is read from a measure, with the exact values from sorted eigenvalues."""
    n, width = e.size, np.ptp(e)
    room = 1e-9 * width  # copies of one eigenvalue count together
    yield ("whole", *_estimate(measure.count(e[0], e[-1])), n, n)
    ends = np.quantile(e, [0.05, 0.2, 0.45, 0.5, 0.8, 0.9])
    for lo, hi in pairwise(ends):
        yield ("count", *_estimate(measure.count(lo, hi)), np.sum((e >= lo - room) & (e <= hi + room)), n)
    for k in (5, 50):
        for lo, hi in (((e[-k] + e[-k - 1]) / 2, e[-1] + width), (e[0] - width, (e[k - 1] + e[k]) / 2)):
            yield ("top", *_estimate(measure.count(lo, hi)), np.sum((e >= lo - room) & (e <= hi + room)), k)
    x = np.append(np.quantile(e, [0.1, 0.3, 0.6, 0.85]), e[0] + width * np.array([0.21, 0.52, 0.83]))
    exact = np.searchsorted(e, x + room, side="right") / n
    for row in zip(measure.cdf(x), measure.cdf_stderr(x), exact, strict=True):
        yield ("cdf", *(float(value) for value in row), 1.0)
    scale = float(np.quantile(np.abs(e), 0.99)) or 1.0
    for group, f in functions(e, scale):
        yield (group, *_estimate(measure.trace(f)), float(np.sum(f(e))), float(np.sum(np.abs(f(e)))))
    for q in (0.25, 0.5, 0.9):
        value, stderr = _quantile(measure, q)
        yield ("quantile", value, stderr, float(e[int(np.ceil(q * n)) - 1]), width)


def functions(e: Array, scale: float) -> list[tuple[str, Callable[[Array], Array]]]:
    """Return functions to take traces of, by group."""
    edge = float(np.quantile(e, 0.65))
    return [
        ("mean", lambda x: x),
        ("square", np.square),
        ("smooth", lambda x: np.exp(np.clip(x / scale, -20, 5))),
        ("smooth", lambda x: np.log(np.abs(x) + 0.01 * scale)),
        ("smooth", lambda x: 1 / (x**2 / scale**2 + 0.01)),
        ("rough", lambda x: (x > edge) * 1.0),
        ("rough", lambda x: np.abs(x - edge) / scale),
    ]


def _estimate(estimate: Any) -> tuple[float, float]:
    return float(estimate[0]), float(estimate[1])


def _quantile(measure: Any, q: float) -> tuple[float, float]:
    if hasattr(measure, "quantile_stderr"):
        return float(measure.quantile(q)), float(measure.quantile_stderr(q))
    return float(measure.quantile(q)), float("nan")


def cell(rows: list[Array]) -> dict[str, float]:
    """Return coverage in per cent, the ratio of standard error to spread, and the error, over seeds and places."""
    value, stderr, exact, scale = (np.array([row[:, i] for row in rows]) for i in range(4))
    error = value - exact
    room = 1e-9 * scale  # of rounding
    within = np.abs(error) <= 2 * stderr + room
    rms, stated = (np.sqrt(np.mean(np.square(part), axis=0)) for part in (error, stderr))
    ratio = np.where(rms > room[0], stated / np.maximum(rms, 1e-300), 1.0)
    relative = rms / scale[0]
    covered = np.nan if np.isnan(stated).any() else 100 * float(np.mean(within))
    return {
        "coverage": covered,
        "ratio": float(np.exp(np.mean(np.log(np.clip(ratio, 1e-9, 1e9))))),
        "worst ratio": float(ratio[np.argmax(np.abs(np.log(np.clip(ratio, 1e-9, 1e9))))]),
        "error": float(np.median(relative)),
    }


def distance(measure: Any, e: Array) -> float:
    """Return the W1 distance between the measure's distribution function and the eigenvalues', over the width."""
    q = (np.arange(2048) + 0.5) / 2048
    mine, exact = np.asarray(measure.quantile(q)), e[np.minimum((q * e.size).astype(int), e.size - 1)]
    return float(np.mean(np.abs(mine - exact)) / np.ptp(e))


def table(names: list[str], setting: tuple[int, int], n: int, num_seeds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return the cells of all families in one setting."""
    num_probes, num_steps = setting
    result: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        e = np.sort(ALL[name](n))
        A = operator(e)
        runs, distances = [], []
        for seed in range(num_seeds):
            measure = sd.fast_lanczos(A, num_steps=min(num_steps, e.size), num_probes=num_probes, seed=seed)
            runs.append(list(readings(measure, e)))
            distances.append(distance(measure, e))
        cells = {}
        for group in GROUPS:
            rows = [np.array([reading[1:] for reading in run if reading[0] == group]) for run in runs]
            cells[group] = cell(rows)
        cells["W1"] = {"coverage": np.nan, "ratio": np.nan, "worst ratio": np.nan, "error": float(np.median(distances))}
        result[name] = cells
        shown = [f"{cells[g]['coverage']:.0f} / {cells[g]['ratio']:.2g}" for g in GROUPS if g != "quantile"]
        shown += [f"{cells[g]['error']:.1e}" for g in ("mean", "square", "quantile", "W1")]
        print(f"| {name} | {' | '.join(shown)} |", flush=True)
    return result


def main() -> None:
    """Print one table per setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--num-seeds", type=int, default=40)
    parser.add_argument("--families", nargs="*", default=list(ALL))
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file")
    parser.add_argument("--tiny", action="store_true", help="three families, one setting, three seeds: for CI")
    args = parser.parse_args()
    if args.tiny:
        args.n, args.num_seeds, args.settings = 500, 3, ["8 x 32"]
        args.families = ["deep network", "triangular", "torus"]
    figures, started = {}, time.perf_counter()
    for name in args.settings:
        print(f"\n{name}, n = {args.n}, {args.num_seeds} seeds\n")
        head = [*(g for g in GROUPS if g != "quantile"), "error of mean", "of square", "of quantile", "W1"]
        print(f"| family | {' | '.join(head)} |\n|---|{'---|' * len(head)}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figures[name] = table(args.families, SETTINGS[name], args.n, args.num_seeds)
    print(f"\n{time.perf_counter() - started:.0f} s")
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
