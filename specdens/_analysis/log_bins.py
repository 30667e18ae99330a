"""The spectrum in logarithmic bins that the run resolves."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from specdens._distributions.cdf import Floats
from specdens._measure.base import Measure

Part = Literal["both", "positive", "negative"]

_FINE = 20  # the finest bins per decade
_MIN_COUNT = 5.0  # eigenvalues that a bin must hold, or the logarithm of their number means little
_MIN_NODES = 2.0  # nodes per probe that a bin must hold: what lies between nodes is interpolation
_ROUNDING = 1e3  # units of rounding: copies of one eigenvalue differ by less


class LogBins(NamedTuple):
    """The spectrum in bins of log|λ|, from small to large: numbers of eigenvalues and their standard errors."""

    edges: Floats
    """Pairs (lo, hi) of |λ|, one row per bin."""
    counts: Floats
    stderr: Floats

    @property
    def centers(self) -> Floats:
        """The geometric means of the edges."""
        return np.asarray(np.exp(np.mean(np.log(self.edges), axis=1)))

    @property
    def widths(self) -> Floats:
        """The widths in log|λ|."""
        return np.asarray(np.log(self.edges[:, 1] / self.edges[:, 0]))


def log_bins(measure: Measure, part: Part, limits: tuple[float, float] | None = None) -> LogBins:
    """Return the finest bins of log|λ|, up to 20 per decade, that hold 5 eigenvalues and 2 nodes per probe each."""
    nodes = _magnitudes(measure, part)
    # the largest eigenvalue sets the end of the last bin, so it does not count in it: all of its copies are left out
    ends = (nodes[0], nodes[-1] - 2 * measure.rounding_room) if nodes.size else None
    lo, hi = ends if limits is None and ends is not None else _limits(limits)
    num_fine = max(int(np.ceil(_FINE * np.log10(hi / lo))), 1) if hi > lo else 0
    fine = np.geomspace(lo, hi, num_fine + 1) if num_fine else np.array([lo])
    fine[0], fine[-1] = lo, hi
    share = _share_below(measure, fine, part)
    num_nodes = np.searchsorted(nodes, fine) / max(measure.num_probes, 1)
    counts = measure.dimension * share
    cuts = [fine.size - 1]
    for i in np.arange(fine.size - 2, -1, -1):
        enough = num_nodes[cuts[-1]] - num_nodes[i] >= _MIN_NODES
        if enough and counts[cuts[-1]] - counts[i] >= _MIN_COUNT:
            cuts.append(int(i))
    cuts.reverse()
    if limits is None and not _resolves_smallest(measure):
        cuts = cuts[1:]  # the smallest node stands for all that lies below it, maybe by decades
    edges = np.column_stack([fine[cuts[:-1]], fine[cuts[1:]]])
    signed = [_ends(measure, a, b, part) for a, b in edges]
    stderr = [
        float(np.linalg.norm([measure.dimension * measure.weight(*pair).stderr for pair in pairs])) for pairs in signed
    ]
    return LogBins(edges, np.diff(counts[cuts]), np.array(stderr))


def _limits(limits: tuple[float, float] | None) -> tuple[float, float]:
    lo, hi = (1.0, 1.0) if limits is None else (float(end) for end in limits)
    if limits is not None and not 0 < lo < hi < np.inf:
        raise ValueError(f"`range` must be two magnitudes 0 < lo < hi; got ({lo:g}, {hi:g})")
    return lo, hi


def _magnitudes(measure: Measure, part: Part) -> Floats:
    """Return the magnitudes of all nodes and known atoms that are not zero to rounding, increasing."""
    x = np.concatenate([measure.known_atoms.positions, *(rule.nodes for rule in measure.rules)])
    zero = _ROUNDING * measure.eps * float(np.max(np.abs(x), initial=0.0))
    x = x[np.abs(x) > zero]
    if part != "both":
        x = x[x > 0] if part == "positive" else x[x < 0]
    return np.sort(np.abs(x))


def _resolves_smallest(measure: Measure) -> bool:
    """Return whether the end of a spectrum of one sign that is nearer to zero is known to within a factor of two."""
    for rule in measure.rules:
        if rule.exact or not rule.nodes.size or rule.nodes[0] <= 0 <= rule.nodes[-1]:
            continue
        end = 0 if rule.nodes[0] > 0 else -1
        if rule.residuals[end] > abs(rule.nodes[end]) / 2:
            return False
    return True


def _ends(measure: Measure, a: float, b: float, part: Part) -> list[tuple[float, float]]:
    positive, negative = (float(a), float(b)), (-float(b), -float(a))
    return {"positive": [positive], "negative": [negative], "both": [positive, negative]}[part]


def _share_below(measure: Measure, x: Floats, part: Part) -> Floats:
    """Return the share of all eigenvalues with magnitude at most x, up to a constant."""
    above, below = measure.cdf(x), -measure.cdf(-x)
    return {"positive": above, "negative": below, "both": above + below}[part]
