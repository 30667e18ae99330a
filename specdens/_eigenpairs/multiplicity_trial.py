"""The trial of `top_eigenpairs`: how long to follow a random vector that may show copies of multiple eigenvalues.

A Krylov space holds one vector of every eigenspace. Another random vector, orthogonal to what was found, has a part
along each missing copy, which grows with every product.
"""

from __future__ import annotations

import math

import numpy as np

from specdens._eigenpairs.result import Floats

# How long a trial may be: so many products, or a part of those made before. A search remains about as dear as ARPACK's.
_FOR_ALL, _FOR_ALL_SHARE = 10, 0.4  # if that is enough for copies of all wanted values
_FOR_SOME, _FOR_SOME_SHARE = 8, 0.35  # if it is not, for copies of those that stand out most
_LEAST_SHARE = 0.25


def trial_length(found: Floats, rest: Floats, which: str, n: int, num_products: int) -> int:
    """Return after how many products missing copies of the wanted values show, of as many as can be afforded.

    The component of a random vector along an eigenvector is about 1/√n, of which half is counted on; k steps enlarge it
    by the Chebyshev polynomial T_k(1 + 2 gap / width) over what the unwanted spectrum gets.
    """
    a, b = (float(rest.min()), float(rest.max())) if rest.size else (0.0, 0.0)
    gaps = np.abs(found) - max(b, -a) if which == "magnitude" else np.where(found >= b, found - b, a - found)
    relative = gaps / (b - a) if b > a else np.ones(1)  # with a single unwanted value one step tells
    gammas = 1.0 + 2.0 * np.maximum(relative, 1e-6)
    lengths = 1 + np.ceil(np.arccosh(2.0 * math.sqrt(n)) / np.arccosh(gammas)).astype(int)
    if lengths.max() <= max(_FOR_ALL, _FOR_ALL_SHARE * num_products):
        return int(lengths.max())
    affordable = lengths[lengths <= max(_FOR_SOME, _FOR_SOME_SHARE * num_products)]
    return max(2, int(_LEAST_SHARE * num_products), int(affordable.max(initial=0)))


def shows_a_copy(theta: float, residual: float, wanted: Floats, rest: Floats, which: str, least: float) -> bool:
    """Return whether the first Ritz value after the wanted ones may grow to one of them, by more than `least`.

    A mixture with Ritz value θ and residual r, of one eigenvector and of others with values up to b, has the eigenvalue
    θ + r²/(θ − b) at most [Kato 1949]. Values up to b, the unwanted ones of the chains before, are no news.
    """
    if which == "magnitude":
        theta, rest, wanted = abs(theta), np.abs(rest), np.abs(wanted)
    elif which == "smallest" or (which == "both" and theta < 0.5 * (wanted.min() + wanted.max())):
        theta, rest, wanted = -theta, -rest, -wanted  # what is wanted at the other end is now below θ
    beyond = theta - float(np.max(rest, initial=-math.inf))
    missing = float(np.min(wanted[wanted >= theta], initial=math.inf)) - theta + least
    return bool(beyond > 0.0 and beyond * missing < residual**2)
