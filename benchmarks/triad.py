"""The bandwidth of the memory, by a triad as in STREAM: a = b + s c on arrays far beyond every cache."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from harness import Report, fastest, interleaved, options, peer, per

from specdens._vectors.threads import num_threads


class Triad:
    """The three arrays, and every way to run a triad that is installed."""

    def __init__(self, n: int) -> None:
        self.a, self.b, self.c = np.zeros(n), np.ones(n), np.ones(n)
        self.num_bytes = 24 * n
        """As STREAM counts: two reads and a write, not that a write may read first."""

    def candidates(self) -> dict[str, Callable[[], object]]:
        a, b, c = self.a, self.b, self.c
        found: dict[str, Callable[[], object]] = {"triad, NumPy in threads": self._numpy()}
        if (numba := peer("numba")) is not None:

            @numba.njit(parallel=True, fastmath=True)
            def triad(a, b, c, s):  # type: ignore[no-untyped-def]
                for i in numba.prange(a.size):
                    a[i] = b[i] + s * c[i]

            found["triad, numba"] = lambda: triad(a, b, c, 3.0)
        if (torch := peer("torch")) is not None:
            x, y, z = (torch.from_numpy(array) for array in (a, b, c))
            found["triad, torch"] = lambda: torch.add(y, z, alpha=3.0, out=x)
        return found

    def _numpy(self) -> Callable[[], object]:
        """Return the triad in chunks that stay in a core's cache between its two operations."""
        a, b, c, size = self.a, self.b, self.c, 2**14
        count = num_threads()
        threads = ThreadPoolExecutor(count)

        def part(bounds: tuple[int, int]) -> None:
            for first in range(*bounds, size):
                rows = slice(first, min(first + size, bounds[1]))
                np.multiply(c[rows], 3.0, out=a[rows])
                np.add(a[rows], b[rows], out=a[rows])

        parts = [(i * a.size // count, (i + 1) * a.size // count) for i in range(count)]
        return lambda: list(threads.map(part, parts))


def main() -> None:
    arguments = options(__doc__).parse_args()
    triad = Triad(10**6 if arguments.tiny else 3 * 10**7)
    report = Report(__file__, arguments)
    times = interleaved(triad.candidates(), 1 if arguments.tiny else arguments.repeats)
    for name, values in times.items():
        report.add("memory", name, [1e-9 / seconds for seconds in per(values, triad.num_bytes)], "GB/s")
    print(f"fastest: {fastest(times)}")
    report.write()


if __name__ == "__main__":
    main()
