"""Products that `tol=` takes, against the best fixed split of a budget into probes and steps.

The best split is the least product P·K on a grid whose W1 error is within the tolerance in at least 90 % of the seeds.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from error_coverage import distance
from families import FAMILIES, HELD_OUT, operator
from untuned_families import UNTUNED

import specdens as sd

ALL = FAMILIES | UNTUNED

STEPS = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
PROBES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)


def best_split(A: Any, e: Any, tol: float, num_seeds: int) -> tuple[int, int] | None:
    """Return probes and steps of the cheapest split that is within the tolerance in 90 % of the seeds.

    Every split is read with the two moments that the entries of a matrix give, as `spectral_density` does.
    """
    moments = [np.mean(e), np.mean(np.square(e))]
    runs = [
        sd.fast_lanczos(A, num_steps=min(STEPS[-1], e.size), num_probes=PROBES[-1], seed=seed).with_moments(moments)
        for seed in range(num_seeds)
    ]
    splits = sorted((p * k, p, k) for p in PROBES for k in STEPS if p * k <= 4096)
    for _, probes, steps in splits:
        missed = 0
        for run in runs:
            missed += distance(run.within(steps, probes), e) > tol
            if missed > 0.1 * num_seeds:
                break
        else:
            return probes, steps
    return None


def main() -> None:
    """Print one row per family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--tol", type=float, default=0.003)
    parser.add_argument("--num-seeds", type=int, default=30)
    parser.add_argument("--families", nargs="*", default=list(ALL))
    parser.add_argument("--best", metavar="FILE", help="JSON file of best splits, read if it is there, else written")
    parser.add_argument("--no-best", action="store_true", help="leave out the search for the best split")
    parser.add_argument("--tiny", action="store_true", help="two families, two seeds: for CI")
    args = parser.parse_args()
    if args.tiny:
        args.n, args.num_seeds, args.families, args.tol = 1500, 2, ["GOE", "deep network"], 0.02
    print("| family | best split | products | tol= takes (median) | ratio | met |\n|---|---|---|---|---|---|")
    warnings.simplefilter("ignore")
    stored = json.loads(Path(args.best).read_text(encoding="utf-8")) if args.best and Path(args.best).exists() else {}
    for name in args.families:
        e = np.sort(ALL[name](args.n))
        A = operator(e)
        key = f"{name}, n = {args.n}, tol = {args.tol:g}, {args.num_seeds} seeds"
        if not args.no_best and key not in stored:
            stored[key] = best_split(A, e, args.tol, args.num_seeds)
            if args.best:
                Path(args.best).write_text(json.dumps(stored, indent=1), encoding="utf-8")
        best = stored.get(key)
        used, met = [], []
        for seed in range(args.num_seeds):
            density = sd.spectral_density(A, tol=args.tol, max_products=20_000, seed=seed)
            used.append(density.measure.num_products)
            met.append(distance(density.measure, e) <= args.tol)
        products = float(np.median(used))
        text = f"{best[0]} x {best[1]} | {best[0] * best[1]}" if best else " | "
        ratio = f"{products / (best[0] * best[1]):.2f}" if best else ""
        held = " (held out)" if name in HELD_OUT or name in UNTUNED else ""
        print(f"| {name}{held} | {text} | {products:.0f} | {ratio} | {100 * np.mean(met):.0f} % |", flush=True)


if __name__ == "__main__":
    main()
