"""`CrossMeasure`: the signed or complex measure that a Lanczos run and its inner products leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from specdens._chebyshev.kernels import kernel_coefficients, num_moments_of_width
from specdens._chebyshev.moments import chebyshev_cdf
from specdens._cross.density import CrossDensity
from specdens._cross.rule import CrossEstimate, CrossRule, Numbers, cross_rule
from specdens._density.chebyshev import jackson_width
from specdens._density.grid import edges_around, uniform_edges
from specdens._density.smoothing import local_mean, standard_error
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._measure.lanczos import SpectralMeasure
from specdens._measure.quadrature import values_of
from specdens._measure.resolvent import Resolvent
from specdens._validate import as_positive

_MARGIN = 1e-3  # of the interval: room for rounding, and for an edge that has not converged
_EXACT_MOMENTS = 256  # how many moments to draw where all of them are exact
_FEWER = (1, 2)  # steps less, to see how far a value has converged
_ROUNDING = 4.0  # units of rounding: the error of a sum of such terms


@dataclass(frozen=True, eq=False, repr=False)
class CrossMeasure:
    """A signed or complex measure: ⟨a|δ(λ − A)|b⟩ of two vectors, or tr B δ(λ − A) of an operator B.

    Made by `cross_measure` and `weighted_measure`. It is not a probability measure: values may be negative or complex,
    and the total is ⟨a|b⟩ or tr B. k steps integrate polynomials up to degree k − 1 exactly, half as many as those of
    a `SpectralMeasure`.

    Attributes
    ----------
    run : SpectralMeasure
        The Lanczos run from b, or from the random probes.
    overlaps : tuple of ndarray
        Per probe ⟨a|v_j⟩, or ⟨Bv|v_j⟩, with the Lanczos vectors v₁, v₂, …
    square_overlaps : tuple of ndarray
        Per probe ⟨B²v|v_j⟩, for the sampling error of a trace; empty for two vectors.
    factor : float
        The norm of b, or the dimension.
    form : str
        What the measure is, in symbols.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.array([[0.0, 1.0], [1.0, 0.0]])  # eigenvalues −1 and 1
    >>> measure = sd.cross_measure(A, np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    >>> measure.nodes[0].round(12).tolist(), measure.weights[0].round(12).tolist()
    ([-1.0, 1.0], [-0.5, 0.5])
    """

    run: SpectralMeasure
    overlaps: tuple[Numbers, ...]
    square_overlaps: tuple[Numbers, ...]
    factor: float
    form: str

    # -- the signed quadrature rule of every probe -------------------------------------------------------------------

    @property
    def is_trace(self) -> bool:
        """Whether this is tr B δ(λ − A), estimated from random probes."""
        return len(self.square_overlaps) > 0

    @property
    def is_complex(self) -> bool:
        """Whether values are complex; those of a trace with a Hermitian B are real."""
        return not self.is_trace and any(np.iscomplexobj(row) for row in self.overlaps)

    @property
    def is_exact(self) -> bool:
        """Whether every probe has found an invariant subspace: nodes are eigenvalues then."""
        return all(rule.exact for rule in self.run.rules)

    @cached_property
    def _rules(self) -> tuple[CrossRule, ...]:
        return self._rules_after(0)

    def _rules_after(self, fewer: int) -> tuple[CrossRule, ...]:
        """Return the rules of all probes after so many steps less."""
        squares: tuple[Numbers | None, ...] = self.square_overlaps or tuple(None for _ in self.overlaps)
        return tuple(
            cross_rule(*parts, factor=self.factor, fewer=fewer)
            for parts in zip(self.run.alphas, self.run.betas, self.overlaps, squares, strict=True)
        )

    @property
    def nodes(self) -> tuple[Floats, ...]:
        """Per probe the Ritz values, increasing."""
        return tuple(rule.nodes for rule in self._rules)

    @property
    def weights(self) -> tuple[Numbers, ...]:
        """Per probe the weights of the nodes, real or complex; their sum is ⟨a|b⟩, or this probe's estimate of tr B."""
        return tuple(rule.weights for rule in self._rules)

    @property
    def interval(self) -> Interval:
        """An interval that contains the spectrum."""
        return self.run.bounds(margin=_MARGIN)

    @property
    def num_moments(self) -> int:
        """How many Chebyshev moments are exact, μ_0 included: the steps of the shortest run."""
        steps = [rule.nodes.size for rule in self.run.rules if not rule.exact]
        return min(steps) if steps else max(_EXACT_MOMENTS, self.run.num_steps)

    # -- readings ----------------------------------------------------------------------------------------------------

    def integrate(self, f: Callable[[Floats], ArrayLike]) -> CrossEstimate:
        """Return ⟨a|f(A)|b⟩, or tr B f(A).

        Parameters
        ----------
        f : callable
            A real or complex function of an array of eigenvalues. It should be smooth on the scale of the resolution;
            for the part of an interval see `weight`.

        Returns
        -------
        CrossEstimate
            The value and its standard error: sampling, and quadrature as the change over the last steps.

        Raises
        ------
        ValueError
            If f is not finite on the spectrum.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> A = np.diag(np.linspace(-1, 1, 50))
        >>> a, b = np.ones(50), np.arange(50.0)
        >>> value, stderr = sd.cross_measure(A, a, b).integrate(np.exp)
        >>> bool(np.isclose(value, a @ (np.exp(np.diag(A)) * b)))
        True
        """
        value, square, size = self._mean(self._rules, f)
        change = 0.0
        if not self.is_exact:
            changes = [abs(self._mean(self._rules_after(m), f)[0] - value) for m in _FEWER]
            change = max(changes) if self.run.num_steps > max(_FEWER) else size
        variance = self._sampling * max(square - abs(value) ** 2 / self.run.dimension, 0.0)
        return CrossEstimate(value, float(np.sqrt(variance + change**2 + (_ROUNDING * self.run.eps * size) ** 2)))

    def _mean(self, rules: tuple[CrossRule, ...], f: Callable[[Floats], ArrayLike]) -> tuple[complex, float, float]:
        """Return the means over the probes of the integrals of f, of |f|² with B² for B, and of their terms' sizes."""
        values, squares, sizes = [], [], []
        for rule in rules:
            y = np.broadcast_to(values_of(f, rule.nodes), rule.nodes.shape)
            if not np.all(np.isfinite(y)):
                raise ValueError(f"`f` must be finite on the spectrum; got f({rule.nodes[~np.isfinite(y)][0]:.6g})")
            values.append(rule.weights @ y)
            squares.append(rule.squares @ np.abs(y) ** 2)
            sizes.append(np.abs(rule.weights) @ np.abs(y))
        return np.mean(values).item(), float(np.mean(squares)), float(np.mean(sizes))

    @property
    def _sampling(self) -> float:
        """The variance of a mean over the probes, in units of ‖B f(A)‖² − |tr B f(A)|²/n."""
        if not self.is_trace:
            return 0.0
        n = self.run.dimension
        one = n / (n + 1) if self.run.dtype.startswith("complex") else 2 * n / (n + 2)
        # entries of Rademacher probes have no variance on the diagonal: the Gaussian one is more
        return one / self.run.num_probes

    def weight(self, lo: float, hi: float) -> CrossEstimate:
        """Return the part of the measure in [lo, hi], smoothed at its ends by the resolution.

        Parameters
        ----------
        lo, hi : float
            The ends of the interval, which belong to it.

        Returns
        -------
        CrossEstimate
            The part, which may be negative or complex, and its standard error; smoothing is part of it: the
            difference to half of the moments, and what the kernel carries across the ends.
        """
        if self.is_exact:
            room = self.run.rounding_room
            return self.integrate(lambda x: ((x >= lo - room) & (x <= hi + room)).astype(np.float64))
        ends = np.array([lo, hi], dtype=np.float64)
        moments, squares = (each.mean(axis=0) for each in self._moments(self.num_moments))
        value, coarse, square = (
            np.diff(self._jackson_cdf(each, ends))[0].item()
            for each in (moments, moments[: max(1, moments.size // 2)], squares)
        )
        variance = self._sampling * max(square.real - abs(value) ** 2 / self.run.dimension, 0.0)
        return CrossEstimate(value, float(np.sqrt(variance + abs(value - coarse) ** 2 + self._carried(ends))))

    def _carried(self, ends: Floats) -> float:
        """Return the mean square of the weights that the kernel carries across the ends of an interval."""
        inside = ends[np.isfinite(ends)]
        if not inside.size:
            return 0.0
        width = jackson_width(self.num_moments, np.repeat(inside, 2), self.interval)[::2]
        total = 0.0
        for rule in self._rules:
            distance = (rule.nodes[:, None] - inside) / width
            share = ndtr(distance) - (distance >= 0)
            total += float(np.sum(np.abs(rule.weights[:, None] * share) ** 2))
        return total / len(self._rules)

    def total(self) -> CrossEstimate:
        """Return ⟨a|b⟩, or tr B with its sampling error.

        Returns
        -------
        CrossEstimate
            The value and its standard error.
        """
        return self.integrate(np.ones_like)

    def resolvent(self, z: ArrayLike) -> Resolvent:
        """Return ⟨a|(z − A)⁻¹|b⟩, or tr B (z − A)⁻¹, at complex points.

        Parameters
        ----------
        z : array_like
            Complex points; real ones must lie outside the spectrum.

        Returns
        -------
        Resolvent
            The values and their standard errors.

        Examples
        --------
        The Green's function between two sites of a chain:

        >>> import numpy as np, specdens as sd
        >>> chain = np.eye(30, k=1) + np.eye(30, k=-1)
        >>> G = sd.cross_measure(chain, np.eye(30)[4], np.eye(30)[9]).resolvent(0.3 + 0.1j).value
        >>> bool(np.isclose(G, np.linalg.inv((0.3 + 0.1j) * np.eye(30) - chain)[4, 9]))
        True
        """
        points = np.asarray(z, dtype=np.complex128)
        found = [self.integrate(lambda x, at=at: 1 / (at - x)) for at in points.ravel()]  # type: ignore[misc]
        value = np.array([each.value for each in found], dtype=np.complex128).reshape(points.shape)
        stderr = np.array([each.stderr for each in found]).reshape(points.shape)
        return Resolvent(value[()], stderr[()], tuple(False for _ in self.overlaps))

    # -- drawing -----------------------------------------------------------------------------------------------------

    def density(
        self, num_points: int = 1024, *, width: float | None = None, grid: ArrayLike | None = None
    ) -> CrossDensity:
        """Draw the density with the Jackson kernel, on Chebyshev moments that are exact.

        Parameters
        ----------
        num_points : int, default 1024
            The number of cells of the default grid, which covers the spectrum.
        width : float, optional
            The standard deviation of the kernel at the center of the spectrum, in units of λ; by default the least
            that the steps resolve.
        grid : array_like, optional
            Increasing points around which to draw instead.

        Returns
        -------
        CrossDensity
            The density, signed or complex, with its standard error at every point.

        Raises
        ------
        ValueError
            If the width is smaller than the moments resolve, or the grid is not increasing.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> A = np.diag(np.linspace(-1, 1, 1000))
        >>> density = sd.cross_measure(A, np.ones(1000), np.sign(np.diag(A))).density()
        >>> bool(density.values[300] < 0 < density.values[700])
        True
        """
        interval, num_moments = self.interval, self.num_moments
        if width is not None:
            num_moments = num_moments_of_width("jackson", as_positive("width", width), interval, num_moments)
        edges = uniform_edges(interval.lo, interval.hi, num_points) if grid is None else edges_around(grid)
        sizes = np.diff(edges)
        moments, squares = self._moments(num_moments)
        drawn = np.array([np.diff(self._jackson_cdf(row, edges)) / sizes for row in moments])
        values, resolution = drawn.mean(axis=0), jackson_width(num_moments, edges, interval)
        variance = np.zeros(values.size)
        if self.is_trace:
            # ‖B g(A)‖² = tr B² g² for the kernel g: nearly a Gaussian, of which ∫g² = 1/(2√π σ)
            square = np.abs(np.diff(self._jackson_cdf(squares.mean(axis=0), edges))) / sizes
            expected = self._sampling * square / (2 * np.sqrt(np.pi) * resolution)
            # its estimate is of either sign where few eigenvalues are: there the spread of the probes says more
            seen = np.var(drawn, axis=0, ddof=1) / len(drawn) if len(drawn) > 1 else np.zeros(values.size)
            variance = np.maximum(*(local_mean(edges, each, 2 * resolution) for each in (expected, seen)))
        points = (edges[1:] + edges[:-1]) / 2 if grid is None else np.asarray(grid, dtype=np.float64)
        return CrossDensity(
            grid=points, values=values, stderr=standard_error(np.abs(values), variance), edges=edges,
            resolution=resolution, kernel=f"Jackson, {num_moments} moments", measure=self,
        )  # fmt: skip

    def _moments(self, num_moments: int) -> tuple[Numbers, Floats]:
        """Return the Chebyshev moments of every probe, and those with B² for B."""
        interval = self.interval
        first, second = [], []
        for rule in self._rules:
            angles = np.arccos(np.clip((rule.nodes - interval.center) / (interval.width / 2), -1.0, 1.0))
            polynomials = np.cos(np.outer(np.arange(num_moments), angles))
            first.append(polynomials @ rule.weights)
            second.append(polynomials @ rule.squares)
        return np.array(first), np.array(second)

    def _jackson_cdf(self, moments: Numbers, x: Floats) -> Numbers:
        damped = moments * kernel_coefficients("jackson", moments.size)
        flat = chebyshev_cdf(np.ones(1), self.interval, x)

        def integrated(part: Floats) -> Floats:
            whole = chebyshev_cdf(np.append(1.0, part[1:]), self.interval, x)  # that of a measure of mass 1
            return np.asarray(whole + (part[0] - 1.0) * flat)

        if np.iscomplexobj(damped):
            return integrated(damped.real) + 1j * integrated(damped.imag)
        return integrated(damped)

    def plot(self, ax: Any = None, *, label: str | None = None, color: Any = None, band: bool = True) -> Any:
        """Draw the density; the same as ``measure.density().plot(…)``.

        Parameters
        ----------
        ax, label, color, band
            As for `CrossDensity.plot`.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes.
        """
        return self.density().plot(ax, label=label, color=color, band=band)

    def __repr__(self) -> str:
        run = self.run
        return (
            f"CrossMeasure({self.form}, dimension={run.dimension}, probes={run.num_probes} {run.probes}, "
            f"steps={run.num_steps}, products={run.num_products}, {run.dtype})"
        )
