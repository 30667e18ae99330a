"""Lanczos on a dense symmetric matrix: the rate of our steps against that of NumPy's bare product A @ X.

NumPy's product runs in every layout of X and, as A is symmetric, from the right too; the fastest counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Report, Times, at_least, fastest, has_fast_path, interleaved, lanczos_steps, options, ratios
from peers import Work, start


def symmetric(n: int, dtype: Any) -> Any:
    """Return a symmetric random matrix with a spectrum of about [-1, 1]."""
    A = np.random.default_rng(0).standard_normal((n, n)).astype(dtype)
    A += A.T.copy()
    A /= np.sqrt(8 * n)
    return A


def layouts(A: Any, num_probes: int, num_products: int) -> dict[str, Work]:
    """Return the products of NumPy, into memory that is there, in every layout."""
    X = start(A.shape[0], A.dtype, num_probes)
    F = np.asfortranarray(X)
    rows = np.ascontiguousarray(X.T)
    Y, YF, out = np.empty_like(X), np.empty_like(F), np.empty_like(rows)

    def times(product: Work) -> Work:
        return lambda: [product() for _ in range(num_products)]

    return {
        "A @ X, rows of X contiguous": times(lambda: np.matmul(A, X, out=Y)),
        "A @ X, columns of X contiguous": times(lambda: np.matmul(A, F, out=YF)),
        "X.T @ A": times(lambda: np.matmul(rows, A, out=out)),
    }


def compare(report: Report, n: int, num_probes: int, dtype: Any, steps: int, repeats: int) -> None:
    """Report one precision."""
    A = symmetric(n, dtype)
    work = layouts(A, num_probes, steps) | {"specdens": lanczos_steps(A, num_probes, steps)}
    if has_fast_path():
        work["specdens without fast"] = lanczos_steps(A, num_probes, steps, fast=False)
    times: Times = interleaved(work, repeats)
    best = fastest({name: values for name, values in times.items() if not name.startswith("specdens")})
    where = f"Lanczos, dense {n} × {n}, {A.dtype}, {num_probes} probes"
    flops = 2.0 * n * n * num_probes * steps
    for name, values in times.items():
        report.add(where, name, [1e-9 * flops / seconds for seconds in values], "GFlop/s")
    for name in times:
        if name.startswith("specdens"):
            goal = at_least(0.8) if name == "specdens" else None
            report.add(where, f"rate of {name} / {best}", ratios(times[best], times[name]), goal=goal)


def main() -> None:
    arguments = options(__doc__).parse_args()
    n, steps, repeats = (300, 2, 1) if arguments.tiny else (6000, 5, arguments.repeats)
    report = Report(__file__, arguments)
    for dtype in (np.float64, np.float32):
        compare(report, n, 10, dtype, steps, repeats)
    report.write()


if __name__ == "__main__":
    main()
