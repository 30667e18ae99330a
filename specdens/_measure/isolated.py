r"""Isolated eigenvalues: converged Ritz values whose mass is a multiple of 1/n, and the doubt about which multiple.

An isolated eigenvalue of multiplicity m is known to rounding once its Ritz value has converged. Its weight is not: n·ω
of one real Gaussian probe is :math:`\chi^2_m`, a noise of 141 % for m = 1, whatever n is. Its mass, in contrast, is
m/n. So the mass is set to the posterior mean of m, divided by n, and the other weights are rescaled to what is left;
the posterior variance of m stays in every error bar [Bhattacharjee et al. 2025, for the idea of resetting weights].

The posterior of all multiplicities is hierarchical: all are one, as for a generic matrix; nearly all are one; most are
two, as for a doubled space; or each is drawn on its own from a broad prior, as for lattices and graphs. The evidence of
all eigenvalues and probes together decides between these hypotheses. In the last case the weights stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from specdens._distributions.cdf import Floats
from specdens._measure.quadrature import Rule

SHARP = 1 / 100
"""The largest residual of a converged Ritz value, as a share of the distance to its neighbours."""

_LOOSE = 1 / 5  # the same for a probe that lags behind the majority: its weight is off by 4 % at most
_FAINTEST = 1e-5  # eigenvalues: a moving node that is lighter is a ghost; one eigenvalue in 400 is as light
_FAINTEST_CONVERGED = 1e-10  # the same for a node that has converged
_ROOM = 300.0  # units of rounding: copies of one eigenvalue differ by less
_HEAVIEST = 24.0  # mean of n·ω beyond which the weight tells the multiplicity as well as any prior
_MULTIPLE = 1.5  # mean of n·ω of an eigenvalue that seems multiple
_LARGEST = 64.0  # multiplicity of eigenvalues of lattices; the group of a cube has 48 elements

_MULTIPLICITIES = np.arange(1, 129)
_DECIDED = 0.15  # posterior of mixed multiplicities from which on the weights are left as they are


def _around(center: float) -> Floats:
    """Return a broad prior around a multiplicity: log-normal, a factor of two either way."""
    weights = np.exp(-0.5 * np.square(np.log(_MULTIPLICITIES / center) / np.log(2.0))) / _MULTIPLICITIES
    return np.asarray(weights / np.sum(weights), dtype=np.float64)


def _priors() -> tuple[Floats, Floats, int]:
    """Return hypotheses on how multiplicities are distributed, the logarithms of their priors, and how many are mixed.

    The mixed ones come last.
    """
    falling = _MULTIPLICITIES**-1.5 / np.sum(_MULTIPLICITIES**-1.5)
    one, two = (np.where(k == _MULTIPLICITIES, 1.0, 0.0) for k in (1, 2))
    regular = [
        (0.60, one),  # a generic matrix
        (0.03, 0.95 * one + 0.05 * falling),  # simple but for a few
        (0.03, 0.8 * two + 0.2 * _around(2.0)),  # a doubled space
    ]
    mixed = [(0.06, falling), *((0.07, _around(center)) for center in (2.0, 4.0, 8.0, 16.0))]  # lattices and graphs
    hypotheses = regular + mixed
    return np.array([prior for _, prior in hypotheses]), np.log([share for share, _ in hypotheses]), len(mixed)


@dataclass(frozen=True, eq=False)
class Isolated:
    """Isolated eigenvalues in increasing order, with the posterior of their multiplicities.

    Attributes
    ----------
    positions : ndarray
        Where they are.
    errors : ndarray
        How far an eigenvalue may be from there: the residuals.
    multiplicities : ndarray
        Posterior means.
    covariance : ndarray
        Posterior covariance of the multiplicities: doubt about all of them together is shared.
    rests : tuple of Rule
        Per probe the rule without their nodes, of weight 1.
    """

    positions: Floats
    errors: Floats
    multiplicities: Floats
    covariance: Floats
    rests: tuple[Rule, ...]

    @property
    def stderrs(self) -> Floats:
        """The standard deviations of the multiplicities."""
        return np.sqrt(np.diag(self.covariance))


class _Groups(NamedTuple):
    """Ritz values of one probe, copies merged, in increasing order."""

    x: Floats
    lo: Floats
    hi: Floats
    r: Floats
    gap: Floats
    number: Floats
    """n·ω, summed over the copies."""


def find_isolated(
    rules: Sequence[Rule], *, dimension: int, eps: float, is_complex: bool, simple: bool = False
) -> Isolated | None:
    """Return the isolated eigenvalues that random probes have found, or None.

    Parameters
    ----------
    rules
        The quadrature rule of every probe.
    dimension
        The number of eigenvalues that the rules stand for.
    eps
        The unit of rounding of the vectors.
    is_complex
        Whether the probes are complex: 2n·ω is then distributed as chi-squared with 2m degrees of freedom.
    simple
        Whether all multiplicities are known to be one.
    """
    if not rules or dimension < 2:
        return None
    room = _room(rules, eps)
    found = _converged(rules, dimension, room, eps, heaviest=_HEAVIEST)
    if not found.x.size:
        return None
    posterior = _simple(found) if simple else _posterior(found.total, len(rules), is_complex)
    if posterior is None:
        return None
    mean, covariance = posterior
    # another eigenvalue within the residual would not be seen: with levels at random that has about this probability
    covariance = covariance + np.diag(np.minimum(2 * found.closeness, 1.0))
    rests = [_without(rule, found, room) for rule in rules]
    if any(rest is None for rest in rests):  # nothing is left: right if every eigenvalue has been found
        if found.x.size != dimension:
            return None
        mean, covariance = np.ones(found.x.size), np.zeros(2 * found.x.shape)
    elif np.sum(mean) > dimension - 1:
        return None
    kept = tuple(Rule(np.empty(0), np.empty(0), np.empty(0), True) if rest is None else rest for rest in rests)
    return Isolated(found.x, found.r, mean, covariance, kept)


def largest_multiplicity(rules: Sequence[Rule], *, dimension: int, eps: float, is_complex: bool) -> float:
    """Return the largest multiplicity of the isolated eigenvalues where multiplicities are mixed, else 0.

    Lattices and graphs have multiple eigenvalues inside a bulk, too, where a run may not resolve them. At least two of
    the isolated ones must seem multiple. Those of null spaces and the like, above 64, do not count: they are single
    ones, and show in the weights.

    Parameters
    ----------
    rules, dimension, eps, is_complex
        As for `find_isolated`.
    """
    if not rules or dimension < 2:
        return 0.0
    found = _converged(rules, dimension, _room(rules, eps), eps, heaviest=_LARGEST)
    multiplicities = found.total / len(rules)
    if np.sum(multiplicities > _MULTIPLE) < 2 or _posterior(found.total, len(rules), is_complex) is not None:
        return 0.0
    return float(np.max(multiplicities))


def converged_ranges(rules: Sequence[Rule], *, dimension: int, eps: float) -> tuple[Floats, Floats, Floats]:
    """Return, for every converged eigenvalue, where its nodes begin and end, and how far it may be from them.

    The last is twice r²/gap (Kato, Temple), the extent of a slab around a node. Nodes that are further apart than that
    are those of a narrow cluster of eigenvalues.

    Parameters
    ----------
    rules, dimension, eps
        As for `find_isolated`.
    """
    if not rules or dimension < 2:
        return np.empty(0), np.empty(0), np.empty(0)
    room = _room(rules, eps)
    found = _converged(rules, dimension, room, eps, heaviest=np.inf)
    error = 2 * found.r * found.closeness + room
    single = found.hi - found.lo <= 2 * error
    return found.lo[single], found.hi[single], error[single]


def _room(rules: Sequence[Rule], eps: float) -> float:
    """Return how far copies of one eigenvalue may differ."""
    return _ROOM * eps * max(float(np.max(np.abs(rule.nodes), initial=0.0)) for rule in rules)


def _converged(rules: Sequence[Rule], dimension: int, room: float, eps: float, *, heaviest: float) -> _Found:
    """Return the eigenvalues that the probes have found, up to a multiplicity."""
    found = _matched([_groups(rule, dimension, room, eps) for rule in rules], room)
    return _Found(*(part[found.total / len(rules) <= heaviest] for part in found))


class _Found(NamedTuple):
    """Eigenvalues that most probes have found: position, residual, extent, n·ω over all probes, residual over gap."""

    x: Floats
    r: Floats
    lo: Floats
    hi: Floats
    total: Floats
    closeness: Floats


def _groups(rule: Rule, n: int, room: float, eps: float) -> _Groups:
    """Return the Ritz values of one probe with their copies merged, and the distances to their neighbours."""
    has_converged = rule.residuals <= np.sqrt(eps) * float(np.max(np.abs(rule.nodes), initial=0.0))
    kept = n * rule.weights > np.where(has_converged, _FAINTEST_CONVERGED, _FAINTEST)
    x, w, r = rule.nodes[kept], rule.weights[kept], rule.residuals[kept]
    if not x.size:
        return _Groups(*np.empty((6, 0)))
    starts = np.flatnonzero(np.concatenate([[True], np.diff(x) > room + 2 * np.minimum(r[1:], r[:-1])]))
    total = np.add.reduceat(w, starts)
    best = np.add.reduceat(w * (x - np.repeat(x[starts], np.diff(np.append(starts, x.size)))), starts) / total
    mean = x[starts] + best
    square = np.add.reduceat(w * (r**2 + (x - np.repeat(mean, np.diff(np.append(starts, x.size)))) ** 2), starts)
    lo, hi = x[starts], x[np.append(starts[1:], x.size) - 1]
    gaps = np.concatenate([[np.inf], lo[1:] - hi[:-1], [np.inf]])
    gap = np.minimum(gaps[1:], gaps[:-1])
    return _Groups(mean, lo, hi, np.sqrt(square / total), np.where(np.isfinite(gap), gap, 0.0), n * total)


def _matched(groups: Sequence[_Groups], room: float) -> _Found:
    """Return the groups that stand apart in the majority of the probes and do not contradict the others."""
    sharp = [(each.gap > 0) & (np.maximum(each.r, each.hi - each.lo + room) <= SHARP * each.gap) for each in groups]
    x, r, gap = (
        np.concatenate([getattr(each, name)[keep] for each, keep in zip(groups, sharp, strict=True)])
        for name in ("x", "r", "gap")
    )
    if not x.size:
        return _Found(*np.empty((6, 0)))
    order = np.argsort(x, kind="stable")
    x, r, gap = x[order], r[order], gap[order]
    reach = room + 2 * (r[1:] + r[:-1])
    starts = np.flatnonzero(np.concatenate([[True], np.diff(x) > reach]))
    votes = np.diff(np.append(starts, x.size))
    best = starts + np.array([int(np.argmin(part)) for part in np.split(r, starts[1:])])
    x, r = x[best], r[best]
    gap = np.minimum.reduceat(gap, starts)
    enough = len(groups) // 2 + 1 if len(groups) > 2 else len(groups)
    total, lo, hi, agree = np.zeros(x.shape), x.copy(), x.copy(), votes >= enough
    for each in groups:
        near = _nearest(each, x)
        there = np.abs(each.x[near] - x) <= gap / 3
        clear = (each.r[near] <= _LOOSE * each.gap[near]) & (np.abs(each.x[near] - x) <= _LOOSE * gap)
        agree &= ~there | clear
        total += np.where(there, each.number[near], 0.0)
        lo = np.where(there, np.minimum(lo, each.lo[near]), lo)
        hi = np.where(there, np.maximum(hi, each.hi[near]), hi)
    closeness = r / gap
    return _Found(*(part[agree] for part in (x, r, lo, hi, total, closeness)))


def _nearest(groups: _Groups, x: Floats) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the index of the group nearest to every x."""
    above = np.clip(np.searchsorted(groups.x, x), 0, groups.x.size - 1)
    below = np.maximum(above - 1, 0)
    nearest: np.ndarray[tuple[int], np.dtype[np.intp]] = np.where(
        np.abs(groups.x[below] - x) < np.abs(groups.x[above] - x), below, above
    )
    return nearest


