"""Bounds of a spectrum, from the residuals of a few Lanczos steps [Papyan 2019, Normalization]."""

from __future__ import annotations

from typing import Any

import numpy as np

from specdens._distributions.interval import Interval, as_interval, as_margin
from specdens._lanczos.fast import fast_lanczos
from specdens._measure.lanczos import SpectralMeasure
from specdens._operators.convert import as_operator
from specdens._operators.normalize import Normalized
from specdens._validate import as_count

_KNOWN_ROOM = 1e3  # units of rounding by which a Ritz value may lie beyond what is known


def spectral_bounds(
    A: Any, *, num_steps: int = 32, margin: float = 0.05, seed: int = 0, within: Any = None
) -> Interval:
    """Return an interval that contains the spectrum of A, from a few Lanczos steps.

    A run made for a density has its own bounds, `SpectralMeasure.bounds`, and needs no second one.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes.
    num_steps : int, default 32
        The number of products; the dimension if that is less.
    margin : float, default 0.05
        What is added at either end, as a share of the width: the outermost Ritz values lie within the spectrum.
    seed : int, default 0
        The seed of the start vector.
    within : (float, float), optional
        (lo, hi), known to contain the spectrum: (0, np.inf) for a positive semi-definite operator. The margin does not
        go beyond it. By default what the operator knows: 0 for `gram` and for the curvature G, (0, 2) for a normalized
        `graph_laplacian`.

    Returns
    -------
    Interval
        The ends ``lo`` and ``hi``.

    Raises
    ------
    ValueError
        If `margin` is negative or not finite.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> sd.spectral_bounds(np.diag(np.linspace(-1, 1, 100)), margin=0.0)  # doctest: +ELLIPSIS
    Interval(lo=-1.0..., hi=1.0...)
    >>> X = np.random.default_rng(0).standard_normal((2000, 400))
    >>> sd.spectral_bounds(sd.gram(X, divisor=2000)).lo >= 0
    True
    """
    A, margin = as_operator(A), as_margin(margin)
    num_steps = min(as_count("num_steps", num_steps), A.bulk_dimension)
    # Normalization, lines 1 to 6: FastLanczos, θ₁ − ‖(A − θ₁)y₁‖ and θ_M + ‖(A − θ_M)y_M‖, then the margin. The paper
    # spends a product on each residual; here it is β_M |last component of y|.
    measure = fast_lanczos(A, num_steps=num_steps or None, seed=seed)
    known = A.known_bounds if within is None else _as_known(within)
    return known_to_contain(measure, measure.bounds(margin=margin), known)


def known_to_contain(measure: SpectralMeasure, found: Interval, known: Interval) -> Interval:
    """Return the interval cut at the ends of one known to contain the spectrum, unless a Ritz value is outside it."""
    if not measure.nodes:
        return found
    nodes = np.concatenate(measure.nodes)
    room = _KNOWN_ROOM * measure.eps * float(np.max(np.abs(nodes), initial=0.0))
    lo = max(found.lo, known.lo) if np.min(nodes) >= known.lo - room else found.lo
    hi = min(found.hi, known.hi) if np.max(nodes) <= known.hi + room else found.hi
    # rounding may put an eigenvalue at the very end beyond it
    lo, hi = (min(lo, float(np.min(nodes))), max(hi, float(np.max(nodes))))
    return Interval(lo, hi) if lo < hi else found


def _as_known(within: Any) -> Interval:
    try:
        lo, hi = (float(end) for end in within)
    except (TypeError, ValueError):
        raise TypeError(f"`within` must be a pair (lo, hi); got {within!r}") from None
    if not lo < hi:
        raise ValueError(f"`within` must be increasing; got ({lo:g}, {hi:g})")
    return Interval(lo, hi)


def normalize(A: Any, bounds: Any = None) -> Normalized:
    """Return A shifted and scaled so that its spectrum lies in [−1, 1]; the original interval is in ``.interval``.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes.
    bounds : (float, float), optional
        (lo, hi), which must contain the spectrum; by default `spectral_bounds` of A, which costs 32 products.

    Returns
    -------
    Normalized
        The operator (A − c)/d for the interval [c − d, c + d].

    Raises
    ------
    TypeError, ValueError
        If `bounds` are not two increasing finite numbers.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> B = sd.normalize(np.diag([0.0, 4.0]), bounds=(0, 4))
    >>> B @ np.ones(2)
    array([-1.,  1.])
    """
    A = as_operator(A)
    # Normalization, lines 7 to 9: (A − c I)/d with the center c and the radius d of the interval
    return Normalized(A, spectral_bounds(A) if bounds is None else as_interval("bounds", bounds))
