"""What checkpoints cost: the share of a run that is spent writing them, at the default interval.

Takes minutes, at n = 2·10⁷ in float32; with --tiny seconds, at a shorter interval.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from memory import laplacian

import specdens as sd
from specdens._running.checkpoint import CheckpointFile


def main() -> None:
    """Print the number of writes, what they took, and their share of the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=2 * 10**7)
    parser.add_argument("--num-steps", type=int, default=500)
    parser.add_argument("--interval", type=float, default=60.0)
    parser.add_argument("--tiny", action="store_true", help="n = 10⁵ and an interval of 0.1 s: seconds, for CI")
    args = parser.parse_args()
    n, num_steps, interval = (10**5, 300, 0.1) if args.tiny else (args.n, args.num_steps, args.interval)
    writes: list[float] = []
    write = CheckpointFile.write

    def timed(*arguments: object) -> None:
        started = time.perf_counter()
        write(*arguments)  # type: ignore[arg-type]
        writes.append(time.perf_counter() - started)

    CheckpointFile.write = timed  # type: ignore[method-assign, assignment]
    with tempfile.TemporaryDirectory() as folder:
        monitor = sd.Monitor(checkpoint=Path(folder) / "run.npz", checkpoint_interval=interval, progress=False)
        started = time.perf_counter()
        sd.fast_lanczos(sd.as_operator(laplacian, shape=n, dtype="float32"), num_steps=num_steps, monitor=monitor)
        seconds = time.perf_counter() - started
    print("| n | seconds | writes | mean write | share of the run |")
    print("|---|---|---|---|---|")
    share = 100 * sum(writes) / seconds
    print(f"| {n:.0e} | {seconds:.1f} | {len(writes)} | {np.mean(writes):.2g} s | {share:.2f} % |")


if __name__ == "__main__":
    main()
