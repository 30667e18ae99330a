"""The W1 distance between any two spectra."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from specdens._cdf import Cdf, mixture, wasserstein
from specdens._density import Density
from specdens._laws import Law
from specdens._readings import Readings

Spectrum: TypeAlias = Readings | Density | Law | NDArray[np.float64]


def distance(a: Spectrum, b: Spectrum, *, relative: bool = False) -> float:
    """Return the W1 distance between two spectra: how far mass must move, on average, to turn one into the other.

    Exact for the piecewise linear distribution functions that measures and densities have. What fell off the grid of
    a density is missing from it; the rest counts as the whole.

    Parameters
    ----------
    a, b
        Measures, densities of the same axis, laws such as ``Semicircle(0, 2)``, or vectors of eigenvalues.
    relative
        Whether to divide by the width of the interval that contains both.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> eigenvalues = np.linspace(-1, 1, 1000)
    >>> measure = sd.fast_lanczos(np.diag(eigenvalues), num_probes=10)
    >>> sd.analysis.distance(measure, eigenvalues) < 0.02
    True
    >>> round(sd.analysis.distance(eigenvalues, eigenvalues + 0.5), 12)
    0.5
    """
    axes = [x.axis if isinstance(x, Density) else "λ" for x in (a, b)]
    if axes[0] != axes[1]:
        raise ValueError(f"`a` and `b` must have the same axis; got {axes[0]} and {axes[1]}. Compare their measures.")
    F, G = _distribution("a", a), _distribution("b", b)
    moved = wasserstein(F, G)
    if not relative:
        return moved
    width = max(F.positions[-1], G.positions[-1]) - min(F.positions[0], G.positions[0])
    return moved / float(width) if width > 0 else 0.0


def distribution_of(spectrum: Readings | Density | Law) -> Cdf:
    """Return the distribution function of all eigenvalues."""
    if isinstance(spectrum, Readings):
        share = spectrum.bulk_dimension / spectrum.dimension
        return mixture([(share, spectrum.bulk_cdf), (1.0, Cdf.of_atoms(*spectrum.known_atoms))])
    return spectrum.distribution()


def _distribution(name: str, spectrum: Spectrum) -> Cdf:
    if isinstance(spectrum, (Readings, Density, Law)):
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
