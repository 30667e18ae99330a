"""A density on a grid: cell averages with error bars, atoms apart."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from specdens._density.folding import smoothed_like
from specdens._density.readings import MeasureReadings
from specdens._density.report import describe
from specdens._deprecation import resolve_renamed
from specdens._distributions.atoms import Atoms
from specdens._distributions.cdf import Cdf, Floats, mixture
from specdens._plotting.axes import error_band
from specdens._plotting.single import linear_width_of, plot_density
from specdens._plotting.svg import density_html
from specdens._printable import printable
from specdens._storage.csv import write_csv

if TYPE_CHECKING:
    from specdens._eigenpairs.result import EigenPairs
    from specdens._measure.base import Measure
    from specdens._measure.find_outliers import Outliers


@dataclass(frozen=True, eq=False, repr=False)
class Density(MeasureReadings):
    """The density of eigenvalues, drawn from a measure.

    The values are averages over cells around the grid points, so that their mass is exact at any number of points.

    Attributes
    ----------
    grid : ndarray
        The points that were asked for, or the centers of the cells; increasing.
    values : ndarray
        Mass per unit of the axis, averaged over each cell.
    stderr : ndarray
        The standard error of the values against the exact spectrum smoothed by the same kernel.
    edges : ndarray
        The ends of the cells, one more than there are points.
    axis : str
        What the grid measures, and the values are per unit of: "λ", "log(|λ| + ε)", "|λ|", "f(λ)".
    atoms : Atoms
        Positions on the axis and masses of the point masses, on the grid or not.
    mass_outside : float
        The smooth mass that fell off the grid.
    kernel : str
        The kernel and its width, in words.
    measure : Measure
        The measure that it was drawn from.
    outliers : EigenPairs or None
        The eigenpairs that were deflated, if any.
    notes : tuple of str
        Remarks on the run: why it stopped, what was chosen.
    epsilon : float or None
        The ε of a log density.
    resolution : ndarray or None
        At every grid point the width h of the kernel, in units of the axis: a Gaussian's standard deviation.
    atom_stderr : ndarray or None
        The standard errors of the masses of the atoms.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> density = sd.spectral_density(np.diag(np.linspace(0, 1, 2000)), num_steps=64)
    >>> round(density.mass() + density.mass_outside, 12)
    1.0
    >>> inside = (density.grid > 0.2) & (density.grid < 0.8)
    >>> float(np.mean(density.values[inside]).round(1))
    1.0
    """

    grid: Floats
    values: Floats
    stderr: Floats
    edges: Floats
    axis: str
    atoms: Atoms
    mass_outside: float
    kernel: str
    measure: Measure
    outliers: EigenPairs | None = None
    notes: tuple[str, ...] = field(default=())
    epsilon: float | None = None
    resolution: Floats | None = None
    atom_stderr: Floats | None = None

    def mass(self) -> float:
        """Return the drawn mass with all atoms; together with `mass_outside` it is 1.

        Returns
        -------
        float
            The mass.
        """
        return float(np.sum(self.values * np.diff(self.edges))) + self.atoms.mass()

    def band(self, *, log: bool = False) -> tuple[Floats, Floats]:
        """Return two standard errors below and above the values.

        Parameters
        ----------
        log : bool, default False
            Whether the band is for a logarithmic axis, where values − 2 stderr may have no place: it then has the same
            upper end and reaches as far down as up on the logarithm, to values² / (values + 2 stderr).

        Returns
        -------
        lower, upper : ndarray
            The ends of the band, neither below 0.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> density = sd.fast_lanczos(np.diag(np.linspace(0, 1, 500)), num_steps=20).density()
        >>> lower, upper = density.band(log=True)
        >>> bool(np.allclose(lower * upper, density.values**2))
        True
        """
        return error_band(self.values, self.stderr, log=log)

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the mass at or below x of what is drawn, atoms included.

        Parameters
        ----------
        x : array_like
            Positions on the axis of the density.

        Returns
        -------
        ndarray
            The masses, of the shape of x.
        """
        return self.distribution()(x)

    def distribution(self) -> Cdf:
        """Return the distribution function of what is drawn, atoms included.

        Returns
        -------
        Cdf
            A function that can be called, inverted and compared.
        """
        drawn = Cdf.of_slabs(self.edges[:-1], self.edges[1:], self.values * np.diff(self.edges))
        return mixture([(1.0, drawn), (1.0, Cdf.of_atoms(*self.atoms))])

    def smooth(self, eigenvalues: ArrayLike) -> Floats:
        """Return exact eigenvalues smoothed as this density is: the curve that `values` is an estimate of.

        Each eigenvalue becomes a Gaussian of the width `resolution` at its place. Like the density's own curve it is
        folded at the outermost eigenvalues, so that no mass lies beyond them; with ``kernel="gaussian"`` it is not.
        Eigenvalues that are `atoms` of the density are left out.

        Parameters
        ----------
        eigenvalues : array_like
            All eigenvalues, on the axis of the density: f(λ) for a density of f(A).

        Returns
        -------
        ndarray
            The values on the cells of the grid.

        Raises
        ------
        ValueError
            If the eigenvalues are not finite numbers, or the kernel is not a Gaussian.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> e = np.linspace(-1, 1, 2000)
        >>> density = sd.fast_lanczos(np.diag(e), num_steps=40, num_probes=8).density()
        >>> shown = density.values > 0.01
        >>> bool(np.mean(np.abs(density.smooth(e) - density.values)[shown] < 2 * density.stderr[shown]) > 0.9)
        True
        """
        return smoothed_like(self, eigenvalues)

    def find_outliers(self, *, separation: float = 1.25, max_share: float = 0.05) -> Outliers:
        """Return the eigenvalues beyond the edges of the bulk; see `analysis.outliers`.

        Parameters
        ----------
        separation, max_share : float
            As for `analysis.outliers`.

        Returns
        -------
        Outliers
            Positions, multiplicities and their errors; a deflated eigenpair has its residual as error.
        """
        return self.measure.find_outliers(
            separation=separation, max_share=max_share, atom_errors=self._known_atom_errors()
        )

    def named_eigenvalues(self) -> Floats:
        """Return the eigenvalues to name in a picture: outliers, and the atoms of a density of λ.

        Returns
        -------
        ndarray
            The eigenvalues, increasing.
        """
        outliers, atoms = self.find_outliers().positions, self.atoms.positions
        if self.axis != "λ":
            return outliers
        apart = [x for x in outliers if not np.any(np.isclose(atoms, x, rtol=1e-9, atol=1e-9 * np.ptp(self.edges)))]
        return np.sort(np.concatenate([atoms, apart]))

    def _known_atom_errors(self) -> Floats:
        """Return how far each known atom may be from its eigenvalue: the residuals of deflated pairs, else zero."""
        pairs, size = self.outliers, self.measure.known_atoms.positions.size
        if pairs is None or pairs.rank != size:
            return np.zeros(size)
        order = np.argsort(pairs.values, kind="stable")
        return np.asarray((np.abs(pairs.values) * pairs.residuals)[order], dtype=np.float64)

    @property
    def settings(self) -> dict[str, Any]:
        """What made this density: method, probes, steps, seed, precision, kernel, products, seconds and versions."""
        return {**self.measure.settings, "kernel": self.kernel, "axis": self.axis}

    def plot(
        self,
        ax: Any = None,
        *,
        x: Literal["linear", "symlog"] = "linear",
        label: str | None = None,
        color: Any = None,
        log_y: bool = False,
        band: bool = True,
        annotate_outliers: bool = True,
        log: bool | None = None,
    ) -> Any:
        """Draw the density with its error band, and the atoms as stems.

        Atoms stand on the right-hand axis, which counts eigenvalues: a point mass has no density. On the axis
        log(|λ| + ε) the ticks are powers of ten of |λ|. Needs matplotlib: ``pip install "specdens[plot]"``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The Axes to draw in; by default those of a new figure, with a legend.
        x : {"linear", "symlog"}, default "linear"
            "symlog" draws a density of λ on an axis that is linear around zero and logarithmic on both sides, per unit
            of that axis, so that equal areas are equal masses and bulk and outliers of both signs are in one picture.
        label : str, optional
            What to call it in a legend.
        color : optional
            Of line, band and stems; by default the next one of the Axes.
        log_y : bool, default False
            Whether the density is on a logarithmic axis.
        band : bool, default True
            Whether to draw two standard errors around it, see `band`.
        annotate_outliers : bool, default True
            Whether to write the values of atoms and outliers, see `find_outliers`, beside them.
        log : bool, optional
            Deprecated name of `log_y`.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        log_y = resolve_renamed("log", log, "log_y", log_y)
        return plot_density(
            self, ax, label=label, color=color, log_y=log_y, linear_width=linear_width_of(x, [self]), band=band,
            outliers=self.named_eigenvalues() if annotate_outliers else None,
        )  # fmt: skip

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the columns grid, values, stderr as CSV.

        Lines that start with # say the axis, the kernel, the mass off the grid, and position and mass of every atom:
        ``pandas.read_csv(path, comment="#")`` reads the rest.

        Parameters
        ----------
        path : str or path
            Where to write. The file appears under its name when it is complete.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np, specdens as sd
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "density.csv"
        >>> sd.spectral_density(np.diag([1.0, 2.0]), num_steps=2).to_csv(path)
        >>> path.read_text().splitlines()[1]
        '# axis: λ'
        """
        write_csv(path, self)

    def _repr_html_(self) -> str:
        return density_html(self)

    def __repr__(self) -> str:
        return printable(describe(self))


def on_grid(density: Density, grid: ArrayLike | None) -> Density:
    """Return the density with the points that were asked for as its grid: its cells are around them."""
    return density if grid is None else replace(density, grid=np.asarray(grid, dtype=np.float64))
