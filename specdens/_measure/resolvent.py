"""The resolvent of an operator from the continued fraction of its recurrence; see ``docs/explanation/lanczos.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdens._distributions.cdf import Floats
from specdens._measure.quadrature import Rule
from specdens._validate import as_choice

if TYPE_CHECKING:
    from specdens._measure.lanczos import SpectralMeasure

Complexes = NDArray[np.complex128]

_STEADY = 0.05  # how much the last coefficients may scatter, in units of β, to be at their limit
_GAP = 4.0  # of the spectrum, in units of the distances between nodes beside it
_NEGLIGIBLE = 1e-10  # weight of a node on its way through a gap
_LAST = 4  # the share 1/4 of the steps that shows the limit


class Resolvent(NamedTuple):
    """The resolvent at complex points.

    Attributes
    ----------
    value : ndarray
        G(z) = tr (z − A)⁻¹ / n, or ⟨v|(z − A)⁻¹|v⟩ averaged over given start vectors; complex, of the shape of z.
    stderr : ndarray
        The standard error of |G|: sampling, and quadrature as the difference to one step less.
    terminated : tuple of bool
        Per probe whether its continued fraction ends in a square root, as for an infinite system.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> value, stderr, terminated = sd.spectral_density(np.diag([1.0, -1.0])).measure.resolvent([1j])
    >>> value.round(12).tolist()  # (1/(i − 1) + 1/(i + 1)) / 2
    [-0.5j]
    """

    value: Complexes
    stderr: Floats
    terminated: tuple[bool, ...]


def limits_of(alphas: Floats, betas: Floats) -> tuple[float, float] | None:
    """Return the limits of the coefficients, or None if they have none: gaps make them oscillate, ghosts erratic."""
    last = max(4, betas.size // _LAST)
    if betas.size < 2 * last:
        return None
    alpha, beta = float(np.mean(alphas[-last:])), float(np.mean(betas[-last:]))
    scatter = max(float(np.std(alphas[-last:])), float(np.std(betas[-last:])))
    return (alpha, beta) if beta > 0 and scatter <= _STEADY * beta else None


def continued_fraction(
    z: Complexes, alphas: Floats, betas: Floats, last_beta: float, limits: tuple[float, float] | None
) -> Complexes:
    """Return 1/(z − α₁ − β₁²/(z − α₂ − …)), ended by a square root if the limits of the coefficients are given."""
    tail: Complexes = np.zeros(z.shape, dtype=np.complex128)
    if limits is not None:
        alpha, beta = limits
        # principal roots of the two factors, not of their product: the branch with |t| ≤ β
        t = (z - alpha - np.sqrt(z - alpha - 2 * beta) * np.sqrt(z - alpha + 2 * beta)) / 2
        tail = (last_beta / beta) ** 2 * t
    g: Complexes = 1.0 / (z - alphas[-1] - tail)
    for alpha, beta in zip(alphas[-2::-1], betas[::-1], strict=True):
        g = 1.0 / (z - alpha - beta**2 * g)
    return g


def resolvent_of(measure: SpectralMeasure, z: ArrayLike, terminator: str | None) -> Resolvent:
    """Return the resolvent of a measure, averaged over its probes, with the known atoms."""
    if terminator is not None:
        as_choice("terminator", terminator, ("auto", "sqrt"))
    points = np.asarray(z, dtype=np.complex128)
    _check_outside(measure, points)
    limits = [
        None if terminator is None or rule.exact else limits_of(alphas, np.append(betas, last))
        for alphas, betas, last, rule in _probes(measure)
    ]
    if terminator == "sqrt" and any(each is None for each in limits):
        raise ValueError(
            '`terminator` must be None or "auto" for this measure: its coefficients have no limit. A spectrum with '
            "gaps has none; ghosts of fast_lanczos hide it, slow_lanczos or fewer steps (measure.truncated) show it."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            continued_fraction(points, alphas, betas, last, each)
            for (alphas, betas, last, _), each in zip(_probes(measure), limits, strict=True)
        ]
        shorter = [
            fraction if rule.exact or alphas.size < 2 else continued_fraction(
                points, alphas[:-1], betas[:-1], float(betas[-1]), each
            )
            for (alphas, betas, _, rule), each, fraction in zip(_probes(measure), limits, parts, strict=True)
        ]  # fmt: skip
        known = [mass / (points - x) for x, mass in zip(*measure.known_atoms, strict=True)]
    zero = np.zeros(points.shape, dtype=np.complex128)
    share = measure.bulk_dimension / measure.dimension
    mean = sum(parts, zero) / max(len(parts), 1)
    quadrature = np.abs(mean - sum(shorter, zero) / max(len(parts), 1))
    squares = [np.tensordot(1 / np.abs(points[..., None] - rule.nodes) ** 2, rule.weights, 1) for rule in measure.rules]
    spread = np.maximum(sum(squares, np.zeros(points.shape)) / max(len(parts), 1) - np.abs(mean) ** 2, 0.0)
    stderr = share * np.hypot(np.sqrt(measure.sampling_variance * spread), quadrature)
    return Resolvent(sum(known, share * mean), np.asarray(stderr), tuple(each is not None for each in limits))


def _check_outside(measure: SpectralMeasure, points: Complexes) -> None:
    """Refuse real points within a band, where the resolvent has no value."""
    x = points[points.imag == 0].real
    for rule in measure.rules:
        nodes = rule.nodes[rule.weights > _NEGLIGIBLE]
        inside = x[(x >= nodes[0]) & (x <= nodes[-1])]
        if rule.exact or nodes.size < 4 or not inside.size:
            continue
        gaps = np.diff(nodes)
        around = np.concatenate([[np.nan] * 2, gaps, [np.nan] * 2])
        i = np.clip(np.searchsorted(nodes, inside, side="right") - 1, 0, gaps.size - 1)  # the gap that holds each
        beside = np.nanmean([around[i + shift] for shift in (0, 1, 3, 4)], axis=0)
        within = inside[gaps[i] < _GAP * beside]
        if within.size:
            raise ValueError(
                f"real `z` must lie outside the spectrum; got {within[0]:.6g} inside a band. Use z = E + 1j * eta, "
                "with a half width eta of the distance between nodes or more."
            )


def _probes(measure: SpectralMeasure) -> list[tuple[Floats, Floats, float, Rule]]:
    return list(zip(measure.alphas, measure.betas, measure.last_betas.tolist(), measure.rules, strict=True))