def _without(rule: Rule, found: _Found, room: float) -> Rule | None:
    """Return the rule without the nodes of what was found, of weight 1 again; None if nothing is left."""
    i = np.searchsorted(found.hi + room, rule.nodes)
    at = np.minimum(i, found.x.size - 1)
    keep = (i == found.x.size) | (rule.nodes < found.lo[at] - room)
    mass = float(np.sum(rule.weights[keep]))
    if mass <= 1e-9:
        return None
    return Rule(rule.nodes[keep], rule.weights[keep] / mass, rule.residuals[keep], rule.exact)


def _simple(found: _Found) -> tuple[Floats, Floats]:
    return np.ones(found.x.size), np.zeros((found.x.size, found.x.size))


def _posterior(total: Floats, num_probes: int, is_complex: bool) -> tuple[Floats, Floats] | None:
    """Return posterior means and covariance of multiplicities from n·ω summed over the probes.

    The sum over s real probes is a Gamma variable of shape m s/2 and scale 2; over complex ones of shape m s, scale 1.
    As far as multiplicities are mixed, the estimate is the mean weight itself, which is unbiased; None where they are.
    """
    half = 1.0 if is_complex else 0.5
    shape = half * num_probes * _MULTIPLICITIES[:, None]
    y = np.maximum(half * total, 1e-12)
    log_likelihood = (shape - 1) * np.log(y) - y - gammaln(shape)
    priors, log_priors, num_mixed = _priors()
    with np.errstate(divide="ignore"):
        joint = np.log(priors)[:, :, None] + log_likelihood  # hypothesis, multiplicity, eigenvalue
    evidence = logsumexp(joint, axis=1)
    log_posterior = log_priors + np.sum(evidence, axis=1)
    posterior = np.exp(log_posterior - logsumexp(log_posterior))
    if np.sum(posterior[-num_mixed:]) > _DECIDED:
        return None
    share = np.exp(joint - evidence[:, None])
    means = np.einsum("m,hmj->hj", _MULTIPLICITIES, share)
    variances = np.einsum("m,hmj->hj", _MULTIPLICITIES**2, share) - means**2
    seen = total / num_probes
    means[-num_mixed:] = seen
    variances[-num_mixed:] = np.maximum(seen, 1.0) / (half * num_probes)
    mean = posterior @ means
    centred = means - mean
    return mean, (centred.T * posterior) @ centred + np.diag(posterior @ variances)
