"""The trial of `top_eigenpairs`: how long to follow a random vector that may show copies of multiple eigenvalues.

A Krylov space holds one vector of every eigenspace. Another random vector, orthogonal to what was found, has a part
along each missing copy, which grows with every product.
"""

from __future__ import annotations

import math

import numpy as np

from specdens._eigenpairs import Floats

# In full up to so many products, or this share of those so far: the price of a search remains near that of ARPACK.
_IN_FULL, _IN_FULL_SHARE = 10, 0.4
_SHARE = 0.25  # of the products so far, where that is not enough


def trial_length(found: Floats, rest: Floats, which: str, n: int, num_products: int) -> int:
    """Return after how many products a missing copy of the last wanted value shows.

    The component of a random vector along an eigenvector is about 1/√n, of which half is counted on; k steps enlarge it
    by the Chebyshev polynomial T_k(1 + 2 gap / width) over what the unwanted spectrum gets.
    """
    a, b = (float(rest.min()), float(rest.max())) if rest.size else (0.0, 0.0)
    if which == "magnitude":
        gap = float(np.abs(found).min()) - max(b, -a)
    else:
        above, below = found[found >= b] - b, a - found[found <= a]
        gap = float(min(np.min(above, initial=math.inf), np.min(below, initial=math.inf)))
    gamma = 1.0 + 2.0 * max(gap / (b - a), 1e-6) if b > a else 3.0
    length = 1 + math.ceil(math.acosh(2.0 * math.sqrt(n)) / math.acosh(gamma))
    return length if length <= max(_IN_FULL, _IN_FULL_SHARE * num_products) else max(2, int(_SHARE * num_products))


def shows_a_copy(theta: float, residual: float, wanted: Floats, rest: Floats, which: str, least: float) -> bool:
    """Return whether the first Ritz value after the wanted ones may grow to one of them, by more than `least`.

    A mixture with Ritz value θ and residual r, of one eigenvector and of others with values up to b, has the eigenvalue
    θ + r²/(θ − b) at most [Kato 1949]. Values up to b, the unwanted ones of the chains before, are no news.
    """
    if which == "magnitude":
        theta, rest, wanted = abs(theta), np.abs(rest), np.abs(wanted)
    elif which == "smallest" or (which == "both" and theta < 0.5 * (wanted.min() + wanted.max())):
        theta, rest, wanted = -theta, -rest, -wanted
    beyond = theta - float(np.max(rest, initial=-math.inf))
    missing = float(np.min(wanted[wanted >= theta], initial=math.inf)) - theta + least
    return bool(beyond > 0.0 and beyond * missing < residual**2)
