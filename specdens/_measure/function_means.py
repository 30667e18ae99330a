"""The mean of a function over a spectrum, by Gauss quadrature or by slabs, whichever errs less, with its error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from specdens._distributions.cdf import Cdf, Floats
from specdens._measure.quadrature import Rule, apply_function, cdf_error

if TYPE_CHECKING:
    from specdens._measure.core import MeasureCore

Function = Callable[[Floats], ArrayLike]

_ENOUGH_NODES = 12  # fewer do not show how a function behaves between them
_PIECES = 16  # parts of a slab at which a function is evaluated
_NEGLIGIBLE = 1e-11  # mass that rounding may put anywhere
_OUTSIDE = np.array([0.0625, 0.125, 0.25, 0.5, 0.75, 1.0])  # residuals beyond an end node at which to look
_SLOWEST = 8.0  # the error left after the last step is at most this many times the last change
_LADDER: tuple[Callable[[int], int], ...] = (
    lambda k: k - 1,
    lambda k: k - 2,
    lambda k: 3 * k // 4,
    lambda k: k // 2,
    lambda k: k // 4,
)


class FunctionMean(NamedTuple):
    """The mean of a function over the probes' rules and its quadrature error."""

    value: float
    error: float
    by_slabs: bool
    """Whether the slabs of the refined distribution gave it: for functions that jump between the nodes."""


def function_mean(
    f: Function, measure: MeasureCore, rules: Sequence[Rule], cdfs: Sequence[Cdf], *, room: float
) -> FunctionMean:
    """Return the mean of f over the rules of all probes, with an estimate of its quadrature error.

    Gauss quadrature is exact for polynomials of degree 2k − 1 and converges geometrically for smooth functions. For a
    function that jumps it errs by the weight of a node, and the slabs of the refined distribution err less. Both are
    computed from all steps and from fewer; the one that changes less is taken.

    Parameters
    ----------
    f
        A function of an array of eigenvalues.
    measure
        The measure, from which shorter runs are taken.
    rules, cdfs
        What to average over: the measure's own, or what is left of them without isolated eigenvalues.
    room
        How far rounding may move a node.
    """
    whole, ladder = (rule_mean(f, measure.rules), [rule_mean(f, measure.shortened(cut).rules) for cut in _LADDER])
    change = _change(whole, ladder)
    gauss, slabs = rule_mean(f, rules), slab_mean(f, cdfs)
    fewer = [slab_mean(f, measure.shortened(cut).probe_cdfs) for cut in _LADDER[:3]]
    change_slabs = _change(slab_mean(f, measure.probe_cdfs), fewer)
    other = float(np.hypot(_beyond_ends(f, rules), _rounding(f, rules, room)))
    if change_slabs < change and min((rule.nodes.size for rule in rules), default=0) >= _ENOUGH_NODES:
        change_slabs = max(float(np.hypot(change_slabs, (gauss - slabs) / 4)), _between_nodes(f, rules, measure))
        return FunctionMean(slabs, float(np.hypot(change_slabs, other)), True)
    return FunctionMean(gauss, float(np.hypot(np.hypot(change, _left_over(whole, *ladder[3:])), other)), False)


def rule_mean(f: Function, rules: Sequence[Rule]) -> float:
    """Return the mean over the rules of Σ ωⱼ f(θⱼ)."""
    means = [float(rule.weights @ finite_values(f, rule)) for rule in rules if rule.nodes.size]
    return float(np.mean(means)) if means else 0.0


def finite_values(f: Function, rule: Rule) -> Floats:
    """Return f at the nodes; where f is not finite at nodes that carry no more than rounding, zero."""
    heavy = rule.weights > _NEGLIGIBLE
    values = np.zeros(rule.nodes.shape)
    values[heavy] = apply_function(f, rule.nodes[heavy])
    if not heavy.all():
        with np.errstate(all="ignore"):
            light = np.broadcast_to(np.asarray(f(rule.nodes[~heavy]), dtype=np.float64), int(np.sum(~heavy)))
        values[~heavy] = np.where(np.isfinite(light), light, 0.0)
    return values


