"""Every kind of picture for every family of spectra on one sheet, for the eye.

``python benchmarks/contact_sheet.py sheet.png`` draws them; ``--family NAME`` draws one family in full size.
Orange is the exact spectrum, smoothed as the density is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import matplotlib as mpl
import numpy as np
import scipy.sparse as sp

mpl.use("Agg")
import matplotlib.pyplot as plt

import specdens as sd


def at_quantiles(density: Callable, lo: float, hi: float, n: int) -> np.ndarray:
    x = (lo + hi) / 2 - (hi - lo) / 2 * np.cos(np.linspace(0, np.pi, 100_001))
    middle = (x[1:] + x[:-1]) / 2
    mass = np.concatenate([[0.0], np.cumsum(density(middle) * np.diff(x))])
    return np.interp((np.arange(n) + 0.5) / n * mass[-1], mass, x)


def semicircle(n: int = 4000) -> np.ndarray:
    return at_quantiles(lambda x: np.sqrt(4 - x**2), -2, 2, n)


def marchenko_pastur(gamma: float, n: int = 4000) -> np.ndarray:
    a, b = (1 - np.sqrt(gamma)) ** 2, (1 + np.sqrt(gamma)) ** 2
    zeros = round(n * max(0.0, 1 - 1 / gamma))
    return np.concatenate([np.zeros(zeros), at_quantiles(lambda x: np.sqrt((b - x) * (x - a)) / x, a, b, n - zeros)])


def deepnet(n: int = 5000) -> np.ndarray:
    """Return a narrow core, wider shoulders, and outliers hundreds of times as far out, two of them negative."""
    rng = np.random.default_rng(0)
    shoulders, core = 0.2 * rng.standard_normal(n // 20), 0.02 * rng.standard_normal(n - n // 20 - 12)
    return np.concatenate([core, shoulders, [5, 7, 8, 9, 11, 14, 18, 25, 40, 60, -2, -3]])


def heavy_tail(n: int = 3000) -> np.ndarray:
    return np.where(np.arange(n) % 2 == 0, 1.0, -1.0) / ((np.arange(n) + 0.5) / n)


def laplacian(m: int = 60) -> np.ndarray:
    one = 2 - 2 * np.cos(np.arange(1, m + 1) * np.pi / (m + 1))
    return (one[:, None] + one).ravel()


def tree(n: int = 3000) -> np.ndarray:
    """Return the normalised Laplacian of a random tree: much of its spectrum is exactly 1."""
    rng = np.random.default_rng(1)
    parents = [int(rng.integers(i)) for i in range(1, n)]
    edges = sp.coo_array((np.ones(n - 1), (np.arange(1, n), parents)), shape=(n, n))
    A = (edges + edges.T).toarray()
    root = 1 / np.sqrt(A.sum(axis=1))
    return np.linalg.eigvalsh(np.eye(n) - root[:, None] * A * root)


FAMILIES: dict[str, Callable[[], np.ndarray]] = {
    "semicircle": semicircle,
    "Marchenko–Pastur 1/2": lambda: marchenko_pastur(0.5),
    "Marchenko–Pastur 2": lambda: marchenko_pastur(2.0),
    "spikes": lambda: np.concatenate([semicircle(3990), np.arange(20.0, 201.0, 20.0)]),
    "deepnet": deepnet,
    "heavy tail": heavy_tail,
    "chain": lambda: 2 * np.cos(np.arange(1, 4001) * np.pi / 4001),
    "2-D Laplacian": laplacian,
    "tree": tree,
    "two bands and a state between": lambda: np.concatenate([semicircle(2000) - 4, semicircle(2000) + 4, [0.3]]),
}

KINDS: dict[str, Callable[[sd.Density, object], object]] = {
    "default": lambda d, ax: d.plot(ax, label="specdens", color="C0"),
    "log_y": lambda d, ax: d.plot(ax, label="specdens", color="C0", log_y=True),
    "symlog, log_y": lambda d, ax: d.plot(ax, label="specdens", color="C0", x="symlog", log_y=True),
    "log density": lambda d, ax: d.measure.log_density().plot(ax, label="specdens", color="C0", log_y=True),
    "the paper's Gaussian": lambda d, ax: d.measure.density(kernel="gaussian").plot(ax, label="specdens", color="C0"),
}


def exact_like(density: sd.Density, eigenvalues: np.ndarray) -> np.ndarray:
    """Return the exact spectrum smoothed by the resolution of a density, without its atoms."""
    from specdens._density.folding import smoothed
    from specdens._density.kernel_width import interpolated_width
    from specdens._density.pieces import Pieces

    near = np.zeros(eigenvalues.size, dtype=bool)
    for x in density.atoms.positions:
        near |= np.abs(eigenvalues - x) <= 1e-6 * np.ptp(eigenvalues)
    rest = np.sort(eigenvalues[~near])
    mass = np.full(rest.size, 1 / eigenvalues.size)
    ends = sd.Interval(float(rest[0]), float(rest[-1]))
    return smoothed(
        density.edges, Pieces(rest, rest, mass), interpolated_width(density.grid, density.resolution), [ends]
    )


def draw(name: str, row: np.ndarray, num_steps: int, num_probes: int) -> None:
    eigenvalues = FAMILIES[name]()
    density = sd.fast_lanczos(sp.diags_array(eigenvalues), num_steps=num_steps, num_probes=num_probes).density()
    print(f"{name}\n{density}\n", flush=True)
    for ax, (kind, plot) in zip(row, KINDS.items(), strict=True):
        plot(density, ax)
        if kind in ("default", "log_y"):
            ax.plot(density.grid, exact_like(density, eigenvalues), color="C1", linewidth=0.7, zorder=0)
        ax.set_title(f"{name}: {kind}", fontsize="small")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", default="contact_sheet.png")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--probes", type=int, default=4)
    given = parser.parse_args()
    names = [given.family] if given.family else list(FAMILIES)
    shape = (len(names), len(KINDS)) if len(names) > 1 else (len(KINDS), 1)
    size = (4.2 * shape[1], 2.8 * shape[0]) if len(names) > 1 else (9, 4.5 * shape[0])
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
    for i, name in enumerate(names):
        draw(name, axes[i] if len(names) > 1 else axes[:, 0], given.steps, given.probes)
    figure.savefig(given.path, dpi=70)


if __name__ == "__main__":
    main()
