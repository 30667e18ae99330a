"""Readings of the distribution function of a measure: shares, quantiles and counts, with errors."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from specdens._distributions.cdf import Cdf, Floats
from specdens._measure.core import MeasureCore
from specdens._measure.estimate import Count, Estimates
from specdens._measure.quadrature import markov_bounds
from specdens._validate import named_as


@named_as("Measure")
class DistributionReadings(MeasureCore):
    """The part of `Measure` that reads the distribution function."""

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the share of the eigenvalues at or below x.

        This is the best estimate from the run (``docs/explanation/quadrature.md``), not the staircase of the nodes.

        Parameters
        ----------
        x : array_like
            Positions on the axis of the eigenvalues.

        Returns
        -------
        ndarray
            The shares, between 0 and 1, of the shape of x.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> measure = sd.fast_lanczos(np.diag(np.linspace(0, 1, 1000)), num_probes=8)
        >>> bool(abs(measure.cdf(0.25) - 0.25) < 2 * measure.cdf_stderr(0.25))
        True
        """
        return self.resolved.values_at(np.asarray(x, dtype=np.float64))

    def quantile(self, q: ArrayLike) -> Floats:
        """Return the smallest x below which the share q of the eigenvalues lies.

        Parameters
        ----------
        q : array_like
            Shares between 0 and 1.

        Returns
        -------
        ndarray
            The positions, of the shape of q.

        Raises
        ------
        ValueError
            If a share lies outside [0, 1].

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> measure = sd.fast_lanczos(np.diag([1.0, 2.0, 3.0]), probes=np.ones(3))
        >>> measure.quantile([0.3, 0.5, 1.0]).round(12)
        array([1., 2., 3.])
        """
        return self.resolved.quantile(_as_levels(q))

    def quantile_stderr(self, q: ArrayLike) -> Floats:
        """Return the standard error of `quantile`: how far the error of the distribution function moves it.

        Parameters
        ----------
        q : array_like
            Shares between 0 and 1.

        Returns
        -------
        ndarray
            The standard errors, of the shape of q.

        Raises
        ------
        ValueError
            If a share lies outside [0, 1].
        """
        return self.resolved.quantile_stderr(_as_levels(q))

    def cdf_bounds(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """Return lower and upper bounds on the distribution function of the probes' own measure.

        These are the bounds of Chebyshev, Markov and Stieltjes (``docs/explanation/quadrature.md``), per probe and then
        averaged. They hold for any spectrum. The eigenvalues' own distribution differs from the probes' by the sampling
        error; see `cdf_stderr`.

        Parameters
        ----------
        x : array_like
            Positions on the axis of the eigenvalues.

        Returns
        -------
        lower, upper : ndarray
            The bounds, of the shape of x.
        """
        x = np.asarray(x, dtype=np.float64)
        known = Cdf.of_atoms(*self.known_atoms)(x + self.rounding_room)
        lower, upper = known.copy(), known.copy()
        for rule in self.rules:
            low, high = markov_bounds(rule, x + self.rounding_room if rule.exact else x)
            lower, upper = lower + self.probe_mass * low, upper + self.probe_mass * high
        return lower, upper

    def cdf_stderr(self, x: ArrayLike) -> Floats:
        """Return the standard error of `cdf`: sampling and quadrature together.

        Parameters
        ----------
        x : array_like
            Positions on the axis of the eigenvalues.

        Returns
        -------
        ndarray
            The standard errors, of the shape of x.
        """
        return self.resolved.stderr_at(np.asarray(x, dtype=np.float64))

    @overload
    def count(self, lo: float, hi: float) -> Count: ...

    @overload
    def count(self, lo: ArrayLike, hi: ArrayLike) -> Estimates: ...

    def count(self, lo: ArrayLike, hi: ArrayLike) -> Count | Estimates:
        """Return the number of eigenvalues in [lo, hi].

        Parameters
        ----------
        lo, hi : float or array_like
            The ends of the interval, which belong to it, or those of several intervals. An end that is within the error
            of a converged eigenvalue is taken to be at it.

        Returns
        -------
        Count or Estimates
            The number and its standard error, or arrays of these. For an interval that holds fewer than 1.5 nodes per
            probe the error allows for an eigenvalue of high multiplicity that the run has not resolved.
            ``count(lo, hi).interval(0.95)`` allows for the skewness of small numbers.

        Warns
        -----
        SpecdensWarning
            If the start vectors were given: their measure is not that of the eigenvalues. `weight` reads theirs.

        Raises
        ------
        ValueError
            If `lo` exceeds `hi`.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> value, stderr = sd.fast_lanczos(np.diag(np.linspace(0, 1, 10000))).count(0.25, 0.5)
        >>> bool(abs(value - 2500) < 2 * stderr < 300)
        True
        >>> sd.SpectralMeasure.from_eigenvalues([1.0, 2.0, 4.0]).count([0, 2], [2, 5]).value.round(6)
        array([2., 2.])
        """
        ends = np.broadcast_arrays(np.asarray(lo, dtype=np.float64), np.asarray(hi, dtype=np.float64))
        if not np.all(ends[0] <= ends[1]):
            raise ValueError(f"`lo` must not exceed `hi`; got ({lo!r}, {hi!r})")
        self.warn_of_weights("count", "weight(lo, hi)")
        counts = [self.resolved.count(float(a), float(b)) for a, b in zip(*(end.ravel() for end in ends), strict=True)]
        if ends[0].ndim == 0:
            return counts[0]
        values, errors = (np.array([each[i] for each in counts]).reshape(ends[0].shape) for i in (0, 1))
        return Estimates(values, errors)


def _as_levels(q: ArrayLike) -> Floats:
    levels = np.asarray(q, dtype=np.float64)
    if np.any((levels < 0) | (levels > 1)) or np.any(np.isnan(levels)):
        raise ValueError(f"`q` must lie in [0, 1]; got {q!r}")
    return levels
