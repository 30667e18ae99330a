"""The paper's synthetic verification: two matrices whose eigenvalues can be computed, and their densities."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._density.density import Density
from specdens._spectral_density import spectral_density
from specdens._storage.atomic_write import replacing

Matrix = NDArray[np.float64]


def spiked_covariance(n: int = 2000, seed: int = 0) -> Matrix:
    """Return diag(5, 4, 3, 0, …) + ZZᵀ/n with normal Z: a bulk on [0, 4], and outliers at 6.25, 5.33 and 4.5."""
    Z = np.random.default_rng(seed).standard_normal((n, n))
    Y = Z @ Z.T / n
    Y[range(3), range(3)] += [5.0, 4.0, 3.0]
    return Y


def pareto_covariance(n: int = 1000, seed: int = 0) -> Matrix:
    """Return ZZᵀ/n with n × n/2 entries of Pareto's law of index 1: half zeros, and a tail that falls as λ^(−3/2)."""
    Z = np.random.default_rng(seed).pareto(1.0, (n, n // 2)) + 1.0
    return np.asarray(Z @ Z.T / n)


def _eigenvalues(Y: Matrix) -> Matrix:
    return np.asarray(np.linalg.eigvalsh(Y), dtype=np.float64)


def run_demo(picture: Path) -> str:
    """Draw both spectra over their exact eigenvalues; return a report, and save a picture if matplotlib is there."""
    spiked, pareto = spiked_covariance(), pareto_covariance()
    started = time.perf_counter()
    density = spectral_density(spiked, rank=3, num_probes=10)
    log_density = spectral_density(pareto, function="log", num_probes=10)
    seconds = time.perf_counter() - started
    exact, exact_log = _eigenvalues(spiked), np.log(np.abs(_eigenvalues(pareto)) + 1e-5)
    pairs = density.outliers
    found = "none" if pairs is None else ", ".join(f"{value:.6f}" for value in np.sort(pairs.values))
    wanted = ", ".join(f"{value:.6f}" for value in exact[-3:])
    lines = [
        "Spiked covariance, 2000 × 2000: three outliers, deflated, and the bulk",
        repr(density),
        f"  outliers      found {found}",
        f"                exact {wanted}",
        "",
        "Pareto covariance, 1000 × 1000, on a logarithmic axis",
        repr(log_density),
        "",
        f"{seconds:.1f} s for both densities.",
    ]
    if importlib.util.find_spec("matplotlib") is None:
        return "\n".join([*lines, 'For a picture: pip install "specdens[plot]"'])
    _draw(density, exact, log_density, exact_log, picture)
    return "\n".join([*lines, f"Picture: {picture}"])


def _draw(density: Density, exact: Matrix, log_density: Density, exact_log: Matrix, picture: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _panel(left, density, exact[:-3], (exact.size - 3) / exact.size)
    left.set(title="Spiked covariance: bulk and three outliers", xlabel="λ", xlim=(-0.3, 6.8), ylim=(0, 1.5))
    _panel(right, log_density, exact_log, 1.0, is_log=True)
    right.set(title="Pareto covariance: zeros, and a power law", ylim=(1e-4, 10))
    left.legend(loc="upper center")
    with replacing(picture) as file:
        figure.savefig(file, format="png", dpi=150)


def _panel(ax: Any, density: Density, exact: Matrix, share: float, *, is_log: bool = False) -> None:
    counts, edges = np.histogram(exact, bins=100)
    ax.stairs(counts / counts.sum() * share / np.diff(edges), edges, fill=True, color="0.82", label="exact eigenvalues")
    density.plot(ax, log_y=is_log, annotate_outliers=not is_log)
