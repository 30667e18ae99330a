"""What a small problem and a first look cost: steps on short vectors, start vectors, and the front door.

A step on short vectors is compared with textbook Lanczos in NumPy on the same product; what it takes beyond is fixed
cost. Drawing the start vectors is given as a share of a whole call. The front door, `spectral_density` and the first
reading, is compared with computing all eigenvalues.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from harness import Report, at_most, has_fast_path, interleaved, lanczos_steps, options, per, ratios
from lattices import laplacian_2d
from peers import Work, textbook_steps

import specdens as sd
from specdens._vectors.probes import probe_block


class Short(NamedTuple):
    """An operator on short vectors, for us and for textbook Lanczos."""

    name: str
    ours: Any
    theirs: Any
    has_goal: bool = False


def gaussian(n: int) -> Any:
    """Return a random symmetric matrix."""
    G = np.random.default_rng(0).standard_normal((n, n))
    return (G + G.T) / np.sqrt(2 * n)


def short_problems(m: int) -> list[Short]:
    """Return a Laplacian on m × m points and a small one, a function, and a dense matrix."""
    n, A, small, dense = m * m, laplacian_2d(m), laplacian_2d(min(m, 30)), gaussian(min(m * m, 300))
    diagonal = np.linspace(0, 1, n)
    function = sd.as_operator(lambda x: diagonal * x, shape=(n, n), dtype="float64")
    return [
        Short(f"CSR Laplacian, n = {n}", A, A.__matmul__, has_goal=True),
        Short(f"function, n = {n}", function, diagonal.__mul__),
        Short(f"CSR Laplacian, n = {small.shape[0]}", small, small.__matmul__),
        Short(f"dense, n = {dense.shape[0]}", dense, dense.__matmul__),
    ]


def compare_steps(report: Report, problem: Short, steps: int, repeats: int) -> None:
    """Report steps of one probe that has begun."""
    n = sd.as_operator(problem.ours).shape[0]
    work: dict[str, Work] = {"specdens": lanczos_steps(problem.ours, 1, steps)}
    if has_fast_path():
        work["specdens without fast"] = lanczos_steps(problem.ours, 1, steps, fast=False)
    work["textbook NumPy"] = textbook_steps(problem.theirs, n, np.float64, steps)
    times = interleaved(work, repeats)
    where = f"one Lanczos step, one probe, {problem.name}"
    report.add_times(where, {name: per(values, steps) for name, values in times.items()}, "µs", 1e6)
    goal = at_most(1.5) if problem.has_goal else None
    for name in times:
        if name != "textbook NumPy":
            report.add(where, f"{name} / textbook NumPy", ratios(times[name], times["textbook NumPy"]), goal=goal)


def compare_draws(report: Report, m: int, num_steps: int, num_probes: int, repeats: int) -> None:
    """Report drawing the start vectors as a share of a whole call."""
    A = sd.as_operator(laplacian_2d(m))
    indices = tuple(range(num_probes))
    times = interleaved(
        {
            "whole call": lambda: sd.fast_lanczos(A, num_steps=num_steps, num_probes=num_probes),
            "start vectors": lambda: probe_block(A.vectors, A.shape[0], indices, 0),
        },
        repeats,
    )
    where = f"whole call, n = {m * m:.0e}, {num_steps} steps, {num_probes} probe{'s' * (num_probes > 1)}"
    report.add_times(where, times, "ms", 1e3)
    report.add(where, "share of drawing", ratios(times["start vectors"], times["whole call"]))


def compare_front_door(report: Report, n: int, repeats: int) -> None:
    """Report `spectral_density` and a first count on a dense matrix, beside all its eigenvalues."""
    A = gaussian(n)
    times = interleaved(
        {
            "spectral_density": lambda: sd.spectral_density(A),
            "spectral_density, then a count": lambda: sd.spectral_density(A).measure.count(0, 1),
            "scipy.linalg.eigvalsh": lambda: scipy.linalg.eigvalsh(A),
        },
        repeats,
    )
    where = f"front door, dense, n = {n}"
    report.add_times(where, times, "ms", 1e3)
    found = ratios(times["spectral_density"], times["scipy.linalg.eigvalsh"])
    report.add(where, "spectral_density / eigvalsh", found)


def main() -> None:
    arguments = options(__doc__).parse_args()
    report, repeats = Report(__file__, arguments), 1 if arguments.tiny else arguments.repeats
    for problem in short_problems(20 if arguments.tiny else 100):
        compare_steps(report, problem, 5 if arguments.tiny else 200, repeats)
    for num_probes in (1, 8):
        compare_draws(report, *(100, 4) if arguments.tiny else (1000, 32), num_probes, repeats)
    for n in (50, 400) if arguments.tiny else (50, 400, 2000):
        compare_front_door(report, n, repeats)
    report.write()


if __name__ == "__main__":
    main()
