"""Eigenvalues of known laws, and operators that have them."""

from __future__ import annotations

import numpy as np
import scipy.sparse

import specdens as sd


def at_quantiles(density, lo: float, hi: float, n: int) -> np.ndarray:
    """Return n eigenvalues at the quantiles of a law with the given density on [lo, hi]."""
    # Chebyshev points resolve densities with square-root edges
    x = (lo + hi) / 2 - (hi - lo) / 2 * np.cos(np.linspace(0, np.pi, 200_001))
    middle = (x[1:] + x[:-1]) / 2
    mass = np.concatenate([[0.0], np.cumsum(density(middle) * np.diff(x))])
    return np.interp((np.arange(n) + 0.5) / n * mass[-1], mass, x)


def semicircle(n: int, radius: float = 2.0) -> np.ndarray:
    """Wigner's law."""
    return at_quantiles(lambda x: np.sqrt(radius**2 - x**2), -radius, radius, n)


def marchenko_pastur(n: int, gamma: float) -> np.ndarray:
    """Return the law of Marchenko and Pastur, with its atom at zero for gamma > 1."""
    a, b = (1 - np.sqrt(gamma)) ** 2, (1 + np.sqrt(gamma)) ** 2
    num_zeros = round(n * max(0.0, 1 - 1 / gamma))
    bulk = at_quantiles(lambda x: np.sqrt((b - x) * (x - a)) / x, a, b, n - num_zeros)
    return np.concatenate([np.zeros(num_zeros), bulk])


def spiked(n: int) -> np.ndarray:
    """Return a semicircle of radius 2 with ten spikes at 20, 40, …, 200."""
    return np.concatenate([semicircle(n - 10), np.arange(20.0, 201.0, 20.0)])


def pareto(n: int) -> np.ndarray:
    """Return a symmetric heavy tail: λ = ±1/u."""
    u = (np.arange(n) + 0.5) / n
    return np.where(np.arange(n) % 2 == 0, 1.0, -1.0) / u


def chain(n: int) -> np.ndarray:
    """Return the tight-binding chain with hopping 1: 2 cos(iπ/(n+1))."""
    return 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1))


def laplacian_2d(m: int) -> np.ndarray:
    """Return the eigenvalues of the five-point Laplacian on an m × m grid."""
    one = 2 - 2 * np.cos(np.arange(1, m + 1) * np.pi / (m + 1))
    return np.sort((one[:, None] + one[None, :]).ravel())


FAMILIES = {
    "semicircle": semicircle,
    "Marchenko–Pastur 1/2": lambda n: marchenko_pastur(n, 0.5),
    "Marchenko–Pastur 2": lambda n: marchenko_pastur(n, 2.0),
    "semicircle with spikes": spiked,
    "symmetric Pareto": pareto,
}


def diagonal(eigenvalues: np.ndarray) -> scipy.sparse.dia_array:
    """Return the sparse diagonal operator with the given eigenvalues."""
    return scipy.sparse.diags_array(np.asarray(eigenvalues, dtype=np.float64), format="dia")


def rotated(eigenvalues: np.ndarray, seed: int = 0, *, is_complex: bool = False) -> np.ndarray:
    """Return a dense matrix with the given eigenvalues and random eigenvectors."""
    rng = np.random.default_rng(seed)
    n = len(eigenvalues)
    Z = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if is_complex else 0)
    Q, _ = np.linalg.qr(Z)
    A = (Q * eigenvalues) @ Q.conj().T
    return (A + A.conj().T) / 2


def exact_w1(cdf, eigenvalues: np.ndarray) -> float:
    """Return the W1 distance between a measure's best estimate and the exact eigenvalues."""
    from specdens._distributions.cdf import Cdf, wasserstein

    n = len(eigenvalues)
    return wasserstein(cdf, Cdf.of_atoms(np.sort(eigenvalues), np.full(n, 1.0 / n)))


def measured(eigenvalues: np.ndarray, *, num_steps: int = 96, num_probes: int = 4, seed: int = 0) -> sd.SpectralMeasure:
    """Return the measure that a Lanczos run leaves of a diagonal matrix with these eigenvalues."""
    steps = min(num_steps, len(eigenvalues))
    return sd.fast_lanczos(diagonal(eigenvalues), num_steps=steps, num_probes=num_probes, seed=seed)
