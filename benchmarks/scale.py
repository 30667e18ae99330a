"""FastLanczos at n = 10⁹ in float32: the 3-D Laplacian on 1000³ points without a matrix, 16 steps of one probe.

The run has a process of its own, whose peak of resident memory is counted in vectors; three are promised, product
included. The moments e₁ᵀTʲe₁ are compared with the exact tr(Aʲ)/n, in standard errors of the one probe.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from math import comb
from typing import Any

import numpy as np
from harness import Report, at_most, options, peak_bytes
from numpy.typing import NDArray

import specdens as sd
from specdens._vectors.threads import num_threads
from specdens.adapters import available_bytes

NUM_MOMENTS = 8
PEAK = 3.3  # vectors that a run may take, with what the libraries need
Floats = NDArray[np.float64]


class Laplacian3D:
    """The 7-point Laplacian, Dirichlet, plane by plane: a product makes its result and nothing else of its size."""

    def __init__(self, m: int) -> None:
        self.m, self.shape, self.dtype = m, (m**3, m**3), np.dtype(np.float32)

    def __matmul__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        m = self.m
        cube, y = x.reshape(m, m, m), np.empty_like(x)
        out = y.reshape(m, m, m)
        count = num_threads()
        parts = [(part * m // count, (part + 1) * m // count) for part in range(count)]
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(lambda part: self._planes(cube, out, *part), parts))
        return y

    def _planes(self, x: Any, y: Any, first: int, last: int) -> None:
        for i in range(first, last):
            plane = y[i]
            np.multiply(x[i], np.float32(6), out=plane)
            if i > 0:
                plane -= x[i - 1]
            if i < self.m - 1:
                plane -= x[i + 1]
            plane[1:] -= x[i, :-1]
            plane[:-1] -= x[i, 1:]
            plane[:, 1:] -= x[i, :, :-1]
            plane[:, :-1] -= x[i, :, 1:]


def exact_moments(m: int, count: int) -> Floats:
    """Return tr(Aʲ)/n for j < count from the moments of the 1-D Laplacian: A is a sum of three that commute."""
    one = 2 - 2 * np.cos(np.pi * np.arange(1, m + 1) / (m + 1))
    single = np.array([np.mean(one**j) for j in range(count)])

    def plus(a: Floats, b: Floats) -> Floats:
        return np.array([sum(comb(j, i) * a[i] * b[j - i] for i in range(j + 1)) for j in range(count)])

    return plus(plus(single, single), single)


def child(m: int, num_steps: int) -> None:
    """Run in this process, and print what it took."""
    sd.fast_lanczos(Laplacian3D(64), num_steps=3)  # what the libraries need for themselves
    before, started = peak_bytes(), time.perf_counter()
    measure = sd.fast_lanczos(Laplacian3D(m), num_steps=num_steps)
    seconds, num_bytes = time.perf_counter() - started, peak_bytes() - before
    found = {"seconds": seconds, "vectors": num_bytes / (4 * m**3)}
    print(json.dumps(found | {"alphas": list(measure.alphas[0]), "betas": list(measure.betas[0])}))


def report_run(report: Report, m: int, num_steps: int) -> None:
    """Start the process and report what it found."""
    command = [sys.executable, __file__, "--child", str(m), "--num-steps", str(num_steps)]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    where = f"matrix-free 3-D Laplacian, n = {m**3:.0e}, float32, {num_steps} steps"
    alphas, betas = np.array(found["alphas"]), np.array(found["betas"])[: num_steps - 1]
    T = np.diag(alphas) + np.diag(betas, 1) + np.diag(betas, -1)
    exact = exact_moments(m, 2 * NUM_MOMENTS + 1)
    report.add(where, "steps", alphas.size)
    report.add(where, "peak of memory, in vectors", found["vectors"], goal=at_most(3.15))
    errors = []
    for j in range(1, NUM_MOMENTS + 1):
        moment = np.linalg.matrix_power(T, j)[0, 0]
        errors.append(abs(moment - exact[j]) / np.sqrt(2 * (exact[2 * j] - exact[j] ** 2) / (m**3 + 2)))
        report.add(where, f"tr A^{j} / n = {exact[j]:.8g}: relative error", abs(moment / exact[j] - 1))
    report.add(where, f"largest error of tr A … tr A^{NUM_MOMENTS}, in standard errors", max(errors), goal=at_most(4.0))
    report.add(where, "per step", found["seconds"] / num_steps, "s")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--side", type=int, default=1000, help="points along an edge of the cube")
    parser.add_argument("--num-steps", type=int, default=16)
    parser.add_argument("--child", type=int, help="run in this process, with so many points along an edge")
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.num_steps)
        return
    report = Report(__file__, arguments)
    m = 100 if arguments.tiny else arguments.side
    if (needed := PEAK * 4 * m**3) > available_bytes():
        report.skip(f"needs {needed / 1e9:.3g} GB of memory")
    else:
        report_run(report, m, arguments.num_steps)
    report.write()


if __name__ == "__main__":
    main()
