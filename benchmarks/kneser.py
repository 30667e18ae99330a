"""The Kneser graph K(23, 11): 1,352,078 vertices, 12 distinct eigenvalues, so that 12 steps tell them all.

Vertices are the 11-subsets of 23 elements, joined where they are disjoint. The eigenvalues are (−1)^i C(12−i, 11−i)
with multiplicity C(23, i) − C(23, i−1). Twenty steps are asked for as well, and must end at the twelfth.
"""

from __future__ import annotations

import time
from math import comb

import numpy as np
import scipy.sparse as sp
from harness import Report, at_most, options

import specdens as sd


def kneser(n: int, k: int) -> sp.csr_array:
    """Return the adjacency matrix of K(n, k) for n = 2k + 1: the complement of a subset without one of its elements."""
    masks = np.arange(2**n, dtype=np.int32)
    masks = masks[np.bitwise_count(masks) == k]
    rank = np.empty(2**n, dtype=np.int32)
    rank[masks] = np.arange(masks.size, dtype=np.int32)
    complement = masks ^ np.int32(2**n - 1)
    indices = np.empty((masks.size, k + 1), dtype=np.int32)
    rest = complement.copy()
    for column in range(k, -1, -1):  # without the lowest element the number is largest: columns in order
        lowest = rest & -rest
        indices[:, column] = rank[complement ^ lowest]
        rest ^= lowest
    starts = np.arange(0, indices.size + 1, k + 1, dtype=np.int32)
    return sp.csr_array((np.ones(indices.size), indices.ravel(), starts), shape=(masks.size, masks.size))


def spectrum(n: int, k: int) -> tuple[list[int], list[int]]:
    """Return the eigenvalues and their multiplicities, in rising order."""
    pairs = ((-1) ** i * comb(n - k - i, k - i) for i in range(k + 1))
    multiplicities = (comb(n, i) - (comb(n, i - 1) if i else 0) for i in range(k + 1))
    values, counts = zip(*sorted(zip(pairs, multiplicities, strict=True)), strict=True)
    return list(values), list(counts)


def run(report: Report, A: sp.csr_array, n: int, k: int, num_steps: int) -> None:
    """Report one run, and stop if it is not exact."""
    exact, multiplicities = spectrum(n, k)
    started = time.perf_counter()
    measure = sd.fast_lanczos(A, num_steps=num_steps, num_probes=2)
    seconds = time.perf_counter() - started
    where = f"Kneser graph K({n}, {k}), {A.shape[0]:,} vertices, {num_steps} steps asked for"
    steps = {len(alphas) for alphas in measure.alphas}
    if steps != {k + 1}:
        raise AssertionError(f"{where}: the probes took {steps} steps instead of {k + 1}")
    if np.any(measure.last_betas):  # zero where T is exact
        raise AssertionError(f"{where}: the run has not ended with a breakdown")
    error = max(float(np.max(np.abs(np.sort(nodes) - exact))) for nodes in measure.nodes)
    counts = [measure.count(value - 0.5, value + 0.5) for value in exact]
    off = max(abs(count.value - m) / count.stderr for count, m in zip(counts, multiplicities, strict=True))
    report.add(where, "steps until the breakdown", k + 1, goal=at_most(k + 1))
    report.add(where, f"largest error of the {k + 1} eigenvalues", error, goal=at_most(1e-8))
    report.add(where, "largest error of a multiplicity, in standard errors", off)
    report.add(where, "two probes", seconds, "s")
    if not error < 1e-8:
        raise AssertionError(f"{where}: an eigenvalue is off by {error:.1e}")


def main() -> None:
    arguments = options(__doc__).parse_args()
    n, k = (13, 6) if arguments.tiny else (23, 11)
    report = Report(__file__, arguments)
    A = kneser(n, k)
    for num_steps in (k + 1, k + 9):
        run(report, A, n, k, num_steps)
    report.write()


if __name__ == "__main__":
    main()
