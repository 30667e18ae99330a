"""The W1 distance between any two spectra."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from specdens._analysis.random_matrix_laws import Law
from specdens._density.density import Density
from specdens._distributions.cdf import Cdf, Floats, wasserstein
from specdens._measure.base import Measure
from specdens._measure.error_arithmetic import format_error

Spectrum: TypeAlias = Measure | Density | Law | NDArray[np.float64]


class Distance(float):
    """The W1 distance between two spectra: a number with its errors.

    Attributes
    ----------
    stderr : float
        The standard error, to first order in the errors of both spectra.
    noise : float
        The distance that random probes cause on average between two runs on one spectrum. Spectra that are not much
        further apart than this cannot be told apart.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> a, b = (sd.spectral_density(np.diag(np.linspace(0, 1, 300) + shift)) for shift in (0.0, 0.25))
    >>> distance = sd.analysis.distance(a, b)
    >>> round(float(distance), 6)
    0.25
    """

    stderr: float
    noise: float

    def __new__(cls, value: float, *, stderr: float = 0.0, noise: float = 0.0) -> Distance:
        self = super().__new__(cls, value)
        self.stderr, self.noise = stderr, noise
        return self

    def __repr__(self) -> str:
        """Return the distance with its error and what sampling alone causes."""
        return f"{format_error(float(self), self.stderr)} (sampling alone: {self.noise:.2g})"


def distance(a: Spectrum, b: Spectrum, *, relative: bool = False) -> Distance:
    """Return the W1 distance between two spectra: how far mass must move, on average, to turn one into the other.

    Exact for the piecewise linear distribution functions that measures and densities have. What fell off the grid of
    a density is missing from it; the rest counts as the whole.

    Parameters
    ----------
    a, b : Measure, Density, Semicircle, MarchenkoPastur or ndarray
        Measures, densities of the same axis, laws such as ``Semicircle(0, 2)``, or vectors of eigenvalues.
    relative : bool, default False
        Whether to divide by the width of the interval that contains both.

    Returns
    -------
    Distance
        A float, in units of the axis or as a share of the width, with the attributes ``stderr`` and ``noise``.

    Raises
    ------
    TypeError
        If either is none of these.
    ValueError
        If two densities have different axes.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> eigenvalues = np.linspace(-1, 1, 1000)
    >>> measure = sd.fast_lanczos(np.diag(eigenvalues), num_probes=10)
    >>> sd.analysis.distance(measure, eigenvalues) < 0.02
    True
    >>> round(sd.analysis.distance(eigenvalues, eigenvalues + 0.5), 12)
    0.5
    >>> moved = sd.analysis.distance(measure, eigenvalues + 0.5)
    >>> bool(abs(moved - 0.5) < 2 * moved.stderr < 0.1)
    True
    """
    axes = [x.axis if isinstance(x, Density) else "λ" for x in (a, b)]
    if axes[0] != axes[1]:
        raise ValueError(f"`a` and `b` must have the same axis; got {axes[0]} and {axes[1]}. Compare their measures.")
    F, G = _distribution("a", a), _distribution("b", b)
    width = max(F.positions[-1], G.positions[-1]) - min(F.positions[0], G.positions[0])
    scale = (1.0 / float(width) if width > 0 else 0.0) if relative else 1.0
    measures = [each for each in map(_measure_behind, (a, b)) if each is not None]
    potential = _potential(F, G)
    errors = [measure.mean(potential).stderr for measure in measures]
    noise = [measure.sampling_distance() * measure.bulk_dimension / measure.dimension for measure in measures]
    moved = wasserstein(F, G)
    return Distance(
        scale * moved, stderr=scale * float(np.linalg.norm(errors)), noise=scale * float(np.linalg.norm(noise))
    )


def _measure_behind(spectrum: Spectrum) -> Measure | None:
    """Return the measure whose errors a spectrum on the axis of the eigenvalues has, if any."""
    if isinstance(spectrum, Density):
        return spectrum.measure if spectrum.axis == "λ" else None
    return spectrum if isinstance(spectrum, Measure) else None


def _potential(F: Cdf, G: Cdf) -> Callable[[Floats], Floats]:
    """Return φ with φ′ = sign(G − F), for which the distance is the difference of the means of φ [Kantorovich].

    To first order the distance errs as these means do.
    """
    x = np.unique(np.concatenate([F.positions, G.positions]))
    middle = (x[1:] + x[:-1]) / 2
    level = np.concatenate([[0.0], np.cumsum(np.sign(G(middle) - F(middle)) * np.diff(x))])
    return lambda at: np.interp(at, x, level)


def distribution_of(spectrum: Measure | Density | Law) -> Cdf:
    """Return the distribution function of all eigenvalues."""
    return spectrum.whole_cdf if isinstance(spectrum, Measure) else spectrum.distribution()


def _distribution(name: str, spectrum: Spectrum) -> Cdf:
    if isinstance(spectrum, (Measure, Density, Law)):
        cdf = distribution_of(spectrum)
        return Cdf(cdf.positions, cdf.values / cdf.mass)
    if isinstance(spectrum, np.ndarray) and spectrum.ndim == 1 and spectrum.size:
        if not np.all(np.isfinite(spectrum)):
            raise ValueError(f"`{name}` must be finite; got {int(np.sum(~np.isfinite(spectrum)))} nan or inf")
        eigenvalues = np.sort(spectrum.astype(np.float64))
        return Cdf.of_atoms(eigenvalues, np.full(eigenvalues.size, 1 / eigenvalues.size))
    raise TypeError(
        f"`{name}` must be a measure, a density, a law or a vector of eigenvalues; got {type(spectrum).__name__}"
    )
