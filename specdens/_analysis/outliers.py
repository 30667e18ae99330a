"""Eigenvalues beyond the bulk of a measure or of a density; the rule itself is in `_measure/find_outliers.py`."""

from __future__ import annotations

from specdens._density.density import Density
from specdens._measure.base import Measure
from specdens._measure.find_outliers import Outliers
from specdens._validate import as_positive


def outliers(measure: Measure | Density, *, separation: float = 1.25, max_share: float = 0.05) -> Outliers:
    """Return the eigenvalues beyond the edges of the bulk.

    Nodes that cannot be told apart (their intervals θ ± residual overlap) are merged, over ghosts and probes alike.
    What stays unresolved is the bulk; what has converged stands alone. The bulk ends, on either side, at the innermost
    gap that is wider than `separation` times the span of the 10 eigenvalues and of the 6 nodes next to it on its inner
    side, with at most the share `max_share` of all eigenvalues beyond it. In a tail that ends slowly, such as that of a
    Gaussian, wide gaps are common, and a gap must be up to four times as wide to be as rare. Next to an eigenvalue of
    multiplicity above 30, such as a null space, it is the 10 eigenvalues beyond the gap that count; if there are fewer
    than 20 of them, all are outliers.

    Parameters
    ----------
    measure : Measure or Density
        What to read: a measure, or a density, whose measure and deflated eigenpairs are used.
    separation : float, default 1.25
        How many such spans a gap must have at an edge as sharp as that of a random matrix, where the first two
        eigenvalues are about a fifth of one span apart; larger values demand clearer outliers.
    max_share : float, default 0.05
        Outliers are few: the largest share of all eigenvalues that may lie beyond either edge.

    Returns
    -------
    Outliers
        Positions, multiplicities and their errors, and the edges of the bulk.

    Raises
    ------
    TypeError
        If `measure` is neither a measure nor a density.
    ValueError
        If `separation` or `max_share` is out of range.

    Notes
    -----
    A heavy tail has no edge, and its largest eigenvalues are far apart. There a gap must also be wide in the logarithm
    of the distance from the centre, half as many spans. Isolated eigenvalues that no gap separates are listed in
    `Outliers.tails`, with the place of the widest gap and how often tails that fall like a power have one as wide; a
    smaller `separation` names what lies beyond it. An outlier that has not converged is part of the bulk; more steps
    resolve it.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.concatenate([[30.0, 20.0, 20.0], np.linspace(-1, 1, 997)]))
    >>> found = sd.analysis.outliers(sd.fast_lanczos(A, num_probes=50))
    >>> found.positions.round(6)
    array([20., 30.])
    >>> bool(abs(found.count.value - 3) < 2 * found.count.stderr)
    True
    """
    separation = as_positive("separation", separation)
    if not 0 < max_share < 0.5:
        raise ValueError(f"`max_share` must lie between 0 and 0.5; got {max_share}. More than half is no outlier.")
    measure_of(measure)  # refuses anything else
    return measure.find_outliers(separation=separation, max_share=max_share)


def measure_of(measure: Measure | Density) -> Measure:
    """Return the measure itself, or that of a density."""
    if isinstance(measure, Density):
        return measure.measure
    if not isinstance(measure, Measure):
        raise TypeError(
            f"`measure` must be a measure or a density; got {type(measure).__name__}. "
            "For an operator call fast_lanczos or spectral_density first."
        )
    return measure
