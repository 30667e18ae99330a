"""Products and Lanczos steps of wrapped operators against the bare one, interleaved: wrapping costs at most 5 %.

The operator is the 2-D Laplacian in CSR. Counting, multiples, shifts, normalisation and nestings of these take the same
fused pass as the bare matrix. Deflation adds a projection, whose time is shown without a goal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Report, at_most, interleaved, lanczos_steps, options, per, ratios
from lattices import laplacian_2d

import specdens as sd

WRAPPINGS: dict[str, Callable[[sd.Operator], sd.Operator]] = {
    "counted": sd.Counted,
    "multiple": lambda A: 2.5 * A,
    "shifted": lambda A: A.shifted(-1.0),
    "normalized": lambda A: sd.normalize(A, bounds=(0.0, 8.0)),
    "counted multiple of a shift": lambda A: sd.Counted(0.5 * A.shifted(-4.0)),
}


def deflated(A: sd.Operator) -> sd.Operator:
    """Return the operator on the complement of three sine waves, which are eigenvectors."""
    side = round(A.shape[0] ** 0.5)
    waves = [np.sin(np.pi * k * np.arange(1, side + 1) / (side + 1)) for k in (1, 2, 3)]
    Q = np.stack([np.outer(wave, wave).ravel() / np.sum(wave**2) for wave in waves], axis=1).astype(A.dtype)
    values = np.array([4 - 4 * np.cos(np.pi * k / (side + 1)) for k in (1, 2, 3)])
    pairs = sd.EigenPairs(values, Q, np.zeros(3), np.ones(3, dtype=bool), num_products=0, seconds=0.0)
    return sd.deflate(A, pairs)


def products(A: sd.Operator, num_columns: int, count: int) -> Callable[[], None]:
    """Return a function that multiplies one block so many times."""
    shape = (A.shape[0],) if num_columns == 1 else (A.shape[0], num_columns)
    x = np.random.default_rng(0).standard_normal(shape).astype(A.dtype)

    def work() -> None:
        for _ in range(count):
            A @ x

    return work


def main() -> None:
    arguments = options(__doc__, repeats=9).parse_args()
    side, count, repeats = (64, 2, 1) if arguments.tiny else (1000, 15, arguments.repeats)
    report = Report(__file__, arguments)
    A = sd.as_operator(laplacian_2d(side))
    wrapped: dict[str, Any] = {name: wrap(A) for name, wrap in WRAPPINGS.items()}
    for num_probes in (1, 8):
        rounds = max(1, count // num_probes)
        where = f"2-D Laplacian, n = {side**2:.0e}, {num_probes} probe{'s' * (num_probes > 1)}"
        steps = {name: lanczos_steps(B, num_probes, rounds) for name, B in {"bare": A, **wrapped}.items()}
        steps["deflated, rank 3"] = lanczos_steps(deflated(A), num_probes, rounds)
        times = interleaved(steps, repeats)
        work = f"a Lanczos step, {where}"
        report.add_times(work, {name: per(values, rounds) for name, values in times.items()}, "ms", 1e3)
        for name in wrapped:
            report.add(work, f"{name} / bare", ratios(times[name], times["bare"]), goal=at_most(1.05))
        candidates = {
            "bare": products(A, num_probes, rounds),
            "counted": products(wrapped["counted"], num_probes, rounds),
        }
        times = interleaved(candidates, repeats)
        ratio = ratios(times["counted"], times["bare"])
        report.add(f"a product, {where}", "counted / bare", ratio, goal=at_most(1.05))
    report.write()


if __name__ == "__main__":
    main()
