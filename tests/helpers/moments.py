"""Chebyshev moments of known measures."""

import numpy as np

from specdens._vectors.factory import vectors_like
from specdens._vectors.probes import probe_block


def exact_moments(eigenvalues, weights, interval, num_moments):
    """Return Σ w T_i((λ − c)/d) for eigenvalues within the interval."""
    phi = np.arccos(np.clip((eigenvalues - interval.center) / (interval.width / 2), -1, 1))
    return np.cos(np.outer(np.arange(num_moments), phi)) @ weights


def probe_weights(n, index=0, seed=0):
    """Return the weights of the basis vectors in a probe: its measure, for a diagonal operator."""
    v = probe_block(vectors_like(np.empty(0)), n, [index], seed)[:, 0]
    return v**2 / np.sum(v**2)
