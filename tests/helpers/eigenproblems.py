"""What the tests of eigenpairs share: matrices with a given spectrum, and what is expected of their pairs."""

from __future__ import annotations

import numpy as np
import pytest

from specdens import subspace_iteration, top_eigenpairs
from specdens._eigenpairs.result import preference

WHICH = ("magnitude", "largest", "smallest", "both")
BOTH = pytest.mark.parametrize("method", [subspace_iteration, top_eigenpairs])


def with_spectrum(eigenvalues, seed=0, dtype="float64"):
    """Return a dense Hermitian matrix with the given eigenvalues and random eigenvectors."""
    rng = np.random.default_rng(seed)
    n = len(eigenvalues)
    G = rng.standard_normal((n, n))
    if dtype.startswith("complex"):
        G = G + 1j * rng.standard_normal((n, n))
    Q = np.linalg.qr(G)[0]
    A = (Q * np.asarray(eigenvalues, dtype=float)) @ Q.conj().T
    return ((A + A.conj().T) / 2).astype(dtype)


def outliers(n=300, values=(-12.0, 9.0, 7.0, 5.0)):
    return np.concatenate([values, np.linspace(-1, 1, n - len(values))])


def expected(eigenvalues, rank, which):
    eigenvalues = np.sort(np.asarray(eigenvalues))
    chosen = eigenvalues[preference(eigenvalues, which)[:rank]]
    return -np.sort(-chosen) if which == "both" else chosen


def true_residuals(A, pairs):
    V = np.asarray(pairs.vectors)
    return np.linalg.norm(A @ V - V * pairs.values, axis=0) / np.abs(pairs.values)


def assert_orthonormal(pairs, atol=1e-12):
    V = np.asarray(pairs.vectors)
    np.testing.assert_allclose(V.conj().T @ V, np.eye(pairs.rank), atol=atol)
