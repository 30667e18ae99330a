"""The quadrature rules that the coefficients of a Lanczos run define, one per probe."""

from __future__ import annotations

import warnings
from functools import cached_property

import numpy as np

from specdens._chebyshev.moments import moments_of_tridiagonal
from specdens._density.levels import run_steps
from specdens._distributions.cdf import Cdf, Floats
from specdens._distributions.interval import Interval
from specdens._measure.base import Measure
from specdens._measure.quadrature import Rule
from specdens._measure.refined_cdf import refined_cdf
from specdens._measure.ritz import decompose, has_converged, ritz_bounds

# The interval is chosen when the spectrum is known: room for rounding, and for an edge that has not converged.
_CHEBYSHEV_MARGIN = 1e-3
_MOST_MOMENTS = 2**16  # of an exact spectrum


class RitzQuadrature(Measure):
    """The part of `SpectralMeasure` that computes nodes, weights and rules from the coefficients of the recurrence."""

    alphas: tuple[Floats, ...]
    betas: tuple[Floats, ...]
    last_betas: Floats
    method: str
    exact_probes: tuple[bool, ...] | None

    @property
    def num_probes(self) -> int:
        """The number of start vectors."""
        return len(self.alphas)

    @property
    def num_steps(self) -> int:
        """The largest number of steps that a probe has made."""
        return max((alphas.size for alphas in self.alphas), default=0)

    @cached_property
    def _decompositions(self) -> tuple[tuple[Floats, Floats, Floats], ...]:
        return tuple(
            decompose(*coefficients) for coefficients in zip(self.alphas, self.betas, self.last_betas, strict=True)
        )

    @property
    def nodes(self) -> tuple[Floats, ...]:
        """Per probe the Ritz values, increasing.

        Converged eigenvalues appear several times without reorthogonalisation ("ghosts"), so that the number of nodes
        near an eigenvalue says nothing of its multiplicity.
        """
        return tuple(nodes for nodes, _, _ in self._decompositions)

    @property
    def weights(self) -> tuple[Floats, ...]:
        """Per probe the weights of the nodes: the squared first components of T's eigenvectors, of sum 1."""
        return tuple(weights for _, weights, _ in self._decompositions)

    @property
    def absolute_residuals(self) -> tuple[Floats, ...]:
        """Per probe and node the norm of (A − θ)y for the Ritz vector y, which bounds the distance to an eigenvalue."""
        return tuple(residuals for _, _, residuals in self._decompositions)

    @property
    def residuals(self) -> tuple[Floats, ...]:
        """The deprecated name of `absolute_residuals`: the residuals of `EigenPairs` are relative."""
        warnings.warn(
            "SpectralMeasure.residuals is now called absolute_residuals; those of EigenPairs are relative",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.absolute_residuals

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Per probe the quadrature rule for smooth functions."""
        return tuple(
            Rule(nodes, weights, np.maximum(residuals, exact * self._rounding(nodes)), exact)
            for (nodes, weights, residuals), exact in zip(self._decompositions, self._exact, strict=True)
        )

    @cached_property
    def _exact(self) -> tuple[bool, ...]:
        """Which probes have found an invariant subspace; a shortened measure takes this from the whole."""
        if self.exact_probes is not None:
            return self.exact_probes
        return tuple(
            bool(last == 0) or (self.method != "kpm" and has_converged(*decomposition, self.eps))
            for decomposition, last in zip(self._decompositions, self.last_betas, strict=True)
        )

    def _rounding(self, nodes: Floats) -> float:
        """Return how far rounding may have moved the nodes of an exact rule."""
        return 30 * self.eps * float(np.max(np.abs(nodes), initial=0.0))

    @cached_property
    def probe_cdfs(self) -> tuple[Cdf, ...]:
        """Per probe the best estimate of the distribution function of the bulk, of mass 1."""
        return tuple(refined_cdf(rule, eps=self.eps) for rule in self.rules)

    def bounds(self, *, margin: float = 0.0) -> Interval:
        interval = ritz_bounds(self.nodes, self.absolute_residuals, self.known_atoms.positions)
        return interval.widened(margin) if margin else interval

    def chebyshev_moments(self, num_moments: int | None = None) -> tuple[Floats, Interval]:
        """Return the Chebyshev moments of every smooth probe, one row each, and their interval.

        Of an exact spectrum there are as many as are asked for, by default those of a run of 128 steps.
        """
        interval = self.bounds(margin=_CHEBYSHEV_MARGIN)
        smooth = [(a, b) for a, b, rule in zip(self.alphas, self.betas, self.rules, strict=True) if not rule.exact]
        available = 2 * min((alphas.size for alphas, _ in smooth), default=1)  # exact for the shortest probe too
        if smooth and not np.any(self.last_betas):
            available = 2 * run_steps(available // 2) if num_moments is None else min(num_moments, _MOST_MOMENTS)
        mus = [moments_of_tridiagonal(alphas, betas, interval, available) for alphas, betas in smooth]
        return np.array(mus).reshape(len(mus), available), interval
