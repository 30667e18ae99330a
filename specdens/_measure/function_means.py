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
_UNSEEN = 0.1  # range of f on the nodes, as a share of that between them, below which it is too narrow for nodes
_NEGLIGIBLE = 1e-11  # mass that rounding may put anywhere
_OUTSIDE = np.array([0.0625, 0.125, 0.25, 0.5, 0.75, 1.0])  # parts of the reach beyond an end node at which to look
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
    computed from all steps and from fewer; the one that changes less is taken. Of a function that is narrower than the
    distance between nodes no rule need see anything: then the slabs are taken.

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
    other = float(np.hypot(_beyond_ends(f, rules, measure), _rounding(f, rules, room)))
    on_nodes, everywhere = _ranges(f, rules, cdfs)
    is_unseen = on_nodes < _UNSEEN * everywhere and np.isfinite(slabs)
    if (change_slabs < change or is_unseen) and min((rule.nodes.size for rule in rules), default=0) >= _ENOUGH_NODES:
        change_slabs = max(float(np.hypot(change_slabs, (gauss - slabs) / 4)), _between_nodes(f, rules, measure))
        return FunctionMean(slabs, float(np.hypot(min(change_slabs, everywhere / 2), other)), True)
    change = min(float(np.hypot(change, _left_over(whole, *ladder[3:]))), everywhere / 2)
    return FunctionMean(gauss, float(np.hypot(change, other)), False)


def rule_mean(f: Function, rules: Sequence[Rule]) -> float:
    """Return the mean over the rules of Σ ωⱼ f(θⱼ)."""
    means = [float(rule.weights @ finite_values(f, rule)) for rule in rules if rule.nodes.size]
    return float(np.mean(means)) if means else 0.0


def _ranges(f: Function, rules: Sequence[Rule], cdfs: Sequence[Cdf]) -> tuple[float, float]:
    """Return the range of f on the nodes, and on and between them.

    No mean is further off than half of the latter, but for what lies beyond the ends.
    """
    on_nodes = everywhere = 0.0
    for rule, cdf in zip(rules, cdfs, strict=True):
        values = finite_values(f, rule)[rule.weights > _NEGLIGIBLE]
        between = slab_values(f, cdf)[1].ravel()
        on_nodes = max(on_nodes, float(np.ptp(values)) if values.size else 0.0)
        values = np.concatenate([values, between[np.isfinite(between)]])
        everywhere = max(everywhere, float(np.ptp(values)) if values.size else 0.0)
    return on_nodes, everywhere


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
    means = [float(mass @ np.mean(values, axis=1)) for mass, values in (slab_values(f, cdf) for cdf in cdfs)]
    return float(np.mean(means)) if means else 0.0


def slab_values(f: Function, cdf: Cdf) -> tuple[Floats, Floats]:
    """Return the masses of the slabs of a distribution function, and f at points within each, one row per slab."""
    parts = (np.arange(_PIECES) + 0.5) / _PIECES
    mass = np.diff(cdf.values)
    keep = mass > _NEGLIGIBLE
    lo, width = cdf.positions[:-1][keep], np.diff(cdf.positions)[keep]
    with np.errstate(all="ignore"):
        values = np.asarray(f((lo[:, None] + width[:, None] * parts).ravel()), dtype=np.float64)
    return mass[keep], np.broadcast_to(values, lo.size * _PIECES).reshape(-1, _PIECES)


def _change(value: float, fewer: Sequence[float]) -> float:
    """Return what the last steps changed: one alone misses an even function on an even spectrum."""
    one, two, quarter = fewer[:3]
    change = float(np.hypot(max(abs(one - value), abs(two - value)), quarter - value))
    return change if np.isfinite(change) else np.inf


def _left_over(value: float, half: float, quarter: float) -> float:
    """Return what is left of a geometric series through a quarter, half and all of the steps."""
    last, before = abs(value - half), abs(half - quarter)
    return last * min(last / max(before - last, last / _SLOWEST), _SLOWEST) if last > 0 else 0.0


def _beyond_ends(f: Function, rules: Sequence[Rule], measure: MeasureCore) -> float:
    """Return what the weights of the end nodes can change, if the spectrum reaches beyond the outermost Ritz values.

    A function that is constant on all nodes may change there. Half of the weight lies outside, as far as `_reaches`
    says, and half of it as far inside, because the rule has the right mean: what f changes linearly cancels. A heavy
    end node beside zero stands for a part of the spectrum that may extend over decades.
    """
    total = 0.0
    for rule, reaches in zip(rules, _reaches(rules, measure), strict=True):
        if rule.exact or not rule.nodes.size:
            continue
        heavy = np.flatnonzero(rule.weights > _NEGLIGIBLE)
        nodes, weights = rule.nodes[heavy], rule.weights[heavy]
        for reach, end, inner, sign in zip(reaches, (0, -1), (1, -2), (-1.0, 1.0), strict=True):
            x, weight = nodes[end], weights[end]
            points = x + sign * reach * _OUTSIDE
            if abs(x) < reach and sign * x < 0:
                is_heavy = nodes.size > 1 and weight > 2 * weights[inner]
                points = np.append(points, x * 10.0 ** -np.arange(1, 13 if is_heavy else 2))
            total += float(weight / 2 * _largest_change(f, x, points))
    return total / max(len(rules), 1)


def _reaches(rules: Sequence[Rule], measure: MeasureCore) -> list[tuple[float, float]]:
    """Return per rule how far the spectrum may reach below its first and above its last node.

    There is an eigenvalue within the residual, which is a bound, and far from sharp where the node stands for many
    eigenvalues. The second half of the steps has moved the end nodes outwards; twice that is as much as is left where
    they converge geometrically, or with the square of the number of steps. It is known where the rules are those of
    the whole run.
    """
    halves = measure.shortened(lambda k: k // 2).rules
    known = len(halves) == len(rules) == len(measure.rules)
    found = []
    for i, rule in enumerate(rules):
        if not rule.nodes.size:
            found.append((0.0, 0.0))
            continue
        heavy = np.flatnonzero(rule.weights > _NEGLIGIBLE)
        ends = []
        for end in (0, -1):
            reach = float(rule.residuals[heavy[end]])
            is_shorter = known and 0 < halves[i].nodes.size < measure.rules[i].nodes.size
            if is_shorter and rule.nodes[heavy[end]] == measure.rules[i].nodes[end]:
                reach = min(reach, 2 * abs(float(rule.nodes[heavy[end]] - halves[i].nodes[end])))
            ends.append(reach)
        found.append((ends[0], ends[1]))
    return found


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
    """Return the largest |f(p) + f(2x − p) − 2 f(x)| over points p; |f(p) − f(x)| where f has no value at 2x − p."""
    with np.errstate(all="ignore"):
        everywhere = np.concatenate([[x], points, 2 * x - points])
        values = np.broadcast_to(np.asarray(f(everywhere), dtype=np.float64), everywhere.shape)
        out, back = (part - values[0] for part in (values[1 : points.size + 1], values[points.size + 1 :]))
        change = np.abs(out + np.where(np.isfinite(back), back, 0.0))
    return float(np.max(change[np.isfinite(change)], initial=0.0))
