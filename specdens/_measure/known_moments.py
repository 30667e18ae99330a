"""Exact moments of a spectrum as control variates: they correct the weights of all probes and shrink their errors.

With the exact means of λ, λ², … the best linear correction of the estimated masses multiplies the weights of the rest
by a polynomial, and shifts the masses of isolated eigenvalues as far as their multiplicities are in doubt. What is left
of the error of a reading is the part that is not correlated with the errors of those moments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specdens._distributions.cdf import Floats
from specdens._measure.isolated import Isolated
from specdens._measure.quadrature import Rule

MOST_MOMENTS = 7  # more are correlated to rounding

_LEAST_FACTOR, _MOST_FACTOR = 0.1, 10.0  # by which a weight is multiplied


@dataclass(frozen=True, eq=False)
class Controls:
    """Covariances of readings with the moments that are known.

    Attributes
    ----------
    nodes, weights : ndarray
        The rules of the rest of all probes together, of weight 1, before the correction.
    centred : ndarray
        Per node the powers of the scaled position, less their means.
    isolated : ndarray
        The same per isolated eigenvalue.
    rest_variance : float
        The variance of a mean over the rest, in units of the variance over its spectrum, times its squared mass.
    mass_covariance : ndarray
        The covariance of the masses of the isolated eigenvalues.
    precision : ndarray
        The inverse of the covariance matrix of the moments.
    """

    nodes: Floats
    weights: Floats
    centred: Floats
    isolated: Floats
    rest_variance: float
    mass_covariance: Floats
    precision: Floats

    def explained(self, rest: Floats, isolated: Floats) -> Floats:
        """Return the variance of readings that the known moments explain.

        Parameters
        ----------
        rest
            The function of each reading at the nodes: one row per reading.
        isolated
            The same at the isolated eigenvalues, less the mean over the rest.
        """
        covariance = self.rest_variance * (rest * self.weights) @ self.centred
        covariance = covariance + (isolated @ self.mass_covariance) @ self.isolated
        explained: Floats = np.einsum("...i,ij,...j->...", covariance, self.precision, covariance)
        return explained


@dataclass(frozen=True, eq=False)
class Corrected:
    """Rules and isolated eigenvalues that have the known moments, and the controls that made them so."""

    rules: tuple[Rule, ...]
    isolated: Isolated | None
    controls: Controls


def as_moments(moments: Any) -> tuple[float, ...] | None:
    """Return given moments, the means of λ, λ², …, as numbers; refuse what cannot be moments."""
    if moments is None:
        return None
    values = np.atleast_1d(np.asarray(moments, dtype=np.float64))
    if values.ndim != 1 or not 1 <= values.size <= MOST_MOMENTS or not np.all(np.isfinite(values)):
        raise ValueError(
            f"`known_moments` must be one to {MOST_MOMENTS} finite numbers, the means of λ, λ², … over the spectrum; "
            f"got {moments!r}"
        )
    if values.size > 1 and values[1] < values[0] ** 2 * (1 - 1e-9):
        raise ValueError(
            f"`known_moments` must have a mean of λ² of at least the squared mean of λ, {values[0] ** 2:.6g}; "
            f"got {values[1]:.6g}. They are means over the eigenvalues: tr A / n, tr A² / n."
        )
    return tuple(float(value) for value in values)


def corrected(
    rules: tuple[Rule, ...],
    isolated: Isolated | None,
    *,
    residual: ArrayLike,
    center: float,
    scale: float,
    dimension: int,
    share: float,
    variance: float,
) -> Corrected:
    """Return rules and isolated eigenvalues that have known moments.

    Parameters
    ----------
    rules, isolated
        The rest of every probe, and the isolated eigenvalues.
    residual
        The exact moments of (λ − center)/scale less the estimated ones.
    center, scale
        What the moments are taken about, so that their covariance is well conditioned.
    dimension
        The number of eigenvalues.
    share
        The mass of the rest.
    variance
        The variance of a mean over the rest, in units of the variance over its spectrum.
    """
    residual = np.asarray(residual, dtype=np.float64)
    degrees = np.arange(1, residual.size + 1)
    nodes = np.concatenate([rule.nodes for rule in rules])
    weights = np.concatenate([rule.weights for rule in rules]) / len(rules)
    powers = ((nodes[:, None] - center) / scale) ** degrees
    mean = weights @ powers
    positions = np.empty(0) if isolated is None else isolated.positions
    doubt = np.zeros((0, 0)) if isolated is None else isolated.covariance / dimension**2
    at_isolated = ((positions[:, None] - center) / scale) ** degrees - mean
    centred = powers - mean
    covariance = share**2 * variance * (centred.T * weights) @ centred + at_isolated.T @ doubt @ at_isolated
    precision = np.asarray(np.linalg.pinv(covariance, rcond=1e-8, hermitian=True), dtype=np.float64)
    controls = Controls(nodes, weights, centred, at_isolated, share**2 * variance, doubt, precision)
    coefficients = precision @ residual
    factors = np.clip(1.0 + share * variance * centred @ coefficients, _LEAST_FACTOR, _MOST_FACTOR)
    factors /= weights @ factors
    ends = np.cumsum([rule.nodes.size for rule in rules])[:-1]
    tilted = tuple(
        Rule(rule.nodes, rule.weights * part, rule.residuals, rule.exact)
        for rule, part in zip(rules, np.split(factors, ends), strict=True)
    )
    if isolated is None:
        return Corrected(tilted, None, controls)
    shift = dimension * doubt @ at_isolated @ coefficients
    multiplicities = np.maximum(isolated.multiplicities + shift, 0.0)
    return Corrected(tilted, replace(isolated, multiplicities=multiplicities), controls)
