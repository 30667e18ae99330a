"""A density on a grid: cell averages with error bars, atoms apart."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from specdens._atoms import Atoms
from specdens._cdf import Cdf, Floats, mixture
from specdens._errors import as_count

if TYPE_CHECKING:
    from specdens._eigenpairs import EigenPairs
    from specdens._readings import Readings


@dataclass(frozen=True, eq=False, repr=False)
class Density:
    """The density of eigenvalues, drawn from a measure.

    The values are averages over cells around the grid points, so that their mass is exact at any number of points.
    """

    grid: Floats
    """The points that were asked for, or the centres of the cells; increasing."""
    values: Floats
    """Mass per unit of the axis, averaged over each cell."""
    stderr: Floats
    """The standard error of the values against the exact spectrum smoothed by the same kernel."""
    edges: Floats
    """The ends of the cells, one more than there are points."""
    axis: str
    """What the grid measures, and the values are per unit of: "λ", "log(|λ| + ε)", "|λ|", "f(λ)"."""
    atoms: Atoms
    """Positions on the axis and masses of the point masses, on the grid or not."""
    mass_outside: float
    """The smooth mass that fell off the grid."""
    kernel: str
    """The kernel and its width, in words."""
    measure: Readings
    """What it was drawn from."""
    outliers: EigenPairs | None = None
    """The eigenpairs that were deflated, if any."""
    notes: tuple[str, ...] = field(default=())
    """What the run has to say: why it stopped, what was chosen."""
    epsilon: float | None = None
    """The ε of a log density."""

    def mass(self) -> float:
        """Return the drawn mass with all atoms; together with `mass_outside` it is 1."""
        return float(np.sum(self.values * np.diff(self.edges))) + self.atoms.mass()

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the mass at or below x of what is drawn, atoms included."""
        return self.distribution()(x)

    def distribution(self) -> Cdf:
        """Return the distribution function of what is drawn, atoms included."""
        drawn = Cdf.of_slabs(self.edges[:-1], self.edges[1:], self.values * np.diff(self.edges))
        return mixture([(1.0, drawn), (1.0, Cdf.of_atoms(*self.atoms))])

    @property
    def settings(self) -> dict[str, Any]:
        """What made this density: method, probes, steps, seed, precision, kernel, products, seconds and versions."""
        return {**self.measure.settings, "kernel": self.kernel, "axis": self.axis}

    def plot(
        self,
        ax: Any = None,
        *,
        label: str | None = None,
        color: Any = None,
        log: bool = False,
        band: bool = True,
        annotate_outliers: bool = True,
    ) -> Any:
        """Draw the density with its error band, and the atoms as stems; return the Axes.

        Atoms stand on the right-hand axis, which counts eigenvalues: a point mass has no density. On the axis
        log(|λ| + ε) the ticks are powers of ten of |λ|. Needs matplotlib: ``pip install "specdens[plot]"``.

        Parameters
        ----------
        ax
            The Axes to draw in; by default those of a new figure, with a legend.
        label
            What to call it in a legend.
        color
            Of line, band and stems; by default the next one of the Axes.
        log
            Whether the density is on a logarithmic axis.
        band
            Whether to draw two standard errors around it.
        annotate_outliers
            Whether to write the values of the outliers, as `analysis.outliers` finds them, beside them.
        """
        from specdens._plot import plot_density

        return plot_density(self, ax, label=label, color=color, log=log, band=band, annotate_outliers=annotate_outliers)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the columns grid, values, stderr as CSV.

        Lines that start with # say the axis, the kernel, the mass off the grid, and position and mass of every atom:
        ``pandas.read_csv(path, comment="#")`` reads the rest.

        Parameters
        ----------
        path
            Where to write. The file appears under its name when it is complete.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> path = getfixture("tmp_path") / "density.csv"
        >>> sd.spectral_density(np.diag([1.0, 2.0]), num_steps=2).to_csv(path)
        >>> path.read_text().splitlines()[1]
        '# axis: λ'
        """
        from specdens._files import write_csv

        write_csv(path, self)

    def _repr_html_(self) -> str:
        from specdens._html import density_html

        return density_html(self)

    def __repr__(self) -> str:
        lines = [
            f"Density per unit {self.axis}: {self.grid.size} points in [{self.grid[0]:.6g}, {self.grid[-1]:.6g}]",
            f"  kernel        {self.kernel}",
            f"  mass          {self.mass():.6g} (atoms {self.atoms.mass():.3g}, off the grid {self.mass_outside:.2g})",
            f"  atoms         {_describe_atoms(self.atoms)}",
            f"  typical error {_typical_error(self)}",
            f"  from          {self.measure!r}",
        ]
        return "\n".join(lines + [f"  note          {note}" for note in self.notes])


def uniform_edges(lo: float, hi: float, num_points: int) -> Floats:
    """Return the ends of `num_points` equal cells whose centres run from lo to hi."""
    num_points = as_count("num_points", num_points, minimum=2)
    half = (hi - lo) / (num_points - 1) / 2
    return np.linspace(lo - half, hi + half, num_points + 1)


def edges_around(grid: ArrayLike) -> Floats:
    """Return the ends of the cells around given points: half way between them, symmetric at the ends."""
    points = np.asarray(grid, dtype=np.float64)
    if points.ndim != 1 or points.size < 2:
        raise ValueError(f"`grid` must be a vector of at least 2 points; got shape {points.shape}")
    if not np.all(np.isfinite(points)) or not np.all(np.diff(points) > 0):
        raise ValueError("`grid` must be finite and strictly increasing")
    middle = (points[1:] + points[:-1]) / 2
    return np.concatenate([[2 * points[0] - middle[0]], middle, [2 * points[-1] - middle[-1]]])


def on_grid(density: Density, grid: ArrayLike | None) -> Density:
    """Return the density with the points that were asked for as its grid: its cells are around them."""
    return density if grid is None else replace(density, grid=np.asarray(grid, dtype=np.float64))


def _describe_atoms(atoms: Atoms) -> str:
    if not atoms.positions.size:
        return "none"
    heaviest = np.argsort(-atoms.masses, kind="stable")[:5]
    shown = ", ".join(f"{atoms.masses[i]:.3g} at {atoms.positions[i]:.6g}" for i in sorted(heaviest))
    return f"{shown}, …" if atoms.positions.size > 5 else shown


def _typical_error(density: Density) -> str:
    peak = float(np.max(density.values, initial=0.0))
    if peak <= 0:
        return "no smooth part"
    drawn = density.values > 0.01 * peak
    return (
        f"{100 * float(np.median(density.stderr[drawn] / density.values[drawn])):.2g} % where the density is not small"
    )
