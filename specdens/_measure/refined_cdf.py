"""A piecewise-linear CDF from the nodes, weights and residuals of one Lanczos run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specdens._distributions.cdf import Cdf
from specdens._measure.quadrature import Rule

Array = NDArray[np.float64]


def refined_cdf(rule: Rule, *, eps: float, whole: Rule | None = None) -> Cdf:
    """Return the best estimate of a probe's distribution function: atoms if its rule is exact, else slabs.

    Parameters
    ----------
    rule
        The rule, or what is left of one.
    eps
        The unit of rounding.
    whole
        The whole rule, of which `rule` is a part: nodes that were taken out are still neighbours.
    """
    if rule.exact:
        return Cdf.of_atoms(rule.nodes, rule.weights)
    if whole is None or whole.nodes.size == rule.nodes.size:
        return Cdf.of_slabs(*refined_slabs(rule.nodes, rule.weights, rule.residuals, eps=eps))
    at = np.searchsorted(whole.nodes, rule.nodes)
    below, above = _reaches(whole.nodes, whole.weights, whole.residuals, eps)
    return Cdf.of_slabs(*_slabs(rule.nodes, rule.weights, below[at], above[at]))


def refined_slabs(
    nodes: Array, weights: Array, residuals: Array, *, eps: float = 2.2e-16
) -> tuple[Array, Array, Array]:
    r"""Spread each weight of a Gauss rule over the part of the spectrum it stands for.

    Half of a node's weight lies on either side of it, because the CDF of a smooth measure at a Gauss node is
    :math:`\sum_{i<j} \omega_i + \omega_j / 2`. With :math:`d` half the distance to the neighbour on that side,
    the half weight is uniform over a length

    .. math:: h = d \, \min(1, \; r_j^2 / d^2) \, \min(1, \; 4 \, \omega_{\text{neighbour}} / \omega_j)

    - :math:`d`: cells of neighbours meet half way. This is all there is in a dense bulk.
    - :math:`r_j^2 / d`: the bound of Kato and Temple on the distance from a Ritz value to its eigenvalue. A
      converged node stays where it is, an atom; so does the side of a bulk that faces a gap.
    - :math:`4 \, \omega_{\text{neighbour}} / \omega_j`: a node much heavier than its neighbour stands for mass
      that is concentrated (an eigenvalue of high multiplicity in a bulk, the core of a heavy tail).

    The outer halves of the first and last node stay at the node: Ritz values lie inside the spectrum, so that no mass
    is put outside it.

    There is no decision between atom and continuum, and ghosts need no merging: the copies of an eigenvalue are
    each other's neighbours, so that none of them is spread further than they lie apart.

    Parameters
    ----------
    nodes, weights, residuals
        Ritz values, squared first components and :math:`\beta_k` times the last components, of one probe.
    eps
        Unit roundoff of the run. Lighter nodes are rounding (a ghost on its way through a bulk); they stay
        atoms and are nobody's neighbour.

    Returns
    -------
    left, right, mass
        Sorted. Each mass is uniform on [left, right]; left == right is an atom. The masses sum to the weights.

    Examples
    --------
    Two converged eigenvalues stay atoms; of two unconverged ones, the inner halves become slabs that meet half way.

    >>> left, right, mass = refined_slabs(np.array([0.0, 4.0]), np.array([0.5, 0.5]), np.array([0.0, 0.0]))
    >>> left.tolist(), right.tolist(), mass.tolist()
    ([0.0, 4.0], [0.0, 4.0], [0.5, 0.5])
    >>> left, right, mass = refined_slabs(np.array([0.0, 4.0]), np.array([0.5, 0.5]), np.array([9.0, 9.0]))
    >>> left.tolist(), right.tolist(), mass.tolist()
    ([0.0, 0.0, 2.0, 4.0], [0.0, 2.0, 4.0, 4.0], [0.25, 0.25, 0.25, 0.25])
    """
    order = np.argsort(nodes, kind="stable")
    theta, omega, r = nodes[order], weights[order], residuals[order]
    return _slabs(theta, omega, *_reaches(theta, omega, r, eps))


def _reaches(theta: Array, omega: Array, r: Array, eps: float) -> tuple[Array, Array]:
    """Return how far the weight of every node spreads below and above it; nodes are increasing."""
    below, above = np.zeros_like(theta), np.zeros_like(theta)  # lengths h on either side
    (kept,) = np.nonzero(omega > eps)
    if kept.size > 1:
        j, k = kept[:-1], kept[1:]  # neighbours
        d = np.diff(theta[kept]) / 2
        above[j] = _reach(d, r[j], omega[k] / omega[j])
        below[k] = _reach(d, r[k], omega[j] / omega[k])
        # What is narrower than rounding is an atom: half of one may not stick out beyond the end of an interval.
        smallest = eps * float(np.max(np.abs(theta)))
        below, above = (np.where(h > smallest, h, 0.0) for h in (below, above))
        # Nothing beyond the end nodes: they lie inside the spectrum, and a positive operator keeps a positive measure.
    return below, above


def _slabs(theta: Array, omega: Array, below: Array, above: Array) -> tuple[Array, Array, Array]:
    left = np.concatenate([theta - below, theta])
    right = np.concatenate([theta, theta + above])
    mass = np.concatenate([omega, omega]) / 2
    return _join_halves(left, right, mass)


def _reach(d: Array, r: Array, ratio: Array) -> Array:
    """Return how far half a weight spreads towards a neighbour at distance 2d, `ratio` times as heavy."""
    # 4: the ratio of the last two weights at the square-root edge of a bulk, sin²(2φ) / sin²(φ) for small φ.
    temple = np.square(np.divide(r, d, out=np.zeros_like(d), where=d > 0))
    return d * np.minimum(1.0, temple) * np.minimum(1.0, 4 * ratio)


def _join_halves(left: Array, right: Array, mass: Array) -> tuple[Array, Array, Array]:
    """Sort slabs, and add the masses of equal ones (the two halves of an atom)."""
    order = np.lexsort((right, left))
    left, right, mass = left[order], right[order], mass[order]
    is_new = np.append(True, (np.diff(left) > 0) | (np.diff(right) > 0))
    first = np.nonzero(is_new)[0]
    return left[first], right[first], np.add.reduceat(mass, first)
