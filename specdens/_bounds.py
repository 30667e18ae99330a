"""Where a spectrum ends: bounds from the residuals of a Lanczos run [Papyan 2019, Algorithm 2]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from specdens._as_operator import as_operator
from specdens._combine import Combination
from specdens._errors import as_count
from specdens._operators import Operator

if TYPE_CHECKING:
    from specdens._measure import SpectralMeasure


class Interval(NamedTuple):
    """An interval that contains a spectrum."""

    lo: float
    hi: float

    @property
    def width(self) -> float:
        """The length of the interval."""
        return self.hi - self.lo

    @property
    def center(self) -> float:
        """The middle of the interval."""
        return self.lo / 2 + self.hi / 2

    def widened(self, margin: float) -> Interval:
        """Return the interval with `margin` of its width added at either end, and never of width zero."""
        room = margin * self.width
        if self.width <= 1e-12 * max(abs(self.lo), abs(self.hi)):  # a single eigenvalue, to rounding
            scale = abs(self.center) if abs(self.center) > 1e-150 else 1.0  # the squares of less are zero
            room = scale * max(margin, 1e-3)
        return Interval(self.lo - room, self.hi + room)


def as_interval(name: str, bounds: Any) -> Interval:
    """Return a pair of increasing finite numbers as an `Interval`."""
    try:
        lo, hi = (float(end) for end in bounds)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a pair (lo, hi); got {bounds!r}") from None
    if not (np.isfinite(lo) and np.isfinite(hi) and lo < hi):
        raise ValueError(f"`{name}` must be finite and increasing; got ({lo:g}, {hi:g})")
    return Interval(lo, hi)


def measure_bounds(measure: SpectralMeasure) -> Interval:
    """Return the outermost Ritz values of all probes, each widened by its residual.

    The residual of a Ritz vector, β_M·|last component|, bounds the distance to *an* eigenvalue without a further
    product; the paper's ‖(A − θI)y‖ would need one.
    """
    ends = [
        (nodes[0] - residuals[0], nodes[-1] + residuals[-1])
        for nodes, residuals in zip(measure.nodes, measure.residuals, strict=True)
        if nodes.size
    ]
    if not ends:
        positions = measure.known_atoms.positions
        return Interval(float(positions[0]), float(positions[-1]))
    return Interval(float(min(lo for lo, _ in ends)), float(max(hi for _, hi in ends)))


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
    from specdens._fast_lanczos import fast_lanczos

    A = as_operator(A)
    num_steps = min(as_count("num_steps", num_steps), A.bulk_dimension)
    return fast_lanczos(A, num_steps=num_steps or None, seed=seed).bounds(margin=margin)


class Normalized(Combination):
    """The operator (A − c)/d, whose spectrum lies in [−1, 1] when that of A lies in `interval` = [c − d, c + d]."""

    def __init__(self, A: Operator, interval: Interval) -> None:
        half = interval.width / 2
        super().__init__([(1.0 / half, A)], shift=-interval.center / half)
        self.interval = interval


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
    return Normalized(A, spectral_bounds(A) if bounds is None else as_interval("bounds", bounds))
