"""How the time of `fast_lanczos` grows with n, with the number of steps and with that of probes, over three decades.

Whole public calls, on the 2-D Laplacian in CSR and on a black box. Exponents come from a line through the logarithms;
those between neighbouring sizes stand beside the times, as small problems live in a cache and large ones do not, and
a short call is partly the start.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from harness import Goal, Report, Times, interleaved, options
from lattices import laplacian_2d

import specdens as sd

GOAL = Goal(0.9, 1.1)
Call = Callable[[], object]


def exponents(sizes: Sequence[int], times: Times) -> list[float]:
    """Return the slope of every round, by least squares on the logarithms."""
    rounds = np.log(np.array(list(times.values())))
    return list(np.polyfit(np.log(sizes), rounds, 1)[0])


def fit(report: Report, where: str, sizes: Sequence[int], call: Callable[[int], Call], repeats: int) -> None:
    """Report the times at all sizes, the exponents between neighbours and that of the whole."""
    times = interleaved({f"{size:.3g}": call(size) for size in sizes}, repeats)
    report.add_times(where, times, "s", 1.0)
    medians = [statistics.median(values) for values in times.values()]
    for (a, s), (b, t) in pairwise(zip(sizes, medians, strict=True)):
        report.add(where, f"exponent from {a:.3g} to {b:.3g}", np.log(t / s) / np.log(b / a))
    report.add(where, "fitted exponent", exponents(sizes, times), goal=GOAL)


def in_n(report: Report, *, tiny: bool, repeats: int) -> None:
    """Report the growth with n, without a matrix and with one."""
    rng = np.random.default_rng(0)
    diagonals = {
        n: rng.random(n, dtype=np.float32)
        for n in ((10**3, 10**4) if tiny else (300_000, 3_000_000, 30_000_000, 300_000_000))
    }
    operators = {n: sd.as_operator(d.__mul__, shape=n, dtype="float32") for n, d in diagonals.items()}
    fit(
        report, "growth in n, black-box diagonal, float32, 16 steps, 1 probe", list(operators),
        lambda n: lambda: sd.fast_lanczos(operators[n], num_steps=16, check=False), repeats,
    )  # fmt: skip
    matrices = {side**2: laplacian_2d(side) for side in ((30, 60) if tiny else (200, 632, 2000, 6324))}
    fit(
        report, "growth in n, CSR, float64, 16 steps, a block of 8 probes", list(matrices),
        lambda n: lambda: sd.fast_lanczos(matrices[n], num_steps=16, num_probes=8, block_size=8, check=False), repeats,
    )  # fmt: skip


def in_counts(report: Report, *, tiny: bool, repeats: int) -> None:
    """Report the growth with the number of steps and with that of probes."""
    A = laplacian_2d(30 if tiny else 316)
    fit(
        report, f"growth in steps, CSR, float64, n = {A.shape[0]:.0e}, 1 probe",
        (2, 20) if tiny else (10, 100, 1000, 10_000),
        lambda steps: lambda: sd.fast_lanczos(A, num_steps=steps, check=False), repeats,
    )  # fmt: skip
    B = laplacian_2d(30 if tiny else 100)
    fit(
        report, f"growth in probes, CSR, float64, n = {B.shape[0]:.0e}, 16 steps",
        (8, 16) if tiny else (8, 80, 800, 8000),
        lambda probes: lambda: sd.fast_lanczos(B, num_steps=16, num_probes=probes, check=False), repeats,
    )  # fmt: skip


def main() -> None:
    arguments = options(__doc__, repeats=3).parse_args()
    repeats = 1 if arguments.tiny else arguments.repeats
    report = Report(__file__, arguments)
    in_n(report, tiny=arguments.tiny, repeats=repeats)
    in_counts(report, tiny=arguments.tiny, repeats=repeats)
    report.write()


if __name__ == "__main__":
    main()
