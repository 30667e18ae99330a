"""Kill a real run again and again, resume it, and print how that went as JSON.

Usage: python tests/fuzz/kill_runs.py FOLDER METHOD NUM_KILLS
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import specdens as sd
from specdens._running import monitor as _monitor

N = 60_000


def product(x: np.ndarray) -> np.ndarray:
    """Return the product with a diagonal of three outliers and a bulk, slowly enough to be killed."""
    time.sleep(0.002)
    return DIAGONAL * x


DIAGONAL = np.concatenate([[40.0, -30.0, 20.0], np.cos(np.arange(N - 3.0))])


def run(method: str, checkpoint: Path, result: Path) -> None:
    """Make the run, from its checkpoint if there is one, and save what must not depend on kills."""
    _monitor._PAUSE = 3.0  # more writes than a user would want
    density = sd.spectral_density(
        sd.as_operator(product, shape=N, dtype="float64"),
        method=method,
        num_steps=80,
        num_probes=2,
        rank=3,
        checkpoint=checkpoint,
        checkpoint_interval=0.02,
        progress=False,
    )
    rows = density.measure.mus if method == "kpm" else np.concatenate([*density.measure.alphas, *density.measure.betas])
    with open(result.with_suffix(".part"), "wb") as file:
        np.savez(file, rows=rows, values=density.values, pairs=density.outliers.values, V=density.outliers.vectors)
    os.replace(result.with_suffix(".part"), result)


def writes(checkpoint: Path) -> list[Path]:
    """Return the temporary files of writes of a checkpoint that have not ended."""
    return list(checkpoint.parent.glob(f".{checkpoint.name}.*.checkpoint"))


def attempt(method: str, checkpoint: Path, result: Path, delay: float, *, in_write: bool) -> str:
    """Start the run in a process of its own and kill it after a while; return where that was, or "finished"."""
    child = os.fork()
    if child == 0:
        run(method, checkpoint, result)
        os._exit(0)
    for leftover in writes(checkpoint):
        leftover.unlink()
    end = time.perf_counter() + delay
    while time.perf_counter() < end or (in_write and not writes(checkpoint)):
        if os.waitpid(child, os.WNOHANG)[0]:
            return "finished"
    where = "in a write" if writes(checkpoint) else "between" if checkpoint.exists() else "before the first"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return where


def main() -> None:
    """Compare killed and resumed runs with one that was left alone."""
    folder, method, num_kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    run(method, folder / "whole.npz", folder / "expected.npz")
    rng = np.random.default_rng(0)
    counts = {"in a write": 0, "between": 0, "before the first": 0, "finished": 0}
    equal = True
    while sum(counts.values()) - counts["finished"] < num_kills:
        checkpoint, result = folder / "killed.npz", folder / "result.npz"
        where = attempt(method, checkpoint, result, rng.uniform(0.02, 0.4), in_write=rng.random() < 0.4)
        counts[where] += 1
        if where == "finished":
            with np.load(folder / "expected.npz") as expected, np.load(result) as found:
                equal &= all(np.array_equal(expected[name], found[name]) for name in expected.files)
            checkpoint.unlink()
            result.unlink()
    if (folder / "killed.npz").exists():
        run(method, folder / "killed.npz", folder / "result.npz")
        with np.load(folder / "expected.npz") as expected, np.load(folder / "result.npz") as found:
            equal &= all(np.array_equal(expected[name], found[name]) for name in expected.files)
    print(json.dumps({**counts, "equal": bool(equal)}))
    sys.exit(not equal)


if __name__ == "__main__":
    main()
