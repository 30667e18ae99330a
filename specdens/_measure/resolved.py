"""What a measure says once isolated eigenvalues have been taken out of the probes' rules.

Given its part in the isolated eigenspaces, the rest of a Gaussian probe is a Gaussian probe of the complement. So the
rest is read as if the isolated eigenvalues had been deflated, and their masses are known up to the multiplicities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from specdens._density.smoothing import variance_masses
from specdens._distributions.atoms import Atoms
from specdens._distributions.cdf import Cdf, Floats, mixture
from specdens._measure.estimate import Count, Estimate
from specdens._measure.function_means import FunctionMean, finite_values, function_mean, slab_values
from specdens._measure.isolated import Isolated
from specdens._measure.known_moments import Controls
from specdens._measure.quadrature import Rule, apply_function, cdf_error, markov_bounds
from specdens._measure.step_change import StepChange

if TYPE_CHECKING:
    from specdens._measure.core import MeasureCore

_ALLOWED = 0.6  # of the largest difference: two standard errors cover it, with room for the sampling error of bounds
_CLEAR = 10.0  # errors of a converged eigenvalue beyond which it has no influence
_WORTH = 0.2  # of the sampling error: a smaller quadrature error need not be known better
_NODE_ROOM = 30.0  # units of rounding that a node is off by


@dataclass(frozen=True, eq=False)
class Resolved:
    """The best estimate of a spectrum: known atoms, isolated eigenvalues, and the rest as the probes saw it."""

    measure: MeasureCore
    isolated: Isolated | None
    rules: tuple[Rule, ...]
    """Per probe the rule of the rest, of mass 1."""
    cdfs: tuple[Cdf, ...]
    """Per probe the best estimate of the distribution function of the rest, of mass 1."""
    controls: Controls | None = None
    """Covariances with moments that are known, which shrink the sampling error."""

    # -- masses --------------------------------------------------------------------------------------------------

    @property
    def atoms(self) -> Atoms:
        """The isolated eigenvalues with the posterior means of their masses."""
        if self.isolated is None:
            return Atoms.none()
        return Atoms(self.isolated.positions, self.isolated.multiplicities / self.measure.dimension)

    @cached_property
    def num_rest(self) -> float:
        """The number of eigenvalues that the rest stands for."""
        isolated = 0.0 if self.isolated is None else float(np.sum(self.isolated.multiplicities))
        return max(self.measure.bulk_dimension - isolated, 0.0) if self.rules else 0.0

    @property
    def share(self) -> float:
        """The mass of the rest."""
        return self.num_rest / self.measure.dimension

    @property
    def sampling_variance(self) -> float:
        """The variance of a mean over the rest, in units of the variance over its spectrum."""
        return self.measure.variance_of_probes(self.num_rest)

    @cached_property
    def rest_cdf(self) -> Cdf:
        """The distribution function of the rest, of mass 1."""
        return mixture([(1.0 / len(self.cdfs), cdf) for cdf in self.cdfs])

    @cached_property
    def cdf(self) -> Cdf:
        """The distribution function of the whole spectrum."""
        parts = [(self.share, self.rest_cdf)] if self.cdfs else []
        known = [(1.0, Cdf.of_atoms(*atoms)) for atoms in (self.measure.known_atoms, self.atoms)]
        return mixture([*parts, *known])

    @cached_property
    def room(self) -> float:
        """How far rounding may move an eigenvalue: one at x counts as at or below x."""
        return self.measure.rounding_room

    def _doubt(self, values: Floats) -> float | Floats:
        """Return the variance of Σ mᵢ gᵢ / n due to the doubt about the multiplicities; `values` may be a matrix."""
        if self.isolated is None:
            return 0.0
        scaled = values / self.measure.dimension
        doubt: Floats = np.einsum("...i,ij,...j->...", scaled, self.isolated.covariance, scaled)
        return np.maximum(doubt, 0.0)

    # -- the distribution function -------------------------------------------------------------------------------

    def values_at(self, x: Floats) -> Floats:
        """Return the share of eigenvalues at or below x; those at x count, to rounding."""
        return self.cdf(self._beyond(x))

    def stderr_at(self, x: Floats) -> Floats:
        """Return the standard error of `values_at`."""
        x = self._beyond(x)  # as for the values: what is at x counts
        inside = self.rest_cdf(x) if self.cdfs else np.zeros(x.shape)
        below = (self.atoms.positions <= x[..., None]) - inside[..., None]
        random = self._sampling(inside) ** 2 + self._doubt(below)
        if self.controls is not None:
            random = self._left(random, (self.controls.nodes <= x[..., None]).astype(np.float64), below)
        error: Floats = np.sqrt(random + self._quadrature(x) ** 2)
        return error

    def _beyond(self, x: Floats, *, sign: int = 1) -> Floats:
        """Return x, moved up beyond what may lie at x: a converged eigenvalue within its own error of x, or rounding.

        Errors of converged eigenvalues are so small that no other x is likely to fall among them. With `sign` −1, x and
        the result are those of the mirrored spectrum.
        """
        lo, hi, error = self.measure.converged_ranges
        moved: Floats = x + self.room
        if not lo.size:
            return moved
        if sign < 0:
            lo, hi, error = -hi[::-1], -lo[::-1], error[::-1]
        i = np.maximum(np.searchsorted(lo - error, x, side="right") - 1, 0)
        at = (x >= lo[i] - error[i]) & (x <= hi[i] + error[i])
        return np.where(at, np.maximum(hi[i] + _CLEAR * error[i], moved), moved)

    def _left(self, variance: Floats | float, rest: Floats, isolated: Floats) -> Floats:
        """Return what known moments leave of a variance: a hundredth at least."""
        if self.controls is None:
            return np.asarray(variance)
        return np.maximum(variance - self.controls.explained(rest, isolated), 0.01 * np.asarray(variance))

    def count(self, lo: float, hi: float) -> Count:
        """Return the number of eigenvalues in [lo, hi]; both ends belong to it, to rounding."""
        n, is_interval = self.measure.dimension, hi > lo
        lo, hi = -float(self._beyond(np.asarray(-lo), sign=-1)), float(self._beyond(np.asarray(hi)))
        value, inside = (
            float(F(hi) - F(lo, side="left")) if F else 0.0 for F in (self.cdf, self.rest_cdf if self.cdfs else None)
        )
        # an interval below the resolution may hold an atom that is not seen; both ends belong to the interval, so that
        # errors due to atoms at them add up
        is_cautious = is_interval and self._num_nodes(lo, hi) < 1.5 and not self._looks_simple
        ends = self._quadrature(np.array([lo, hi]), cautious=is_cautious)
        quadrature = np.sum(ends) if is_cautious or self.measure.hidden_mass > 0 else np.hypot(*ends)
        quadrature = min(float(quadrature), self._allowed_error(lo, hi, inside))
        is_inside = (self.atoms.positions >= lo) & (self.atoms.positions <= hi)
        isolated = is_inside.astype(np.float64) - inside
        random = self._sampling(np.asarray(inside)) ** 2 + self._doubt(isolated)
        if self.controls is not None:
            nodes = self.controls.nodes
            random = self._left(random, ((nodes >= lo) & (nodes <= hi)).astype(np.float64), isolated)
        stderr = np.sqrt(random + quadrature**2)
        return Count(n * value, n * float(stderr))

    def quantile(self, q: Floats) -> Floats:
        """Return the smallest x below which the share q of the eigenvalues lies."""
        return self.cdf.quantile(q)

    def quantile_stderr(self, q: Floats) -> Floats:
        """Return the standard error of `quantile`: how far the distribution function's error moves it."""
        x = self.quantile(q)
        stderr = self.stderr_at(x)
        below, above = (self.quantile(np.clip(q + s * stderr, 0.0, 1.0)) for s in (-1.0, 1.0))
        return np.maximum(above - x, x - below)

    def sampling_distance(self) -> float:
        """Return the expected W1 distance to the eigenvalues that is due to the random probes."""
        x = self.cdf.positions
        middle = (x[1:] + x[:-1]) / 2
        inside = self.rest_cdf(middle) if self.cdfs else np.zeros(middle.shape)
        spread = self.share**2 * self.sampling_variance * np.maximum(inside * (1 - inside), 0.0)
        above = (self.atoms.positions <= middle[:, None]) - inside[:, None]
        spread = spread + self._doubt(above)
        if self.controls is not None:
            spread = self._left(spread, (self.controls.nodes <= middle[:, None]).astype(np.float64), above)
        # the mean of |z| for a normal z is √(2/π) of its standard deviation
        return float(np.sum(np.sqrt(2 / np.pi * spread) * np.diff(x)))

    def _num_nodes(self, lo: float, hi: float) -> float:
        """Return the mean number of nodes in an interval."""
        numbers = [np.sum((rule.nodes >= lo) & (rule.nodes <= hi)) for rule in self.rules]
        return float(np.mean(numbers)) if numbers else 0.0

    @property
    def _looks_simple(self) -> bool:
        """Whether three isolated eigenvalues or more are simple: there is no sign of multiple ones elsewhere."""
        found = self.isolated
        return found is not None and found.positions.size >= 3 and bool(np.mean(found.multiplicities) < 1.5)

    def _allowed_error(self, lo: float, hi: float, inside: float) -> float:
        """Return the error of the share in an interval that may be anything which the weights allow."""
        if not self.rules:
            return 0.0
        bounds = [markov_bounds(rule, np.array([lo, hi])) for rule in self.rules]
        lower, upper = np.mean(bounds, axis=0)
        differences = (inside - max(lower[1] - upper[0], 0.0), upper[1] - lower[0] - inside)
        return _ALLOWED * self.share * float(np.max(np.abs(differences)))

    def _quadrature(self, x: Floats, *, cautious: bool = False) -> Floats:
        """Return the quadrature error at x; `cautious` where an atom may lie there that no weight shows."""
        if not self.rules:
            return np.zeros(x.shape)
        n, hidden = (np.inf, np.inf) if cautious else (self.measure.bulk_dimension, self.measure.hidden_mass)
        error: Floats = np.mean([cdf_error(rule, x, dimension=n, hidden=hidden) for rule in self.rules], axis=0)
        # what more steps can change is less than what the last ones did, but for atoms that no step has shown
        lo, hi = (f([f(rule.nodes) for rule in self.rules]) for f in (np.min, np.max))
        seen = (x > lo) & (x < hi) & (error > _WORTH * self._sampling(np.asarray(0.5)))
        if not cautious and np.any(seen):
            error = np.where(seen, np.minimum(error, self._step_change(x) + hidden), error)
        return self.share * error

    @cached_property
    def _step_change(self) -> StepChange:
        return StepChange(self.measure)

    def _sampling(self, inside: Floats) -> Floats:
        inside = np.clip(np.minimum(inside, 1 - inside), 0.0, 1.0)
        inside = variance_masses(inside, max(int(self.num_rest), 1))
        return self.share * np.sqrt(self.sampling_variance * inside * (1 - inside))

    # -- functions -----------------------------------------------------------------------------------------------

    def trace(self, f: Callable[[Floats], ArrayLike]) -> Estimate:
        """Return the trace of f(A) with its standard error."""
        measure = self.measure
        scale = self._largest(f)

        def scaled(x: Floats) -> Floats:
            return np.asarray(f(x), dtype=np.float64) / scale  # so that squares do not overflow

        mean = self._mean(scaled)
        known, mine = (apply_function(scaled, a.positions) for a in (measure.known_atoms, self.atoms))
        value = measure.known_atoms.masses @ known + self.atoms.masses @ mine + self.share * mean.value
        masses = max(int(self.num_rest), 1)
        spreads = [
            variance_masses(rule.weights, masses) @ (finite_values(scaled, rule) - mean.value) ** 2
            for rule in self.rules
        ]
        sampling = self.sampling_variance * float(np.mean(spreads)) if spreads else 0.0
        rounding = 1e3 * measure.eps * float(self.atoms.masses @ np.abs(mine) + self.share * abs(mean.value))
        random: Floats | float = self.share**2 * sampling + self._doubt(mine - mean.value)
        if self.controls is not None:
            rest = np.concatenate([finite_values(scaled, rule) for rule in self.rules])
            random = self._left(random, rest, mine - mean.value)
        variance = random + (self.share * mean.error) ** 2 + rounding**2
        n = measure.dimension
        total, stderr = n * float(value) * scale, n * float(np.sqrt(variance)) * scale
        if not np.isfinite(total):
            raise ValueError(
                f"`f` must have a finite sum over the spectrum; got values up to {scale:.3g}, which overflow. "
                "Take the trace of f divided by a large number."
            )
        return Estimate(total, stderr)

    def moments(self, num_moments: int) -> Floats:
        """Return the means of λ⁰, λ¹, … over the spectrum."""
        parts = [self.measure.known_atoms, self.atoms]
        weight = self.share / max(len(self.rules), 1)
        parts += [Atoms(rule.nodes, weight * rule.weights) for rule in self.rules]
        return np.array([sum(float(a.masses @ a.positions**p) for a in parts) for p in range(num_moments)])

    def _mean(self, f: Callable[[Floats], Floats]) -> FunctionMean:
        if not self.rules or self.share == 0:
            return FunctionMean(0.0, 0.0, False)
        ends = self.measure.bounds()
        room = _NODE_ROOM * self.measure.eps * max(abs(ends.lo), abs(ends.hi))
        return function_mean(f, self.measure, self.rules, self.cdfs, room=room)

    def _largest(self, f: Callable[[Floats], ArrayLike]) -> float:
        """Return the largest |f| on the nodes and between them, or 1 where that is zero."""
        atoms = [apply_function(f, a.positions) for a in (self.measure.known_atoms, self.atoms)]
        between = [slab_values(f, cdf)[1].ravel() for cdf in self.cdfs]
        values = np.concatenate([*atoms, *(finite_values(f, rule) for rule in self.rules), *between])
        return float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0)) or 1.0
