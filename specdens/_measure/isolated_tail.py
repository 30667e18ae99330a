"""Isolated eigenvalues at the end of a spectrum without an edge: how many, and where the widest gap is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from specdens._distributions.cdf import Floats

if TYPE_CHECKING:
    from specdens._measure.base import Measure

_FEWEST = 6  # isolated eigenvalues: among fewer no gap can be called wide
_FAINTEST = 1e-3  # eigenvalues: a lighter node is a ghost on its way
_FEWEST_INNER = 3  # gaps that one is compared with


class IsolatedTail(NamedTuple):
    """The isolated eigenvalues beyond all others on one side, none of which is an outlier.

    Attributes
    ----------
    positions : ndarray
        Where they are, the outermost first.
    num_beyond : int
        How many lie beyond the widest gap.
    p_value : float
        How often a tail that falls like a power has so wide a gap anywhere.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> measure = sd.fast_lanczos(np.diag(np.arange(1, 2000.0) ** -1.2), num_probes=4)
    >>> (tail,) = sd.analysis.outliers(measure).tails
    >>> tail.positions[:3].round(3).tolist()
    [1.0, 0.435, 0.268]
    """

    positions: Floats
    num_beyond: int
    p_value: float

    def __str__(self) -> str:
        k = self.num_beyond
        outer, inner = self.positions[k - 1], self.positions[k]
        return (
            f"{self.positions.size} isolated eigenvalues in a tail without an edge, from {self.positions[-1]:.4g} to "
            f"{self.positions[0]:.4g}; the widest gap is after number {k}, {outer:.4g} to {inner:.4g}, and "
            f"{100 * self.p_value:.2g} % of such tails have one as wide"
        )


def isolated_tail(measure: Measure, *, sign: int) -> IsolatedTail | None:
    r"""Return the isolated eigenvalues beyond all other nodes on one side, or None if there are few.

    In a tail that falls like a power the k-th largest distances y from the centre have
    :math:`k \log (y_k / y_{k+1})` that are independent exponential variables of one mean [Rényi]. A gap is compared
    with those further in; the probability that any of them is as wide is that of the widest, for as many trials.

    Parameters
    ----------
    measure
        The measure.
    sign
        1 for the largest eigenvalues, −1 for the smallest.
    """
    isolated = measure.isolated
    if isolated is None:
        return None
    faintest = _FAINTEST / measure.bulk_dimension
    rests = [sign * rule.nodes[rule.weights > faintest] for rule in isolated.rests]
    edge = max((float(np.max(nodes)) for nodes in rests if nodes.size), default=-np.inf)
    x = np.sort(sign * isolated.positions)[::-1]
    x = x[x > edge]
    y = x - sign * float(measure.quantile(0.5))
    if x.size < _FEWEST or y[-1] <= 0:
        return None
    spacings = np.arange(1, x.size) * -np.diff(np.log(y))
    inner = np.cumsum(spacings[::-1])[::-1][1:]  # sums of those further in
    freedom = np.arange(x.size - 2, 0, -1)
    p = (1 + spacings[:-1] / inner) ** -freedom.astype(np.float64)
    p = p[freedom >= _FEWEST_INNER]
    widest = int(np.argmin(p))
    return IsolatedTail(sign * x, widest + 1, float(1 - (1 - p[widest]) ** p.size))
