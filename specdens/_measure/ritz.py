"""Nodes, weights and residuals from the tridiagonal matrix of one probe."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._measure.golub_welsch import MIN_STEPS, two_rows
from specdens._vectors.memory import available_bytes

_DENSE_COPIES = 2.2  # matrices of the size of T that divide and conquer works on, as measured


def decompose(alphas: Floats, betas: Floats, last_beta: float) -> tuple[Floats, Floats, Floats]:
    """Return nodes, weights and residuals of one probe."""
    rows = two_rows(alphas, betas) if alphas.size >= MIN_STEPS else None
    if rows is not None:
        nodes, first, last = rows
        return nodes, first**2 / np.sum(first**2), last_beta * np.abs(last)
    _check_memory(alphas.size)
    # divide and conquer, SciPy's default since 1.16; the one before (MRRR) fails on some T with many ghosts
    decomposition = scipy.linalg.eigh_tridiagonal(alphas, betas)
    nodes, vectors = (np.asarray(part, dtype=np.float64) for part in decomposition)
    weights = vectors[0] ** 2
    return nodes, weights / weights.sum(), last_beta * np.abs(vectors[-1])


def _check_memory(num_steps: int) -> None:
    """Refuse to compute all eigenvectors of T where memory does not suffice."""
    needed = _DENSE_COPIES * 8 * num_steps**2
    if num_steps >= MIN_STEPS and needed > available_bytes():
        raise MemoryError(
            f"reading {num_steps} steps without compiled code takes {needed / 2**30:.3g} GiB. Install the extra "
            '(pip install "specdens[fast]"), which takes almost none, or read fewer steps: measure.truncated(k).'
        )


def has_converged(nodes: Floats, weights: Floats, residuals: Floats, eps: float) -> bool:
    """Return whether all mass sits at isolated eigenvalues: an invariant subspace hidden by rounding.

    Nodes within reach of each other are copies of one eigenvalue, and must agree to three quarters of the digits.
    """
    heavy = weights > 100 * np.finfo(np.float64).eps
    theta, r = nodes[heavy], residuals[heavy]
    reach = np.maximum(r[1:] + r[:-1], 1e3 * eps * np.max(np.abs(theta)))
    starts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(theta) > reach)])
    ends = np.append(starts[1:], theta.size) - 1
    # eps^¾: room for the growth of rounding over the steps, and still far below what the precision can resolve
    extents = theta[ends] - theta[starts] + np.maximum.reduceat(r, starts)
    gaps = np.min(theta[starts[1:]] - theta[ends[:-1]], initial=np.inf)
    return bool(np.max(extents) <= min(eps**0.75 * np.max(np.abs(theta)), 1e-3 * gaps))


def ritz_bounds(nodes: Sequence[Floats], residuals: Sequence[Floats], known: Floats) -> Interval:
    """Return the outermost Ritz values of all probes, each widened by its residual; the known atoms without probes.

    The residual of a Ritz vector, β_M·|last component|, bounds the distance to *an* eigenvalue without a further
    product; the paper's ‖(A − θI)y‖ needs one.
    """
    ends = [(x[0] - r[0], x[-1] + r[-1]) for x, r in zip(nodes, residuals, strict=True) if x.size]
    if not ends:
        return Interval(float(known[0]), float(known[-1]))
    return Interval(float(min(lo for lo, _ in ends)), float(max(hi for _, hi in ends)))
