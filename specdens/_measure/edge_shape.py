"""How sharply a bulk ends, and how wide a gap must be before it is surprising at such an edge.

The largest of independent eigenvalues have spacings of about k^(−1−ξ) below the k-th, times exponential variables
[de Haan and Ferreira 2006, Extreme Value Theory]: ξ = −2/3 for the square-root edge of a random matrix, ξ = 0 for tails
like that of a Gaussian, exponential or Laplace distribution. The slower a tail ends, the wider its outermost gap is by
chance alone, beside the span of the next eigenvalues.
"""

from __future__ import annotations

import numpy as np

from specdens._distributions.cdf import Floats

NEIGHBOURS = 10
"""A gap is compared with the span of so many eigenvalues next to it on its inner side."""

SHARP, SLOW = -2.0 / 3.0, 0.0
"""The index ξ of a square-root edge, and that of an exponential tail: heavier ones are judged like it."""

_NEAREST = 20  # eigenvalues below the edge that are skipped: their distances scatter most
_RATIO = 3.0  # of the numbers of eigenvalues between which distances are compared
_LEAST_RATIO = 1.5  # with fewer eigenvalues the shape is not seen
_UNCLEAR = (-0.45, -0.1)  # an index below is that of a sharp edge, one above that of a slow tail
_CAUTION = 0.3  # how much rarer a gap must be in a slow tail: of its many gaps any may be wide


def edge_index(distances: Floats, numbers: Floats, num_beyond: int, num_probes: int) -> float:
    """Return the index ξ of an edge, from how fast the number of eigenvalues grows with the distance from it.

    Half of its standard error is added, so that noise does not make a slow tail look sharp. What is then clearly sharp
    or clearly slow counts as such: finite bulks bend both ways.

    Where the k-th largest eigenvalue is about c − k^(−ξ)/(−ξ), or c − log k for ξ = 0, the distances between those with
    k = K, 3K and 9K have the ratio 3^(−ξ).

    Parameters
    ----------
    distances
        Distances of the nodes from the edge, increasing.
    numbers
        The number of eigenvalues that each node stands for.
    num_beyond
        The number of eigenvalues beyond the edge.
    num_probes
        The number of probes, whose noise adds to that of the spacings.
    """
    first = num_beyond + _NEAREST
    ratio = min(_RATIO, float(np.sqrt((num_beyond + np.sum(numbers) / 2) / first)))
    if ratio < _LEAST_RATIO:
        return SHARP
    counts = first * ratio ** np.arange(3) - num_beyond
    near, middle, far = np.interp(counts, np.cumsum(numbers) - numbers / 2, distances)
    if not far > middle > near:
        return SHARP
    index = -np.log((far - middle) / (middle - near)) / np.log(ratio)
    variance = (1 + 2 / max(num_probes, 1)) * float(np.sum(1 / np.diff(counts))) / np.log(ratio) ** 2
    return float(np.interp(index + np.sqrt(variance) / 2, _UNCLEAR, (SHARP, SLOW)))


def surprising_gap(separation: float, index: float, num_beyond: int) -> float:
    """Return how many spans of the next eigenvalues a gap must have, to be as rare as `separation` at a sharp edge."""
    k = num_beyond + np.arange(1, NEIGHBOURS + 1)

    def rarity(spans: float, index: float) -> float:
        """Return −log P(gap > spans · span): the gap and the spacings are exponential variables."""
        return float(np.sum(np.log1p(spans * (num_beyond / k) ** (1.0 + index))))

    wanted = rarity(separation, SHARP) * (1 + _CAUTION * (index - SHARP) / (SLOW - SHARP))
    ratios, spans = (num_beyond / k) ** (1.0 + index), separation
    for _ in range(50):  # Newton's method on a concave, increasing function, from below
        step = (wanted - rarity(spans, index)) / float(np.sum(ratios / (1 + spans * ratios)))
        spans += step
        if abs(step) <= 1e-12 * spans:
            break
    return spans
