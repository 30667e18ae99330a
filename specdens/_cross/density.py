"""`CrossDensity`: a signed or complex density on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdens._distributions.cdf import Floats
from specdens._plotting.signed import plot_signed

if TYPE_CHECKING:
    from specdens._cross.measure import CrossMeasure


@dataclass(frozen=True, eq=False, repr=False)
class CrossDensity:
    """A signed or complex density, drawn from a `CrossMeasure`.

    It is not a probability density: values may be negative or complex, and their integral is `total`.

    Attributes
    ----------
    grid : ndarray
        The points that were asked for, or the centers of the cells; increasing.
    values : ndarray
        The measure per unit of λ, averaged over each cell; float64 or complex128.
    stderr : ndarray
        The standard error of their magnitude against the exact spectrum smoothed by the same kernel: sampling alone.
    edges : ndarray
        The ends of the cells, one more than there are points.
    resolution : ndarray
        At every point the standard deviation of the kernel.
    kernel : str
        The kernel and its moments, in words.
    measure : CrossMeasure
        The measure that it was drawn from.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.full(99, 1.0), 1) + np.diag(np.full(99, 1.0), -1)  # a chain of 100 sites
    >>> density = sd.cross_measure(A, np.eye(100)[:, 50], np.eye(100)[:, 51]).density()
    >>> bool(np.min(density.values) < 0 < np.max(density.values))  # signed
    True
    """

    grid: Floats
    values: NDArray[Any]
    stderr: Floats
    edges: Floats
    resolution: Floats
    kernel: str
    measure: CrossMeasure

    @property
    def axis(self) -> str:
        """What the grid measures: λ."""
        return "λ"

    @property
    def total(self) -> Any:
        """⟨a|b⟩, or the estimate of tr B: what the integral over all λ is."""
        return self.measure.total().value

    @property
    def outside(self) -> Any:
        """The part of the total that is not on the grid."""
        return self.total - self.integral()

    def integral(self, lo: float = -np.inf, hi: float = np.inf) -> Any:
        """Return the integral of what is drawn over [lo, hi]; over everything, `total` less `outside`.

        Parameters
        ----------
        lo, hi : float, optional
            The ends of the interval; by default those of the grid.

        Returns
        -------
        float or complex
            The integral.
        """
        ends = np.clip([lo, hi], self.edges[0], self.edges[-1])
        lower, upper = self.cumulative(ends)
        return complex(upper - lower) if np.iscomplexobj(self.values) else float(upper - lower)

    def cumulative(self, x: ArrayLike) -> NDArray[Any]:
        """Return the integral of what is drawn up to x.

        Parameters
        ----------
        x : array_like
            Positions on the axis.

        Returns
        -------
        ndarray
            The integrals, of the shape of x; they need not increase.
        """
        sums = np.concatenate([[0], np.cumsum(self.values * np.diff(self.edges))])
        return np.asarray(np.interp(np.asarray(x, dtype=np.float64), self.edges, sums))

    def plot(self, ax: Any = None, *, label: str | None = None, color: Any = None, band: bool = True) -> Any:
        """Draw the density around the line at zero; a complex one as its real and its imaginary part.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The Axes to draw in; by default those of a new figure, with a legend.
        label : str, optional
            What to call it in a legend; by default its form, such as tr B δ(λ − A).
        color : optional
            Of line and band; by default the next one of the Axes.
        band : bool, default True
            Whether to draw two standard errors around it.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        return plot_signed(self, ax, label=label, color=color, band=band)

    def __repr__(self) -> str:
        lo, hi = float(self.grid[0]), float(self.grid[-1])
        return "\n".join(
            [
                f"CrossDensity {self.measure.form} per unit λ: {self.grid.size} points in [{lo:.6g}, {hi:.6g}]",
                f"  kernel        {self.kernel}",
                f"  resolution    ± {float(np.median(self.resolution)):.3g} (standard deviation of the kernel)",
                f"  total         {self.total:.6g} (on the grid {self.integral():.6g})",
                f"  from          {self.measure!r}",
            ]
        )