def slab_mean(f: Function, cdfs: Sequence[Cdf]) -> float:
    """Return the mean of f over piecewise linear distribution functions; nan where f is not finite somewhere."""
    parts = (np.arange(_PIECES) + 0.5) / _PIECES
    means = []
    for cdf in cdfs:
        mass = np.diff(cdf.values)
        keep = mass > _NEGLIGIBLE
        lo, width = cdf.positions[:-1][keep], np.diff(cdf.positions)[keep]
        with np.errstate(all="ignore"):
            values = np.broadcast_to(np.asarray(f((lo[:, None] + width[:, None] * parts).ravel())), lo.size * _PIECES)
        means.append(float(mass[keep] @ np.mean(values.reshape(-1, _PIECES), axis=1)))
    return float(np.mean(means)) if means else 0.0


def _change(value: float, fewer: Sequence[float]) -> float:
    """Return what the last steps changed: one alone misses an even function on an even spectrum."""
    one, two, quarter = fewer[:3]
    change = float(np.hypot(max(abs(one - value), abs(two - value)), quarter - value))
    return change if np.isfinite(change) else np.inf


def _left_over(value: float, half: float, quarter: float) -> float:
    """Return what is left of a geometric series through a quarter, half and all of the steps."""
    last, before = abs(value - half), abs(half - quarter)
    return last * min(last / max(before - last, last / _SLOWEST), _SLOWEST) if last > 0 else 0.0


def _beyond_ends(f: Function, rules: Sequence[Rule]) -> float:
    """Return what the outer halves of the end nodes' weights can change, if they lie as far out as the residuals say.

    The spectrum reaches beyond the outermost Ritz values by about their residuals. A function that is constant on all
    nodes may change there. A heavy end node beside zero stands for a part of the spectrum that may extend over decades.
    """
    total = 0.0
    for rule in rules:
        if rule.exact or not rule.nodes.size:
            continue
        heavy = np.flatnonzero(rule.weights > _NEGLIGIBLE)
        nodes, weights, residuals = (part[heavy] for part in rule[:3])
        for end, inner, sign in ((0, 1, -1.0), (-1, -2, 1.0)):
            x, r, weight = nodes[end], residuals[end], weights[end]
            points = x + sign * r * _OUTSIDE
            if abs(x) < r and sign * x < 0:
                is_heavy = nodes.size > 1 and weight > 2 * weights[inner]
                points = np.append(points, x * 10.0 ** -np.arange(1, 13 if is_heavy else 2))
            total += float(weight / 2 * _largest_change(f, x, points))
    return total / max(len(rules), 1)


def _rounding(f: Function, rules: Sequence[Rule], room: float) -> float:
    """Return what the rounding of the nodes can change: much if f jumps at an eigenvalue."""
    total = 0.0
    for rule in rules:
        keep = rule.weights > _NEGLIGIBLE
        x = rule.nodes[keep]
        with np.errstate(all="ignore"):
            low, high = (
                np.broadcast_to(np.asarray(f(x + shift), dtype=np.float64), x.shape) for shift in (-room, room)
            )
            change = np.abs(high - low) / 2
        total += float(rule.weights[keep] @ np.where(np.isfinite(change), change, 0.0))
    return total / max(len(rules), 1)


def _between_nodes(f: Function, rules: Sequence[Rule], measure: MeasureCore) -> float:
    """Return the error of ∫ f dF due to that of F, independent from one gap between nodes to the next."""
    total = 0.0
    for rule in rules:
        if rule.nodes.size > 1:
            middle = (rule.nodes[1:] + rule.nodes[:-1]) / 2
            jumps = np.diff(finite_values(f, rule))
            total += float(np.linalg.norm(jumps * cdf_error(rule, middle, dimension=measure.bulk_dimension)))
    return total / max(len(rules), 1)


def _largest_change(f: Function, x: float, points: Floats) -> float:
    with np.errstate(all="ignore"):
        values = np.broadcast_to(np.asarray(f(np.append(x, points)), dtype=np.float64), points.size + 1)
        change = np.abs(values[1:] - values[0])
    return float(np.max(change[np.isfinite(change)], initial=0.0))
