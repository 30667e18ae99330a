"""`Measure`: the common base of `SpectralMeasure` and `ChebyshevMoments`."""

from __future__ import annotations

import importlib.metadata
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from specdens._distributions.cdf import Floats
from specdens._measure.convergence import Convergence
from specdens._measure.distribution_readings import DistributionReadings
from specdens._measure.drawings import Drawings
from specdens._measure.estimate import Estimate
from specdens._measure.find_outliers import Outliers, find_outliers
from specdens._measure.resolvent import Resolvent
from specdens._measure.summaries import Summaries


class Measure(DistributionReadings, Summaries, Drawings):
    """The spectral measure of an operator, as seen by one or more probes.

    The common base of `SpectralMeasure` (from `fast_lanczos` and `slow_lanczos`) and `ChebyshevMoments` (from `kpm`).
    Everything that is read or drawn from a measure costs no further product.

    Attributes
    ----------
    dimension : int
        The number of eigenvalues.
    bulk_dimension : int
        The dimension of the space that the probes live in: `dimension` less the number of known eigenvalues.
    known_atoms : Atoms
        Deflated eigenvalues, or a null space known by construction, with their masses.
    probes : str
        "gaussian", "rademacher", "given", or "exact" where all eigenvalues were computed.
    dtype : str
        The dtype of the vectors.
    seed : int
        The seed of the probes.
    block_size : int
        The number of probes that ran together.
    num_products : int
        The number of products that were made, those for checks included.
    seconds : float
        How long the run took.
    notes : tuple of str
        Remarks on the run, such as a resumption with other versions.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.linspace(0, 1, 2000))
    >>> def below(measure: sd.Measure) -> float:
    ...     return measure.count(-np.inf, 0.25).value
    >>> bool(abs(below(sd.fast_lanczos(A, num_probes=4)) - below(sd.kpm(A, num_probes=4))) < 60)
    True
    """

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """The largest number of steps that a probe has made."""

    @abstractmethod
    def truncated(self, num_steps: int) -> Measure:
        """Return the measure as it was after the first `num_steps` steps.

        Parameters
        ----------
        num_steps : int
            The number of steps: products per probe, each of which gives one node or two moments. More steps than
            there are return the whole measure.

        Returns
        -------
        Measure
            A measure of the same class.

        Raises
        ------
        ValueError
            If `num_steps` is less than 1.
        """

    @abstractmethod
    def shortened(self, cut: Callable[[int], int]) -> Measure:
        """Return the measure after `cut(k)` of every probe's k steps; exact probes stay whole."""

    @abstractmethod
    def convergence(self) -> Convergence:
        """Return how far the measure is from its limit, as shares of the width of the spectrum.

        Returns
        -------
        Convergence
            The distances that more steps, and more probes, would remove.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> A = np.diag(np.linspace(-1, 1, 1000))
        >>> sd.fast_lanczos(A, num_steps=40).convergence().steps < 0.01
        True
        """

    @abstractmethod
    def resolvent(self, z: ArrayLike, *, terminator: Literal["auto", "sqrt"] | None = None) -> Resolvent:
        """Return the resolvent G(z) = tr (z − A)⁻¹ / n, or ⟨v|(z − A)⁻¹|v⟩ for given start vectors.

        The density smoothed by a Lorentzian of half width η is −Im G(λ + iη)/π.

        Parameters
        ----------
        z : array_like
            Complex points; real ones must lie outside the spectrum, beyond its ends or in a gap.
        terminator : {None, "auto", "sqrt"}, optional
            How the continued fraction of the recurrence ends. None: after the last step, as for a finite matrix.
            "auto": with the square root of an infinite system with one band where the coefficients have reached their
            limits, else after the last step; the result says which. "sqrt": as "auto", but refused where there is no
            limit. Coefficients of a spectrum with gaps oscillate, and those of `fast_lanczos` become erratic once
            eigenvalues converge: neither has limits.

        Returns
        -------
        Resolvent
            The values, their standard errors, and which probes were terminated.

        Raises
        ------
        ValueError
            If "sqrt" is asked for and the coefficients have no limit, or a real z lies inside a band.

        Examples
        --------
        The first site of a half-infinite chain has G(z) = (z − √(z² − 4))/2:

        >>> import numpy as np, specdens as sd
        >>> chain = np.eye(400, k=1) + np.eye(400, k=-1)
        >>> measure = sd.slow_lanczos(chain, probes=np.eye(400)[0], num_steps=40)
        >>> G = measure.resolvent(0.5 + 1e-3j, terminator="sqrt").value
        >>> z = 0.5 + 1e-3j
        >>> bool(abs(G - (z - np.sqrt(z - 2) * np.sqrt(z + 2)) / 2) < 1e-10)
        True
        """

    def weight(self, lo: float, hi: float) -> Estimate:
        """Return the share of the measure in [lo, hi]: that of the eigenvalues, or of given start vectors.

        Parameters
        ----------
        lo, hi : float
            The ends of the interval, which belong to it.

        Returns
        -------
        Estimate
            The share, between 0 and 1, and its standard error.

        Raises
        ------
        ValueError
            If `lo` exceeds `hi`.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> chain = np.eye(400, k=1) + np.eye(400, k=-1)
        >>> local = sd.fast_lanczos(chain, probes=np.eye(400)[200])
        >>> round(local.weight(-1, 1).value, 1)
        0.3
        """
        if not lo <= hi:
            raise ValueError(f"`lo` must not exceed `hi`; got ({lo!r}, {hi!r})")
        value, stderr = self.resolved.count(float(lo), float(hi))
        return Estimate(value / self.dimension, stderr / self.dimension)

    def mean(self, f: Callable[[Floats], ArrayLike]) -> Estimate:
        """Return the mean of f over the measure: tr f(A) / n, or ⟨v|f(A)|v⟩ for given start vectors of norm 1.

        Parameters
        ----------
        f : callable
            A real function of an array of eigenvalues.

        Returns
        -------
        Estimate
            The mean and its standard error.
        """
        value, stderr = self.sum_of(f)
        return Estimate(value / self.dimension, stderr / self.dimension)

    @abstractmethod
    def __getitem__(self, index: int) -> Measure:
        """Return the measure of one probe, for instance the local density of one given start vector."""

    @property
    def settings(self) -> dict[str, Any]:
        """What made this measure: method, probes, steps, seed, precision, products, seconds and versions."""
        return {
            "dimension": self.dimension,
            "bulk_dimension": self.bulk_dimension,
            "num_probes": self.num_probes,
            "probes": self.probes,
            "seed": self.seed,
            "block_size": self.block_size,
            "dtype": self.dtype,
            "num_products": self.num_products,
            "seconds": self.seconds,
            "versions": {name: importlib.metadata.version(name) for name in ("specdens", "numpy", "scipy")},
        }

    def find_outliers(
        self, *, separation: float = 1.25, max_share: float = 0.05, atom_errors: Floats | None = None
    ) -> Outliers:
        """Return the eigenvalues beyond the edges of the bulk; see `analysis.outliers`.

        Parameters
        ----------
        separation, max_share : float
            As for `analysis.outliers`.
        atom_errors : ndarray, optional
            How far each known atom may be from its eigenvalue; by default they are exact.

        Returns
        -------
        Outliers
            Positions, multiplicities and their errors.
        """
        errors = np.zeros(self.known_atoms.positions.size) if atom_errors is None else atom_errors
        return find_outliers(self, atom_errors=errors, separation=separation, max_share=max_share)
