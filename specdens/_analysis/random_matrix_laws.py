"""Laws of random-matrix theory: densities and distribution functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from specdens._deprecation import warn_deprecated
from specdens._distributions.cdf import Cdf, Floats
from specdens._distributions.interval import Interval

_KNOTS = 1025  # of a law's distribution function: its W1 error is below 1e-6 of the width


@dataclass(frozen=True)
class Semicircle:
    """Wigner's law, 2/(πR²) √(R² − (x − c)²): a symmetric matrix of independent entries.

    Attributes
    ----------
    center : float
        The middle c of the support.
    radius : float
        Half the width R of the support.

    Examples
    --------
    >>> import specdens as sd
    >>> law = sd.analysis.Semicircle(center=0.0, radius=2.0)
    >>> law.support.lo, law.support.hi, float(law.density(0.0).round(6))
    (-2.0, 2.0, 0.31831)
    """

    center: float
    radius: float

    @property
    def centre(self) -> float:
        """Deprecated name of `center`."""
        warn_deprecated("`Semicircle.centre` is deprecated; use `center`")
        return self.center

    @property
    def support(self) -> Interval:
        """The interval [c − R, c + R]."""
        return Interval(self.center - self.radius, self.center + self.radius)

    @property
    def bulk(self) -> Interval:
        """The support."""
        return self.support

    @property
    def atom(self) -> float:
        """The mass at a point: none."""
        return 0.0

    def density(self, x: ArrayLike) -> Floats:
        """Return the density at x.

        Parameters
        ----------
        x : array_like
            Positions on the axis of the eigenvalues.

        Returns
        -------
        ndarray
            The density, of the shape of x.
        """
        offsets = np.asarray(x, dtype=np.float64) - self.center
        return 2 / (np.pi * self.radius**2) * np.sqrt(np.maximum(self.radius**2 - offsets**2, 0.0))

    def distribution(self) -> Cdf:
        """Return the distribution function.

        Returns
        -------
        Cdf
            Piecewise linear, with a W1 error below 1e-6 of the width.
        """
        return _integrated(self.density, self.support, 1.0)

    def __str__(self) -> str:
        return f"Wigner's semicircle (center {self.center:.4g}, radius {self.radius:.4g})"


@dataclass(frozen=True)
class MarchenkoPastur:
    """The law of Marchenko and Pastur: σ²ZZᵀ/m for an n × m matrix Z of independent entries, γ = n/m.

    For γ > 1 the share 1 − 1/γ of the eigenvalues is zero.

    Attributes
    ----------
    gamma : float
        The ratio γ = n/m.
    scale : float
        σ², which is the mean of the law.

    Examples
    --------
    >>> import specdens as sd
    >>> law = sd.analysis.MarchenkoPastur(gamma=0.25, scale=1.0)
    >>> law.support.lo, law.support.hi
    (0.25, 2.25)
    """

    gamma: float
    scale: float

    @property
    def bulk(self) -> Interval:
        """The interval σ²(1 ∓ √γ)²."""
        root = float(np.sqrt(self.gamma))
        return Interval(self.scale * (1 - root) ** 2, self.scale * (1 + root) ** 2)

    @property
    def atom(self) -> float:
        """The mass at zero."""
        return max(0.0, 1.0 - 1.0 / self.gamma)

    @property
    def support(self) -> Interval:
        """The bulk, and zero if it has mass."""
        return Interval(0.0, self.bulk.hi) if self.atom else self.bulk

    def density(self, x: ArrayLike) -> Floats:
        """Return the density at x, without the mass at zero.

        Parameters
        ----------
        x : array_like
            Positions on the axis of the eigenvalues.

        Returns
        -------
        ndarray
            The density, of the shape of x.
        """
        x, (a, b) = np.asarray(x, dtype=np.float64), self.bulk
        inside = (x > a) & (x < b)
        y = np.where(inside, x, b)
        return np.sqrt(np.maximum((b - y) * (y - a), 0.0)) / (2 * np.pi * self.gamma * self.scale * y)

    def distribution(self) -> Cdf:
        """Return the distribution function.

        Returns
        -------
        Cdf
            Piecewise linear, with a W1 error below 1e-6 of the width.
        """
        bulk = _integrated(self.density, self.bulk, 1.0 - self.atom)
        if not self.atom:
            return bulk
        knots = np.concatenate([[0.0, 0.0], bulk.positions])
        return Cdf(knots, np.concatenate([[0.0, self.atom], self.atom + bulk.values]))

    def __str__(self) -> str:
        zeros = f", {100 * self.atom:.3g} % zeros" if self.atom else ""
        return f"Marchenko–Pastur (γ {self.gamma:.4g}, scale {self.scale:.4g}{zeros})"


Law: TypeAlias = Semicircle | MarchenkoPastur


def _integrated(density: Callable[[Floats], Floats], support: Interval, mass: float) -> Cdf:
    """Return the distribution function of a density with square-root edges."""
    # with x = c − d cos φ the integrand is smooth in φ, and the trapezoidal rule exact to rounding
    phi = np.linspace(0.0, np.pi, _KNOTS)
    half = (support.hi - support.lo) / 2
    x = support.lo + half * (1 - np.cos(phi))
    y = density(x) * half * np.sin(phi)
    values = np.concatenate([[0.0], np.cumsum((y[1:] + y[:-1]) / 2)])
    return Cdf(x, values / values[-1] * mass)
