"""What can be read from any spectral measure: distribution, counts, traces, quantiles, moments, each with its error."""

from __future__ import annotations

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from specdens._atoms import Atoms, merge_atoms
from specdens._bounds import Interval
from specdens._cdf import Cdf, Floats, mixture
from specdens._density import Density, edges_around, on_grid
from specdens._draw import log_density, pushed_density
from specdens._errors import as_choice, as_count, as_positive
from specdens._rules import Rule, apply_function, cdf_error, markov_bounds
from specdens._smoothing import variance_masses

_END_ROOM = 1e3  # units of rounding: Ritz values of an exact run differ by less


class Estimate(NamedTuple):
    """A value and its standard error."""

    value: float
    stderr: float


class Readings(ABC):
    """The reading methods that `SpectralMeasure` and `ChebyshevMoments` share."""

    dimension: int
    """The number of eigenvalues."""
    bulk_dimension: int
    """The dimension of the space that the probes live in: less than `dimension` by the known atoms."""
    known_atoms: Atoms
    """Deflated pairs, or a null space known by construction, with their masses."""
    probes: str
    """"gaussian", "rademacher" or "given"."""
    dtype: str
    """The dtype of the vectors."""

    @property
    @abstractmethod
    def rules(self) -> tuple[Rule, ...]:
        """Per probe a quadrature rule for smooth functions."""

    @property
    @abstractmethod
    def probe_cdfs(self) -> tuple[Cdf, ...]:
        """Per probe the best estimate of the distribution function of the bulk, of mass 1."""

    @abstractmethod
    def bounds(self, *, margin: float = 0.0) -> Interval:
        """Return an interval that contains the spectrum outside the known atoms."""

    @abstractmethod
    def shortened(self, cut: Callable[[int], int]) -> Readings:
        """Return what was known after `cut(k)` of every probe's k steps; exact probes stay whole."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What made this measure: method, probes, steps, seed, precision, products, seconds and versions."""

    # -- masses --------------------------------------------------------------------------------------------------

    @property
    def num_probes(self) -> int:
        """The number of start vectors."""
        return len(self.rules)

    @property
    def eps(self) -> float:
        """The unit of rounding of the vectors."""
        return float(np.finfo(self.dtype).eps)

    @property
    def probe_mass(self) -> float:
        """The share of the whole that each probe's measure stands for."""
        return self.bulk_dimension / self.dimension / max(self.num_probes, 1)

    @property
    def smooth_rules(self) -> tuple[Rule, ...]:
        """The rules to draw, with positive weights: those of the probes that are not exact."""
        return tuple(rule for rule in self.rules if not rule.exact)

    @property
    def smooth_cdfs(self) -> tuple[Cdf, ...]:
        """The best estimates of the distribution functions of the same probes."""
        return tuple(cdf for cdf, rule in zip(self.probe_cdfs, self.rules, strict=True) if not rule.exact)

    @cached_property
    def atoms(self) -> Atoms:
        """The point masses: what was known beforehand, and all nodes of a probe whose recurrence ended."""
        exact = [_as_atoms(rule).scaled(self.probe_mass) for rule in self.rules if rule.exact]
        scale = max(
            (float(np.max(np.abs(a.positions))) for a in [self.known_atoms, *exact] if a.positions.size), default=0.0
        )
        # two probes find the same eigenvalue to rounding, with room for its growth over the steps
        return merge_atoms([self.known_atoms, *exact], tolerance=self.eps**0.75 * scale)

    @cached_property
    def bulk_cdf(self) -> Cdf:
        """The best estimate of the distribution function outside the known atoms, of mass 1."""
        return mixture([(1.0 / self.num_probes, cdf) for cdf in self.probe_cdfs])

    @cached_property
    def _whole_cdf(self) -> Cdf:
        parts = [(self.probe_mass, cdf) for cdf in self.probe_cdfs]
        return mixture([*parts, (1.0, Cdf.of_atoms(*self.known_atoms))])

    # -- the distribution function -------------------------------------------------------------------------------

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the share of the eigenvalues at or below x: the best estimate, not the raw staircase."""
        x = np.asarray(x, dtype=np.float64)
        return self._whole_cdf(x) + self._whole_cdf.jumps(x, x + self._room)

    @property
    def _room(self) -> float:
        """How far rounding may move an eigenvalue: one at x counts as at or below x."""
        ends = self.bounds()
        return _END_ROOM * self.eps * max(abs(ends.lo), abs(ends.hi))

    def quantile(self, q: ArrayLike) -> Floats:
        """Return the smallest x below which the share q of the eigenvalues lies."""
        levels = np.asarray(q, dtype=np.float64)
        if np.any((levels < 0) | (levels > 1)) or np.any(np.isnan(levels)):
            raise ValueError(f"`q` must lie in [0, 1]; got {q!r}")
        return self._whole_cdf.quantile(levels)

    def cdf_bounds(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """Return lower and upper bounds on the distribution function of the probes' own measure.

        The bounds of Chebyshev, Markov and Stieltjes, per probe and then averaged. They hold whatever the spectrum;
        the eigenvalues' own distribution differs from the probes' by the sampling error, see `cdf_stderr`.
        """
        x = np.asarray(x, dtype=np.float64)
        known = Cdf.of_atoms(*self.known_atoms)(x + self._room)
        lower, upper = known.copy(), known.copy()
        for rule in self.rules:
            low, high = markov_bounds(rule, x + self._room if rule.exact else x)
            lower, upper = lower + self.probe_mass * low, upper + self.probe_mass * high
        return lower, upper

    def cdf_stderr(self, x: ArrayLike) -> Floats:
        """Return the standard error of `cdf`: sampling and quadrature together."""
        x = np.asarray(x, dtype=np.float64)
        return np.hypot(self._sampling_of_share(self.bulk_cdf(x)), self._quadrature_of_cdf(x))

    def count(self, lo: float, hi: float) -> Estimate:
        """Return the number of eigenvalues in [lo, hi] with its standard error.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> value, stderr = sd.fast_lanczos(np.diag(np.linspace(0, 1, 10000))).count(0.25, 0.5)
        >>> bool(abs(value - 2500) < 2 * stderr < 300)
        True
        """
        if not lo <= hi:
            raise ValueError(f"`lo` must not exceed `hi`; got ({lo}, {hi})")
        # the ends belong to the interval, and an eigenvalue at an end is known to rounding only
        value, share = (
            F(hi) + F.jumps(hi, hi + self._room) - F(lo, side="left") + F.jumps(lo - self._room, lo)
            for F in (self._whole_cdf, self.bulk_cdf)
        )
        quadrature = np.hypot(*self._quadrature_of_cdf(np.array([lo - self._room, hi + self._room])))
        stderr = np.hypot(self._sampling_of_share(share), quadrature)
        return Estimate(self.dimension * float(value), self.dimension * float(stderr))

    def _quadrature_of_cdf(self, x: Floats) -> Floats:
        return self.probe_mass * sum((cdf_error(rule, x) for rule in self.rules), np.zeros(x.shape))

    # -- functions -----------------------------------------------------------------------------------------------

    def trace(self, f: Callable[[Floats], ArrayLike]) -> Estimate:
        """Return the trace of f(A) with its standard error.

        Parameters
        ----------
        f
            A function of an array of eigenvalues, for instance ``np.log`` (log-determinant), ``lambda x: abs(x)**p``
            (Schatten norm), ``np.exp`` (Estrada index), ``np.reciprocal`` (trace of the inverse).

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> A = np.diag(np.linspace(1, 2, 1000))
        >>> value, stderr = sd.fast_lanczos(A, num_probes=10).trace(np.log)
        >>> bool(abs(value - np.log(np.linspace(1, 2, 1000)).sum()) < 2 * stderr)
        True
        """
        positions, masses = self.known_atoms
        known = float(np.sum(masses * apply_function(f, positions)))
        mean, bulk = self._mean(f), self.bulk_dimension / self.dimension
        spreads = [
            variance_masses(rule.weights, self.bulk_dimension) @ (apply_function(f, rule.nodes) - mean) ** 2
            for rule in self.rules
        ]
        spread = float(np.mean(spreads)) if spreads else 0.0
        sampling = np.sqrt(self.sampling_variance * spread)
        rounding = 1e3 * self.eps * abs(mean)
        stderr = bulk * np.hypot(np.hypot(sampling, rounding), self._quadrature_error(f, mean))
        return Estimate(self.dimension * (known + bulk * mean), self.dimension * float(stderr))

    def moments(self, num_moments: int) -> Floats:
        """Return the means of λ⁰, λ¹, …, λ^(num_moments−1) over the spectrum."""
        powers = range(as_count("num_moments", num_moments))
        positions, masses = self.known_atoms
        bulk = self.bulk_dimension / self.dimension
        return np.array([masses @ positions**p + bulk * self._mean(partial(_power, p)) for p in powers])

    def _quadrature_error(self, f: Callable[[Floats], ArrayLike], mean: float) -> float:
        """Return the quadrature error of the mean of f over the bulk, from what it was with fewer steps.

        The worse of one and two steps less (one alone misses an even function on an even spectrum), three quarters of
        the steps (which sees convergence too slow for neighbours to show), and what is left of a geometric series
        through a quarter, half and all of them (which sees what is slower still).
        """
        one, two, quarter, half, whole = (
            self.shortened(cut)._mean(f)
            for cut in (lambda k: k - 1, lambda k: k - 2, lambda k: 3 * k // 4, lambda k: k // 2, lambda k: k // 4)
        )
        last, before = abs(mean - half), abs(half - whole)
        tail = last**2 / max(before - last, 1e-3 * last) if last > 0 else 0.0
        return float(np.hypot(np.hypot(max(abs(one - mean), abs(two - mean)), quarter - mean), tail))

    def _mean(self, f: Callable[[Floats], ArrayLike]) -> float:
        """Return the mean of f over the bulk."""
        means = [float(rule.weights @ apply_function(f, rule.nodes)) for rule in self.rules]
        return float(np.mean(means)) if means else 0.0

    # -- pictures -------------------------------------------------------------------------------------------------

    def log_density(
        self,
        epsilon: float = 1e-5,
        per: Literal["log", "lambda"] = "log",
        *,
        num_points: int = 1024,
        kappa: float = 1.25,
        grid: ArrayLike | None = None,
    ) -> Density:
        """Draw the density of log(|λ| + ε).

        Parameters
        ----------
        epsilon
            What is added to |λ|: eigenvalues much smaller than it end in a bump at log ε.
        per
            What the values are per unit of: "log" (of log(|λ| + ε), mass 1 on a logarithmic axis) or "lambda" (of |λ|;
            smaller by the factor |λ| + ε, so that exponents of power laws differ by exactly 1).
        num_points, kappa
            As for `density`; the width is that of a grid in log(|λ| + ε).
        grid
            Points in log(|λ| + ε), or in |λ| for ``per="lambda"``.
        """
        epsilon = as_positive("epsilon", epsilon, remedy="It keeps log(|λ| + ε) finite at zero.")
        as_choice("per", per, ("log", "lambda"))
        return on_grid(log_density(self, epsilon, per, num_points=num_points, kappa=kappa, grid=grid), grid)

    def density_of(
        self,
        f: Callable[[Floats], ArrayLike],
        *,
        num_points: int = 1024,
        kappa: float = 1.25,
        grid: ArrayLike | None = None,
        axis: str = "f(λ)",
    ) -> Density:
        """Draw the density of the eigenvalues of f(A), for any real function f of an array.

        Parameters
        ----------
        f
            The function, monotone or not.
        num_points, kappa, grid
            As for `density`, on the axis of f.
        axis
            What to call that axis.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> measure = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 1000)))
        >>> round(measure.density_of(np.square, axis="λ²").mass(), 3)
        1.0
        """
        edges = None if grid is None else edges_around(grid)
        drawn = pushed_density(
            self, f=lambda x: apply_function(f, x), axis=axis, num_points=num_points, kappa=kappa, edges=edges
        )
        return on_grid(drawn, grid)

    # -- sampling ------------------------------------------------------------------------------------------------

    @property
    def sampling_variance(self) -> float:
        """The variance of the mean of f over all probes, in units of the variance of f over the bulk."""
        n = self.bulk_dimension
        if self.probes == "given" or n == 0:
            return 0.0
        one = 2.0 / (n + 2)
        if self.probes == "rademacher":
            one *= 1 + 2 / n  # an upper bound: Rademacher probes do not err on diagonal matrices
        elif self.dtype.startswith("complex"):
            one = 1.0 / (n + 1)
        return one / self.num_probes

    def _sampling_of_share(self, share: Floats) -> Floats:
        share = variance_masses(np.clip(np.minimum(share, 1 - share), 0.0, 1.0), self.bulk_dimension)
        return np.sqrt(self.sampling_variance * share * (1 - share)) * self.bulk_dimension / self.dimension

    def sampling_distance(self) -> float:
        """Return the expected W1 distance between the probes' measure and the eigenvalues', outside the known atoms."""
        x, F = self.bulk_cdf.positions, self.bulk_cdf.values
        F = (F[1:] + F[:-1]) / 2
        # the mean of |z| for a normal z is √(2/π) of its standard deviation
        return float(np.sum(np.sqrt(2 / np.pi * self.sampling_variance * np.maximum(F * (1 - F), 0)) * np.diff(x)))


def _power(p: int, x: Floats) -> Floats:
    return x**p


def _as_atoms(rule: Rule) -> Atoms:
    """Return the nodes of an exact rule; those that weigh no more than rounding are ghosts on their way."""
    heavy = rule.weights > 100 * np.finfo(np.float64).eps
    return Atoms(rule.nodes[heavy], rule.weights[heavy] / np.sum(rule.weights[heavy]))


def common_settings(measure: Any) -> dict[str, Any]:
    """Return the settings that measures of all kinds have."""
    names = ("dimension", "bulk_dimension", "num_probes", "probes", "seed", "block_size", "dtype")
    spent = {"num_products": measure.num_products, "seconds": measure.seconds}
    versions = {name: importlib.metadata.version(name) for name in ("specdens", "numpy", "scipy")}
    return {**{name: getattr(measure, name) for name in names}, **spent, "versions": versions}
