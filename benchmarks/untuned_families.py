"""Spectra that no rule or constant of the package was chosen on, for the same measurements as `families`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg
from accuracy import levels
from families import ring
from numpy.typing import NDArray

Array = NDArray[Any]


@lru_cache
def banded(n: int) -> Array:
    """Return a symmetric random matrix of half bandwidth 10."""
    bands = np.random.default_rng(11).standard_normal((11, n))
    return scipy.linalg.eig_banded(bands, lower=True, eigvals_only=True)


def star_graphs(n: int) -> Array:
    """Return the adjacency matrices of stars with 2, 3, … leaves: zeros of high multiplicity and a pair from each."""
    leaves = np.arange(2, n)
    leaves = leaves[np.cumsum(leaves + 1) <= n]
    ends = np.sqrt(leaves)
    return np.concatenate([ends, -ends, np.zeros(n - 2 * leaves.size)])


def path_times_cycle(n: int) -> Array:
    """Return the adjacency matrix of a path times a cycle: nearly every eigenvalue is double."""
    m = round(n**0.5)
    return np.add.outer(2 * np.cos(np.pi * np.arange(1, m + 1) / (m + 1)), ring(m + 2)).ravel()


@lru_cache
def random_regular(n: int) -> Array:
    """Return the sum of two random permutations and their transposes: a random graph of degree 4."""
    rng, matrix = np.random.default_rng(12), np.zeros((n, n))
    for _ in range(2):
        matrix[np.arange(n), rng.permutation(n)] += 1
    return np.linalg.eigvalsh(matrix + matrix.T)


@lru_cache
def hilbert_sum(n: int) -> Array:
    """Return a Hilbert matrix of order n/4 and three smaller multiples of it: geometric decay down to rounding."""
    i = np.arange(n // 4)
    one = np.clip(np.linalg.eigvalsh(1.0 / (i[:, None] + i + 1)), 1e-15, None)
    return np.multiply.outer([1.0, 0.7, 0.5, 0.2], one).ravel()


def clusters(n: int) -> Array:
    """Return two levels, each a cluster of width 1e-3, with a fifth of the eigenvalues in the upper one."""
    upper = n // 5
    return np.append(1e-3 * levels(n - upper), 1 + 1e-3 * levels(upper) ** 2)


def kronecker_sum(n: int) -> Array:
    """Return the sum of two random matrices on the two factors of a product space."""
    m = round(n**0.5)
    rng = np.random.default_rng(13)
    one, two = (np.linalg.eigvalsh((g + g.T) / np.sqrt(2 * m)) for g in rng.standard_normal((2, m, m)))
    return np.add.outer(one, two).ravel()


def pareto(n: int) -> Array:
    return np.random.default_rng(14).pareto(1.5, n)


def repeated_blocks(n: int) -> Array:
    """Return five equal random blocks: every eigenvalue five times."""
    g = np.random.default_rng(15).standard_normal((n // 5, n // 5))
    return np.repeat(np.linalg.eigvalsh((g + g.T) / np.sqrt(2 * (n // 5))), 5)


def _gamma(n: int) -> Array:
    return np.random.default_rng(16).gamma(2.0, size=n)


UNTUNED: dict[str, Callable[[int], Array]] = {
    "banded": banded,
    "star graphs": star_graphs,
    "path times cycle": path_times_cycle,
    "random regular": random_regular,
    "Hilbert": hilbert_sum,
    "two clusters": clusters,
    "Kronecker sum": kronecker_sum,
    "Pareto 1.5": pareto,
    "five equal blocks": repeated_blocks,
    "gamma": _gamma,
    "gamma, times 1e100": lambda n: 1e100 * _gamma(n),
    "gamma, times 1e-100": lambda n: 1e-100 * _gamma(n),
    "gamma, plus 1e4": lambda n: 1e4 + _gamma(n),
}
