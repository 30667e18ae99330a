"""Peak memory of fast_lanczos, in vectors, and the accuracy of its inner products at large n.

By default n = 10⁸ in float32, NumPy and torch, as the promise is stated; with --tiny seconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
from typing import Any

import numpy as np
from harness import peak_bytes, peer


def laplacian(x: Any) -> Any:
    """Return the product of the 1-D Laplacian with x, which allocates the result and nothing else."""
    y = 2 * x
    y[1:] -= x[:-1]
    y[:-1] -= x[1:]
    return y


class Laplacian:
    """The 1-D Laplacian, with products of blocks."""

    def __init__(self, n: int, dtype: Any) -> None:
        self.shape, self.dtype = (n, n), dtype

    def __matmul__(self, x: Any) -> Any:
        return laplacian(x)


def measure_lanczos(library: str, n: int, block: int, num_steps: int, results: Any) -> None:
    """Run fast_lanczos in a process of its own; report its peak in vectors and the error of its second moment."""
    import specdens as sd

    xp = __import__(library)
    sd.fast_lanczos(Laplacian(2**18, xp.float32), num_steps=2)  # what the library needs for itself
    A = Laplacian(n, xp.float32)
    before = peak_bytes()
    measure = sd.fast_lanczos(A, num_steps=num_steps, num_probes=block, block_size=block)
    vectors = (peak_bytes() - before) / (4 * n * block)
    exact = 6 - 2 / n  # tr A²/n
    results.send((vectors, abs(measure.moments(3)[2] / exact - 1) / np.sqrt(measure.sampling_variance * 34 / 36)))


def measure_products(library: str, n: int, block: int, results: Any) -> None:
    """Report the relative error of norms of float32 vectors against their exact values."""
    from specdens._vectors.factory import vectors_like

    xp = __import__(library)
    shape = (n,) if block == 1 else (n, block)
    x = xp.full(shape, 0.1, dtype=xp.float32)
    vectors = vectors_like(x)
    exact = float(np.float32(0.1)) * np.sqrt(n)
    results.send(float(np.max(np.abs(np.atleast_1d(vectors.to_host(vectors.norm(x))) / exact - 1))))


def in_process(target: Any, *args: Any) -> Any:
    """Return what `target` sends, run in a fresh process, or raise if that ends without a word."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(*args, sender))
    process.start()
    sender.close()  # the process has the only other end: when it dies, there is nothing to wait for
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{target.__name__}: the process has ended with exit code {process.exitcode}") from None
    finally:
        process.join()


def main() -> None:
    """Print one row per library and block size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10**8)
    parser.add_argument("--num-steps", type=int, default=4)
    parser.add_argument("--tiny", action="store_true", help="n = 4·10⁶: seconds, for CI")
    args = parser.parse_args()
    n = 4 * 10**6 if args.tiny else args.n
    print(f"| n = {n:.0e}, float32 | peak, in vectors per probe | tr A²/n, in standard errors | error of a norm |")
    print("|---|---|---|---|")
    for library in ("numpy", "torch"):
        if peer(library) is None:
            continue
        for block in (1, 4):
            size = n if block == 1 else n // 4
            vectors, moment = in_process(measure_lanczos, library, size, block, args.num_steps)
            error = in_process(measure_products, library, size, block)
            row = f"| {library}, block of {block}, {size:.1e} each | {vectors:.2f} | {moment:.1f} | {error:.1e} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
