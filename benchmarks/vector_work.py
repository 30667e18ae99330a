"""The vector work of one Lanczos step after a black-box product, at n = 2·10⁷: ours, NumPy temporaries, BLAS, torch.

The product costs nothing: it answers with one of four arrays in turn, which holds the vector of four steps before. No
more than three are in use at a time, so nobody has to copy. BLAS and torch accumulate float32 in float32, ours in
float64.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
from harness import Report, at_most, has_fast_path, interleaved, lanczos_steps, options, peer, per, ratios
from peers import Work, blas_steps, start, textbook_steps, torch_steps


class Free:
    """An operator whose products are there already."""

    def __init__(self, n: int, dtype: Any, wrap: Any = lambda array: array) -> None:
        self.shape, self.dtype = (n, n), np.dtype(dtype)
        first = start(n, dtype)
        self.arrays = cycle([wrap(np.roll(first, 1 + shift)) for shift in range(4)])

    def __matmul__(self, x: Any) -> Any:
        return next(self.arrays)


def candidates(n: int, dtype: Any, steps: int) -> dict[str, Work]:
    """Return what each candidate does in a round."""
    work: dict[str, Work] = {
        "specdens": lanczos_steps(Free(n, dtype), 1, steps),
        "NumPy temporaries": textbook_steps(Free(n, dtype).__matmul__, n, dtype, steps),
        "in-place BLAS": blas_steps(Free(n, dtype).__matmul__, n, dtype, steps),
    }
    if has_fast_path():
        work["specdens without fast"] = lanczos_steps(Free(n, dtype), 1, steps, fast=False)
    if (torch := peer("torch")) is not None:
        work["torch, in place"] = torch_steps(torch, Free(n, dtype, torch.from_numpy).__matmul__, n, dtype, steps)
    return work


def main() -> None:
    arguments = options(__doc__, repeats=9).parse_args()
    n, steps, repeats = (10**5, 2, 1) if arguments.tiny else (2 * 10**7, 15, arguments.repeats)
    report = Report(__file__, arguments)
    goals = {"NumPy temporaries": at_most(0.2), "in-place BLAS": at_most(0.7)}
    for dtype in (np.float64, np.float32):
        times = interleaved(candidates(n, dtype, steps), repeats)
        where = f"vector work of a step, n = {n:.0e}, {np.dtype(dtype)}"
        report.add_times(where, {name: per(values, n * steps) for name, values in times.items()}, "ns / element", 1e9)
        for name in times:
            if not name.startswith("specdens"):
                report.add(where, f"specdens / {name}", ratios(times["specdens"], times[name]), goal=goals.get(name))
        if "specdens without fast" in times:
            ratio = ratios(times["specdens without fast"], times["in-place BLAS"])
            report.add(where, "specdens without fast / in-place BLAS", ratio)
    report.write()


if __name__ == "__main__":
    main()
