"""Chebyshev moments on a square lattice with 10⁶ sites, per moment and probe: ours, kwant.kpm, a textbook's loop.

kwant runs where it is installed (its release on PyPI does not build with NumPy 2). The textbook's loop is kwant's
algorithm on a matrix that has been rescaled beforehand, two moments for a product: with complex vectors, as kwant's,
and with real ones, which kwant takes as well if it is given some. With several probes the loop also runs in threads of
Python, as many as there are processors, each with a probe of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Report, at_most, fast_path, fastest, has_fast_path, interleaved, options, peer, per, ratios
from lattices import square_lattice
from peers import Work, run_in_threads

from specdens._distributions.interval import Interval
from specdens._kpm.recurrence import ChebyshevRecurrence
from specdens._operators.convert import as_operator
from specdens._running.start_vectors import start_block
from specdens._vectors.threads import num_threads

BOUND = 4.1  # the spectrum lies within (-4, 4)


def our_moments(H: Any, num_probes: int, num_moments: int, *, fast: bool = True) -> Work:
    """Return a function that computes so many further moments of every probe."""
    indices = tuple(range(num_probes))
    with fast_path(fast):
        A = as_operator(H)
        run = ChebyshevRecurrence.start(A, indices, start_block(A, "gaussian", indices, 0), Interval(-BOUND, BOUND))

    def moments() -> None:
        with fast_path(fast):
            for _ in range(num_moments // 2):
                run.step(A, check=False)

    return moments


def textbook_moments(H: Any, num_moments: int) -> Work:
    """Return the same for one probe, as kwant writes it; the dtype of H is that of the vectors."""
    phases = 2 * np.pi * np.random.default_rng(0).random(H.shape[0])
    alpha = np.exp(1j * phases) if np.iscomplexobj(H) else np.sign(np.cos(phases))
    alpha_next = H @ alpha
    first, second = np.vdot(alpha, alpha), np.vdot(alpha, alpha_next)
    found: list[complex] = []

    def moments() -> None:
        nonlocal alpha, alpha_next
        for _ in range(num_moments // 2):
            alpha, alpha_next = alpha_next, 2 * (H @ alpha_next) - alpha
            found.append(2 * np.vdot(alpha, alpha) - first)
            found.append(2 * np.vdot(alpha_next, alpha) - second)

    return moments


def kwant_moments(kpm: Any, H: Any, num_moments: int, *, signs: bool = False) -> Work:
    """Return the same for one probe with kwant, which goes on from the moments it has, and can start with signs."""
    start = [np.random.default_rng(0).choice([-1.0, 1.0], H.shape[0])] if signs else None
    density = kpm.SpectralDensity(H, num_moments=4, num_vectors=1, bounds=(-BOUND, BOUND), rng=0, vector_factory=start)
    return lambda: density.add_moments(num_moments)


def candidates(m: int, num_probes: int, num_moments: int) -> dict[str, tuple[Callable[[], object], int]]:
    """Return what each candidate does in a round, and how many moments of one probe that is."""
    H = square_lattice(m)
    scaled = H / BOUND
    block = num_probes * num_moments
    work: dict[str, tuple[Callable[[], object], int]] = {
        "specdens": (our_moments(H, num_probes, num_moments), block),
        "textbook, real vectors": (textbook_moments(scaled, num_moments), num_moments),
        "textbook, complex vectors": (textbook_moments(scaled.astype(complex), num_moments), num_moments),
    }
    count = min(num_threads(), num_probes)
    if num_probes > 1 and (threads := run_in_threads([textbook_moments(scaled, num_moments) for _ in range(count)])):
        work["textbook, real vectors, a thread for each probe"] = (threads, count * num_moments)
    if has_fast_path():
        work["specdens without fast"] = (our_moments(H, num_probes, num_moments, fast=False), block)
    if (kpm := peer("kwant.kpm")) is not None:
        work["kwant.kpm, real matrix and vectors"] = (kwant_moments(kpm, H, num_moments, signs=True), num_moments)
        for name, matrix in (("real", H), ("complex", H.astype(complex))):
            work[f"kwant.kpm, {name} matrix"] = (kwant_moments(kpm, matrix, num_moments), num_moments)
    return work


def main() -> None:
    arguments = options(__doc__).parse_args()
    m, num_moments, repeats = (100, 4, 1) if arguments.tiny else (1000, 20, arguments.repeats)
    report = Report(__file__, arguments)
    for num_probes in (8, 1):
        work = candidates(m, num_probes, num_moments)
        times = interleaved({name: function for name, (function, _) in work.items()}, repeats)
        times = {name: per(values, work[name][1]) for name, values in times.items()}
        where = f"KPM, square lattice, n = {m * m:.0e}, {num_probes} probe{'s' * (num_probes > 1)}, per moment"
        report.add_times(where, times, "ms", 1e3)
        kwants = {name: values for name, values in times.items() if name.startswith("kwant")}
        rivals = ("textbook, real vectors", fastest(kwants) if kwants else "")
        for name in times:
            if not name.startswith("specdens"):
                goal = at_most(0.25) if name in rivals and num_probes > 1 else None
                report.add(where, f"specdens / {name}", ratios(times["specdens"], times[name]), goal=goal)
    report.write()


if __name__ == "__main__":
    main()
