"""Test spectra with exact eigenvalues, for measurements of coverage and of errors per product.

Every family is a function of the dimension. `KINDS` says what is special about it: "outliers" (few eigenvalues carry
traces and moments), "bulk" (smooth densities) or "multiple" (degenerate eigenvalues). `HELD_OUT` names the families
that no constant in the package was chosen on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse
from accuracy import deepnet, hypercube, levels, marchenko_pastur, quantiles, semicircle, spiked
from numpy.typing import NDArray
from scipy.special import binom, ndtri

Array = NDArray[Any]


def operator(eigenvalues: Array) -> Any:
    """Return a diagonal operator: products cost next to nothing, and its spectrum is known."""
    return scipy.sparse.diags_array(np.asarray(eigenvalues, dtype=np.float64)).tocsr()


# -- outliers ----------------------------------------------------------------------------------------------------------


def spiked_wishart(n: int) -> Array:
    """Return Marchenko–Pastur with γ = 1/2 and the images of spikes 5, 4, 3 [Baik, Ben Arous, Péché]."""
    spikes = np.array([5.0, 4.0, 3.0])
    return np.append(marchenko_pastur(n - 3, 0.5), spikes + 0.5 * spikes / (spikes - 1))


@lru_cache
def rbf(n: int) -> Array:
    """Return the eigenvalues of a Gaussian kernel on n uniform points of the unit cube: they decay without a bulk."""
    points = np.random.default_rng(0).random((n, 3))
    squares = np.square(points).sum(axis=1)
    distances = squares[:, None] + squares - 2 * points @ points.T
    return np.clip(np.linalg.eigvalsh(np.exp(-2 * distances)), 1e-14, None)


def language_model(n: int) -> Array:
    """Return a two-sided core, a tail of 60 outliers with ratio 1.15, and a few negative ones."""
    core = 1e-4 * np.sinh(3 * ndtri(levels(n - 65)))
    return np.concatenate([np.clip(core, -0.3, 0.3), 1.15 ** np.arange(60), -(2.0 ** np.arange(5))])


# -- bulks -------------------------------------------------------------------------------------------------------------


@lru_cache
def goe(n: int) -> Array:
    matrix = np.random.default_rng(1).standard_normal((n, n))
    return np.linalg.eigvalsh((matrix + matrix.T) / np.sqrt(2 * n))


def graphene(n: int) -> Array:
    """Return a honeycomb lattice with open ends in one direction and periodic ones in the other."""
    m = round((n / 2) ** 0.5)
    k, q = 2 * np.pi * (np.arange(m) + 0.37) / m, 2 * np.pi * (np.arange(m) + 0.21) / m
    energy = np.abs(1 + np.exp(1j * k)[:, None] + np.exp(1j * q))
    return np.concatenate([energy.ravel(), -energy.ravel()])


@lru_cache
def erdos_renyi(n: int) -> Array:
    rng = np.random.default_rng(2)
    upper = np.triu(rng.random((n, n)) < 10 / n, 1).astype(np.float64)
    return np.linalg.eigvalsh(upper + upper.T)


@lru_cache
def anderson(n: int) -> Array:
    disorder = 4 * np.random.default_rng(3).random(n)
    ones = np.ones(n - 1)
    return scipy.linalg.eigvalsh_tridiagonal(disorder, ones)


def laplacian_2d(n: int) -> Array:
    """Return an open grid of sides 1 : 1.1, whose eigenvalues are simple."""
    m = round((n / 1.1) ** 0.5)
    one, two = (2 - 2 * np.cos(np.pi * np.arange(1, k + 1) / (k + 1)) for k in (m, round(1.1 * m) + 1))
    return np.add.outer(one, two).ravel()


# -- multiplicities ----------------------------------------------------------------------------------------------------


def ring(n: int) -> Array:
    return 2 * np.cos(2 * np.pi * np.arange(n) / n)


def torus(n: int) -> Array:
    one = ring(round(n**0.5))
    return np.add.outer(one, one).ravel()


def periodic_cube(n: int) -> Array:
    one = ring(round(n ** (1 / 3)))
    return np.add.outer(np.add.outer(one, one), one).ravel()


def kneser(n: int) -> Array:
    """Return the Kneser graph whose size is nearest to n, from those with subsets of three."""
    v = min(range(7, 60), key=lambda v: abs(binom(v, 3) - n))
    values = [(-1) ** i * binom(v - 3 - i, 3 - i) for i in range(4)]
    sizes = [round(binom(v, i) - (binom(v, i - 1) if i else 0)) for i in range(4)]
    return np.repeat(values, sizes)


@lru_cache
def graph_laplacian(n: int) -> Array:
    """Return the normalised Laplacian of a sparse random graph: components, twins and a bulk in [0, 2]."""
    rng = np.random.default_rng(4)
    upper = np.triu(rng.random((n, n)) < 2.5 / n, 1).astype(np.float64)
    adjacency = upper + upper.T
    degrees = adjacency.sum(axis=0)
    scale = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1)), 0.0)
    return np.round(np.linalg.eigvalsh(np.diag((degrees > 0) * 1.0) - scale[:, None] * adjacency * scale), 12)


def repeated_spikes(n: int) -> Array:
    return spiked(n, np.repeat(20.0 * np.arange(1, 11), [1, 2, 1, 3, 1, 5, 1, 10, 2, 4]))


def pairs(n: int) -> Array:
    return np.repeat(deepnet(n // 2), 2)


FAMILIES: dict[str, Callable[[int], Array]] = {
    # outliers
    "deep network": deepnet,
    "semicircle, 10 spikes": lambda n: spiked(n, 20.0 * np.arange(1, 11)),
    "1 / i": lambda n: 1.0 / np.arange(1, n + 1),
    "1 / i^2": lambda n: 1.0 / np.arange(1, n + 1) ** 2,
    "spiked Wishart": spiked_wishart,
    "RBF": rbf,
    "language model": language_model,
    "one spike": lambda n: spiked(n, np.array([12.0])),
    "low rank and noise": lambda n: np.append(1e-3 * semicircle(n - 40), np.exp(-np.arange(40) / 8)),
    "Student 2": lambda n: np.random.default_rng(5).standard_t(2, n),
    # bulks
    "GOE": goe,
    "graphene": graphene,
    "Erdos-Renyi": erdos_renyi,
    "2-D Laplacian": laplacian_2d,
    "Anderson": anderson,
    "chain": lambda n: 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1)),
    "uniform": lambda n: np.linspace(-1, 1, n),
    "log-uniform, 12 decades": lambda n: 10 ** (12 * levels(n) - 12),
    "Marchenko-Pastur 2": lambda n: marchenko_pastur(n, 2.0),
    "triangular": lambda n: np.sqrt(levels(n)),
    "two bulks": lambda n: np.append(semicircle(n - n // 10), 7 + levels(n // 10)),
    "normal": lambda n: np.random.default_rng(6).standard_normal(n),
    "density |x|": lambda n: quantiles(np.abs, -1, 1, n),
    # multiplicities
    "ring": ring,
    "torus": torus,
    "periodic cube": periodic_cube,
    "hypercube": hypercube,
    "Kneser": kneser,
    "graph Laplacian": graph_laplacian,
    "repeated spikes": repeated_spikes,
    "pairs": pairs,
    "spikes in fives": lambda n: spiked(n, np.repeat(10.0 * np.arange(1, 7), 5)),
}

_SPLIT = list(FAMILIES)
KINDS = {
    "outliers": _SPLIT[: _SPLIT.index("GOE")],
    "bulk": _SPLIT[_SPLIT.index("GOE") : _SPLIT.index("ring")],
    "multiple": _SPLIT[_SPLIT.index("ring") :],
}
HELD_OUT = (
    *("language model", "one spike", "low rank and noise", "Student 2", "triangular", "two bulks", "normal"),
    *("density |x|", "graph Laplacian", "periodic cube", "spikes in fives"),
)
