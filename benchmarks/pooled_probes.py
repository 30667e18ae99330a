"""Many short probes for the low moments, beside a few long ones: W1 at 1,024 products, on families not tuned on.

Columns: W1 / width of 8 probes of 128 steps, and by which factor it is smaller for 4 x 128 + 128 x 4 with the first
seven moments pooled over all probes, and for 32 x 32. Factors below 1 are losses.
"""

from __future__ import annotations

import argparse

import numpy as np
from families import FAMILIES, HELD_OUT, operator

import specdens as sd

DEGREE = 7  # of the moments that four steps give exactly


def gains(name: str, n: int, num_seeds: int) -> tuple[float, float, float]:
    """Return W1 / width of 8 x 128, and the factors of pooled probes and of 32 x 32."""
    eigenvalues = np.sort(FAMILIES[name](n))
    A = operator(eigenvalues)
    steps = min(128, eigenvalues.size)
    errors = []
    for seed in range(num_seeds):
        long = sd.fast_lanczos(A, num_steps=steps, num_probes=8, seed=seed)
        few = long.within(steps, 4)
        short = sd.fast_lanczos(A, num_steps=4, num_probes=128, seed=1000 + seed)
        moments = (4 * few.moments(DEGREE + 1) + 128 * short.moments(DEGREE + 1)) / 132
        square = sd.fast_lanczos(A, num_steps=32, num_probes=32, seed=seed)
        measures = (long, few.with_moments(moments[1:]), square)
        errors.append([sd.analysis.distance(each, eigenvalues) / np.ptp(eigenvalues) for each in measures])
    plain, pooled, other = np.mean(errors, axis=0)
    return float(plain), float(plain / pooled), float(plain / other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--num-seeds", type=int, default=20)
    parser.add_argument("--families", nargs="*", default=[name for name in FAMILIES if name in HELD_OUT])
    args = parser.parse_args()
    print(f"n = {args.n}, {args.num_seeds} seeds\n\n| family | 8 x 128 | pooled | 32 x 32 |\n|---|---|---|---|")
    for name in args.families:
        plain, pooled, square = gains(name, args.n, args.num_seeds)
        print(f"| {name} | {plain:.1e} | {pooled:.2f} | {square:.2f} |", flush=True)


if __name__ == "__main__":
    main()
