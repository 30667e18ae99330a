"""One Lanczos step of one probe on the 2-D Laplacian with 10⁶ unknowns in CSR: ours, imate, primate, NumPy, BLAS.

Every candidate makes whole steps (product, two inner products, two updates, normalisation) without
reorthogonalisation. A STREAM triad runs in the same rounds, and tells what share of the memory's bandwidth our steps
reach, by the least traffic they need: read v and v_prev, write w in the pass with the product; read w and v, write w
in the other; read the matrix once for all probes of a block. With several probes the loops on SciPy's product also run
in threads of Python, as many as there are processors, each with a probe of its own and one thread of BLAS.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import (
    Goal,
    Report,
    Times,
    at_most,
    fastest,
    has_fast_path,
    interleaved,
    lanczos_steps,
    options,
    peer,
    per,
    ratios,
)
from lattices import laplacian_2d, matrix_bytes
from peers import Work, blas_steps, imate_run, inplace_block_steps, primate_runs, run_in_threads, textbook_steps
from triad import Triad

import specdens as sd
from specdens._vectors.threads import num_threads

ON_SCIPY = {"textbook NumPy": textbook_steps, "in-place BLAS": blas_steps}

SMALL = ((100, 8, 200), (100, 1, 800), (316, 8, 60), (316, 1, 240))  # sides, probes, and steps of a round


def candidates(A: Any, num_probes: int, steps: int) -> dict[str, tuple[Work, int]]:
    """Return what each candidate does in a round, and how many steps of one probe that is."""
    block, n, at_once = num_probes * steps, A.shape[0], min(num_threads(), num_probes)
    work: dict[str, tuple[Work, int]] = {
        "specdens": (lanczos_steps(A, num_probes, steps), block),
    }
    for name, one in ON_SCIPY.items():
        work[name] = (one(A.__matmul__, n, A.dtype, steps), steps)
        if num_probes > 1:
            threads = run_in_threads([one(A.__matmul__, n, A.dtype, steps) for _ in range(at_once)])
            work |= {f"{name}, a thread for each probe": (threads, at_once * steps)} if threads else {}
    if has_fast_path():
        work["specdens without fast"] = (lanczos_steps(A, num_probes, steps, fast=False), block)
    if num_probes > 1:
        work["in-place NumPy on blocks"] = (inplace_block_steps(A, num_probes, steps), block)
    if (primate := peer("primate.lanczos")) is not None:
        work["primate"] = (primate_runs(primate, A, at_once, 3 * steps), at_once * 3 * steps)
    if (imate := peer("imate")) is not None:
        degree = min(steps, max(5, n // 10**4))  # on small matrices the eigenproblem of many steps would be seen
        for name, factor in (("short", 1), ("long", 3)):
            run = imate_run(imate, A, num_probes, factor * degree)
            work[f"imate, {name}"] = (again(run, steps // degree), steps // degree * degree * num_probes)
    return work


def again(run: Work, count: int) -> Work:
    return lambda: [run() for _ in range(count)]


def measure(A: Any, num_probes: int, steps: int, repeats: int, triad: Triad | None) -> tuple[Times, list[float]]:
    """Return the times per step and probe, and the bandwidth of the triad, if it is to run, in bytes per second."""
    work = candidates(A, num_probes, steps)
    rounds = {name: function for name, (function, _) in work.items()} | (triad.candidates() if triad else {})
    times = interleaved(rounds, repeats)
    triads = {name: times.pop(name) for name in list(times) if name.startswith("triad")}
    bandwidth = [triad.num_bytes / min(round_) for round_ in zip(*triads.values(), strict=True)] if triad else []
    if "imate, long" in times:  # what the further steps take: the start and the probes are not counted
        long, short = np.array(times.pop("imate, long")), np.array(times.pop("imate, short"))
        function, units = work["imate, short"]
        times["imate"], work["imate"] = list(long - short), (function, 2 * units)
    return {name: per(values, work[name][1]) for name, values in times.items()}, bandwidth


def goals(num_probes: int, dtype: str, times: Times) -> dict[str, Goal]:
    """Return the goals of the ratios to the peers."""
    if num_probes > 1:
        return {"imate": at_most(0.5), "textbook NumPy": at_most(0.25)} if dtype == "float64" else {}
    return {fastest({name: times[name] for name in times if not name.startswith("specdens")}): at_most(1.0)}


def compare(report: Report, A: Any, num_probes: int, steps: int, repeats: int, triad: Triad | None) -> None:
    """Report one setting; without a triad, which small matrices in the cache have no use for, without goals."""
    n, dtype = A.shape[0], str(A.dtype)
    where = f"Lanczos, CSR Laplacian, n = {n:.0e}, {dtype}, {num_probes} probe{'s' * (num_probes > 1)}"
    times, bandwidth = measure(A, num_probes, steps, repeats, triad)
    report.add_times(where, times, "ms", 1e3)
    goal = goals(num_probes, dtype, times) if triad else {}
    plain = "specdens without fast" if "specdens without fast" in times else "specdens"
    for name in times:
        if not name.startswith("specdens"):
            report.add(where, f"specdens / {name}", ratios(times["specdens"], times[name]), goal=goal.get(name))
    for name in ("in-place BLAS", "in-place NumPy on blocks"):
        if name in times:
            bound = at_most(1.0) if triad and name == "in-place BLAS" and dtype == "float64" else None
            report.add(where, f"specdens without fast / {name}", ratios(times[plain], times[name]), goal=bound)
    if triad is None:
        return
    least = 6 * n * A.dtype.itemsize + matrix_bytes(A) / num_probes
    report.add(where, "bandwidth of the triad", [1e-9 * rate for rate in bandwidth], "GB/s")
    share = [least / seconds / rate for seconds, rate in zip(times["specdens"], bandwidth, strict=True)]
    report.add(where, f"share of it that a step reaches ({least / 1e6:.3g} MB at least)", share)


def compare_precisions(report: Report, m: int, num_probes: int, steps: int, repeats: int) -> None:
    """Report float32 against float64."""
    work = {
        name: lanczos_steps(laplacian_2d(m, dtype), num_probes, steps)
        for name, dtype in (("float32", np.float32), ("float64", np.float64))
    }
    times = interleaved(work, repeats)
    where = f"Lanczos, CSR Laplacian, n = {m * m:.0e}, {num_probes} probes"
    report.add(where, "float32 / float64", ratios(times["float32"], times["float64"]), goal=at_most(0.7))


def compare_calls(report: Report, A: Any, num_steps: int, num_probes: int, repeats: int) -> None:
    """Report a whole public call, with its start vectors and checks."""
    if (imate := peer("imate")) is None:
        return
    work: dict[str, Work] = {
        "specdens": lambda: sd.fast_lanczos(A, num_steps=num_steps, num_probes=num_probes).nodes,
        "imate": imate_run(imate, A, num_probes, num_steps),
    }
    times = interleaved(work, repeats)
    where = f"whole call, CSR Laplacian, n = {A.shape[0]:.0e}, {num_steps} steps, {num_probes} probes"
    report.add_times(where, times, "s", 1.0)
    report.add(where, "specdens / imate", ratios(times["specdens"], times["imate"]), goal=at_most(0.4))


def main() -> None:
    arguments = options(__doc__).parse_args()
    m, steps, repeats = (100, 2, 1) if arguments.tiny else (1000, 10, arguments.repeats)
    longer = steps if arguments.tiny else 40  # of one probe: the first steps after a pause are slower, for everybody
    report, triad = Report(__file__, arguments), Triad(10**5 if arguments.tiny else 3 * 10**7)
    A = laplacian_2d(m)
    for num_probes in (8, 10, 1):
        compare(report, A, num_probes, steps if num_probes > 1 else longer, repeats, triad)
    for num_probes in (8, 1):
        narrow = laplacian_2d(m, np.float32)
        compare(report, narrow, num_probes, steps if num_probes > 1 else longer, repeats, triad)
    for side, num_probes, many in ((30, 8, 2),) if arguments.tiny else SMALL:
        compare(report, laplacian_2d(side), num_probes, many, repeats, None)
    compare_precisions(report, m, 8, steps, repeats)
    compare_calls(report, A, 64, 8, max(1, repeats // 2))
    report.write()


if __name__ == "__main__":
    main()
