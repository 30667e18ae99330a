"""Bounds of a spectrum, from the residuals of a few Lanczos steps [Papyan 2019, Normalization]."""

from __future__ import annotations

from typing import Any

from specdens._distributions.interval import Interval, as_interval, as_margin
from specdens._lanczos.fast import fast_lanczos
from specdens._operators.convert import as_operator
from specdens._operators.normalize import Normalized
from specdens._validate import as_count


def spectral_bounds(A: Any, *, num_steps: int = 32, margin: float = 0.05, seed: int = 0) -> Interval:
    """Return an interval that contains the spectrum of A, from a few Lanczos steps.

    A run made for a density has its own bounds, `SpectralMeasure.bounds`, and needs no second one.

    Parameters
    ----------
    A
        Anything that `as_operator` takes.
    num_steps
        The number of products; the dimension if that is less.
    margin
        What is added at either end, as a share of the width: the outermost Ritz values lie within the spectrum.
    seed
        The seed of the start vector.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> sd.spectral_bounds(np.diag(np.linspace(-1, 1, 100)), margin=0.0)  # doctest: +ELLIPSIS
    Interval(lo=-1.0..., hi=1.0...)
    """
    A, margin = as_operator(A), as_margin(margin)
    num_steps = min(as_count("num_steps", num_steps), A.bulk_dimension)
    # Normalization, lines 1 to 6: FastLanczos, θ₁ − ‖(A − θ₁)y₁‖ and θ_M + ‖(A − θ_M)y_M‖, then the margin. The paper
    # spends a product on each residual; here it is β_M |last component of y|.
    return fast_lanczos(A, num_steps=num_steps or None, seed=seed).bounds(margin=margin)


def normalize(A: Any, bounds: Any = None) -> Normalized:
    """Return A shifted and scaled so that its spectrum lies in [−1, 1]; the original interval is in ``.interval``.

    Parameters
    ----------
    A
        Anything that `as_operator` takes.
    bounds
        (lo, hi), which must contain the spectrum; by default `spectral_bounds` of A, which costs 32 products.

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
