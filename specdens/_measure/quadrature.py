"""The quadrature rule of one probe, and what it says of functions and of the distribution function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdens._distributions.cdf import Floats

_TWO = np.array([0.5, 1.0])  # most functions are defined there
_MAY_HIDE, _HIDES = 0.2, 0.35  # of the weight around x: the error where an atom may hide, and where some do
_BEYOND, _BEYOND_HEAVY = 0.5, 0.75  # of an end node's weight: the error beyond it, and if it may stand for an atom


class Rule(NamedTuple):
    """The quadrature rule of one probe."""

    nodes: Floats
    weights: Floats
    residuals: Floats
    exact: bool
    """Whether the nodes are eigenvalues and the weights their exact masses: all of them are atoms then."""


def values_of(f: Callable[[Floats], ArrayLike], x: Floats) -> NDArray[Any]:
    """Return f(x), or say that f takes numbers instead of arrays."""
    if not callable(f):
        raise TypeError(f"`f` must be a function of an array of eigenvalues, such as np.exp; got {f!r}")
    try:
        with np.errstate(all="ignore"):
            return np.asarray(f(x))
    except (TypeError, ValueError):
        if x.size > 1:
            check_takes_arrays("f", f, at=x[:2])
        raise


def check_takes_arrays(name: str, f: Callable[[Floats], ArrayLike], *, at: Floats = _TWO) -> None:
    """Refuse a function that takes a number but no array of them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            f(at)
        except (TypeError, ValueError) as error:
            try:
                f(float(at[0]))  # type: ignore[arg-type]
            except Exception:  # it fails on numbers too: not for this reason
                return
            raise TypeError(
                f"`{name}` must take arrays: np.exp and np.maximum(x, 0) do, math.exp and max(x, 0) do not ({error}). "
                "np.vectorize turns one into the other."
            ) from error
        except Exception:
            return


def apply_function(f: Callable[[Floats], ArrayLike], x: Floats) -> Floats:
    """Return f(x), or say where it is not finite or has the wrong shape."""
    if x.size == 0:
        return np.empty(0)
    values = values_of(f, x)
    if values.shape != x.shape:
        values = np.broadcast_to(values, x.shape) if values.ndim == 0 else values
    if values.shape != x.shape or np.iscomplexobj(values):
        raise ValueError(
            f"`f` must map {x.size} eigenvalues to as many real numbers; got {values.dtype} of shape {values.shape}"
        )
    values = values.astype(np.float64)
    if not np.all(np.isfinite(values)):
        where = x[~np.isfinite(values)][0]
        raise ValueError(
            f"`f` must be finite on the spectrum; got f({where:.6g}) = {values[~np.isfinite(values)][0]}. "
            "Shift or clip its argument, for instance np.log(np.abs(x) + epsilon) or np.sqrt(np.maximum(x, 0))."
        )
    return values


def cdf_error(rule: Rule, x: Floats, *, dimension: float, hidden: float = 0.0) -> Floats:
    """Return the standard deviation of the best estimate of a probe's distribution function.

    The gap between the Chebyshev–Markov–Stieltjes bounds at x is the weight of the two nodes around it. Of each
    weight at most the share r²/(r² + d²) can lie beyond x (Cantelli; r the residual, d the distance). Where weights
    vary linearly from node to node the estimate errs by about 2 % of that, where they do not by up to 40 % more; beyond
    the outermost node, where the estimate has nothing, by half of it, or by all of it if that node stands for an atom:
    it is then heavier than its neighbour.

    Parameters
    ----------
    rule
        The quadrature rule of the probe.
    x
        Where to evaluate it.
    dimension
        The number of eigenvalues: the weights of a random probe fluctuate, which is no sign of a rough spectrum.
    hidden
        The mass of atoms that lie between nodes although the weights do not show them; infinite if there is no sign of
        any, but might be.
    """
    if rule.exact or not rule.nodes.size:
        return np.zeros(x.shape)
    last = rule.nodes.size - 1
    i = np.searchsorted(rule.nodes, x, side="right") - 1
    around = np.stack([rule.weights[np.clip(i + s, 0, last)] for s in (-1, 0, 1, 2)])
    rough = np.maximum(_roughness(around[:3], dimension), _roughness(around[1:], dimension))
    radii, gap = _radii(rule), np.zeros(x.shape)
    for j in (i, i + 1):
        at = np.clip(j, 0, last)
        r2, d2 = radii[at] ** 2, (x - rule.nodes[at]) ** 2
        # all of it where an eigenvalue may be at x itself: a node that stands for one is off by its radius at most
        beyond = np.where(radii[at] < rule.residuals[at] / 4, np.maximum(r2, d2), r2 + d2)
        gap += np.where(j == at, rule.weights[at] * r2 / np.maximum(beyond, np.finfo(float).tiny), 0.0)
    hiding = _MAY_HIDE if np.isinf(hidden) else _HIDES
    inside = np.maximum((0.4 * rough + 0.02) * gap, np.minimum(hiding * gap, hidden))
    end, inner = np.where(i < 0, 0, last), np.where(i < 0, min(1, last), max(last - 1, 0))
    beyond = np.where(rule.weights[end] > rule.weights[inner], _BEYOND_HEAVY, _BEYOND) * gap
    error: Floats = np.where((i < 0) | (i == last), beyond, inside)
    return error


def _radii(rule: Rule) -> Floats:
    """Return how far an eigenvalue is from its node: the residual r, or r²/gap where that is less (Kato, Temple)."""
    if rule.nodes.size < 2:
        return rule.residuals
    gaps = np.diff(rule.nodes)
    nearest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
    radii: Floats = rule.residuals * np.minimum(1.0, rule.residuals / np.maximum(nearest, np.finfo(float).tiny))
    return radii


def _roughness(weights: Floats, dimension: float) -> Floats:
    """Return how far three weights are from a straight line, beyond what random probes explain; between 0 and 1."""
    before, at, after = weights
    noise = 2.0 / max(dimension, 1) * (before + 4 * at + after)
    bend = np.sqrt(np.maximum(np.square(before - 2 * at + after) - 2 * noise, 0.0))
    largest = np.maximum(np.maximum(before, at), after)
    rough: Floats = np.minimum(bend / np.maximum(largest, np.finfo(float).tiny), 1.0)
    return rough


def markov_bounds(rule: Rule, x: Floats) -> tuple[Floats, Floats]:
    """Return Σ_{j: θ_{j+1} ≤ x} ω_j and ω₁ + Σ_{j≥2: θ_{j−1} ≤ x} ω_j."""
    below = np.searchsorted(rule.nodes, x, side="right")
    total = np.concatenate([[0.0], np.cumsum(rule.weights)])
    total[-1] = 1.0
    unknown = np.where(np.isnan(x), np.nan, 0.0)
    if rule.exact:
        return total[below] + unknown, total[below] + unknown
    k = rule.nodes.size
    upper = np.where(below == 0, total[min(1, k)], total[np.minimum(below + 1, k)])
    return total[np.maximum(below - 1, 0)] + unknown, upper + unknown
