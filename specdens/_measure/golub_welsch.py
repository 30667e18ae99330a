"""Nodes, weights and last components from a tridiagonal matrix in O(k) memory [Golub & Welsch 1969].

The implicit QL algorithm rotates the eigenvectors along; of these only the first and the last row are needed. With
numba (the extra ``fast``) that is a loop of about k² rotations: 5 seconds for 20,000 steps.
"""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import numpy as np

from specdens._distributions.cdf import Floats
from specdens._exceptions import SpecdensWarning
from specdens._vectors import dispatch

MIN_STEPS = 2049
"""Steps from which two rows are computed; below, divide and conquer on all rows is as fast and takes 70 MB at most."""

_MOST_SWEEPS = 30  # per eigenvalue on average, as in LAPACK; two are usual


def two_rows(alphas: Floats, betas: Floats) -> tuple[Floats, Floats, Floats] | None:
    """Return the eigenvalues of T, increasing, and the first and last components of its eigenvectors.

    Parameters
    ----------
    alphas, betas
        The diagonal and the off-diagonal of T.

    Returns
    -------
    tuple of arrays or None
        None where compiled code is not available, or where the iteration does not converge.
    """
    kernel = _kernel() if dispatch.compiles() else None
    scale = float(max(np.max(np.abs(alphas)), np.max(np.abs(betas), initial=0.0)))
    if kernel is None or not 0 < scale < math.inf:
        return None
    # in units of the scale: squares neither overflow nor lose what matters
    d, e = alphas / scale, np.append(betas, 0.0) / scale
    first, last = np.zeros(d.size), np.zeros(d.size)
    first[0] = last[-1] = 1.0
    try:
        converged = kernel(d, e, first, last, _MOST_SWEEPS * d.size)
    except Exception as error:  # of the compiler or of its cache
        _warn(kernel, error)
        return None
    if not converged:
        return None
    order = np.argsort(d, kind="stable")
    return scale * d[order], first[order], last[order]


@cache
def _kernel() -> Any:
    import numba

    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(_implicit_ql)
    except RuntimeError:  # nowhere to keep the compiled code
        return numba.njit(**options)(_implicit_ql)


def _warn(kernel: Any, error: Exception) -> None:
    dispatch.switch_off()
    warnings.warn(
        f"compiled code cannot be used ({type(error).__name__}: {error}); going on without it, which takes more time "
        f"and memory. Empty the folder {kernel.stats.cache_path}, or free disk space.",
        SpecdensWarning,
        stacklevel=4,
    )


def _implicit_ql(d, e, first, last, most_sweeps):  # type: ignore[no-untyped-def]
    """Diagonalise T in place: d becomes the eigenvalues, `first` and `last` the rows of eigenvectors.

    The steps of imtql2 [Dubrulle, Martin & Wilkinson 1968], on two rows instead of all.
    """
    n, num_sweeps = d.size, 0
    for start in range(n):
        while True:
            # the end of the block that begins here: the first off-diagonal entry that rounding hides, relative to its
            # neighbours or to T, whose scale is 1
            end = start
            while end < n - 1 and abs(e[end]) > 2.22e-16 * (abs(d[end]) + abs(d[end + 1]) + 1e-3):
                end += 1
            if end == start:
                break
            num_sweeps += 1
            if num_sweeps > most_sweeps:
                return False
            # Wilkinson's shift, from the first two rows of the block
            g = (d[start + 1] - d[start]) / (2.0 * e[start])
            r = math.sqrt(g * g + 1.0)
            g = d[end] - d[start] + e[start] / (g + math.copysign(r, g))
            s, c, p = 1.0, 1.0, 0.0
            i = end - 1
            while i >= start:
                f, b = s * e[i], c * e[i]
                r = math.sqrt(f * f + g * g)
                e[i + 1] = r
                if r == 0.0:  # the block falls apart
                    break
                inverse = 1.0 / r
                s, c = f * inverse, g * inverse
                g = d[i + 1] - p
                r = (d[i] - g) * s + 2.0 * c * b
                p = s * r
                d[i + 1] = g + p
                g = c * r - b
                x, y = first[i], first[i + 1]
                first[i + 1] = s * x + c * y
                first[i] = c * x - s * y
                x, y = last[i], last[i + 1]
                last[i + 1] = s * x + c * y
                last[i] = c * x - s * y
                i -= 1
            if i >= start:
                d[i + 1] -= p
                e[end] = 0.0
                continue
            d[start] -= p
            e[start] = g
            e[end] = 0.0
    return True
