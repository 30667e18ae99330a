"""Densities drawn from a measure: of the operator, of its logarithm, of any function of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from numpy.typing import ArrayLike

from specdens._chebyshev.kernels import CHEBYSHEV_KERNELS, num_moments_of_width
from specdens._density.chebyshev import chebyshev_density
from specdens._density.density import Density, on_grid
from specdens._density.estimators import (
    DEFAULT_KAPPA,
    adaptive_density,
    gaussian_density,
    log_density,
    pushed_density,
)
from specdens._density.grid import edges_around
from specdens._density.levels import is_few_levels
from specdens._density.local_width import local_density
from specdens._deprecation import deprecate_positional
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._measure.core import MeasureCore
from specdens._measure.point_masses import find_point_masses
from specdens._measure.quadrature import apply_function
from specdens._validate import as_choice, as_positive, named_as

if TYPE_CHECKING:
    from specdens._measure.base import Measure

DENSITY_KERNELS = ("local", "gaussian", "adaptive", *CHEBYSHEV_KERNELS)
_WIDTHS = ("local", "gaussian", "jackson", "lorentz")  # kernels whose width can be given

Draw = Callable[["Measure", int, Floats | None], Density]
"""A drawing of a measure: draw(measure, number of cells of the default grid, ends of other cells or None)."""


@named_as("Measure")
class Drawings(MeasureCore):
    """The part of `Measure` that draws densities."""

    default_kernel: Literal["local", "jackson"] = "local"

    @abstractmethod
    def chebyshev_moments(self, num_moments: int | None = None) -> tuple[Floats, Interval]:
        """Return the Chebyshev moments of every smooth probe, one row each, and their interval.

        Parameters
        ----------
        num_moments
            How many to return if the measure can make any number of them, as an exact one can; else all there are.
        """

    @property
    def _measure(self) -> Measure:
        return cast("Measure", self)  # this class is a base of `Measure` alone

    def _draw(self, draw: Draw, num_points: int, grid: ArrayLike | None) -> Density:
        """Draw this measure around the points of a grid; None for the default grid of `num_points` cells."""
        return on_grid(draw(self._measure, num_points, None if grid is None else edges_around(grid)), grid)

    def at_resolution_of_run(self) -> Measure:
        """Return a measure of many known eigenvalues as a run would have left it, else the measure itself."""
        return self._measure

    def as_smooth(self) -> Measure:
        """Return the measure with the levels of exact probes as nodes like any others, to be smoothed."""
        return self._measure

    def _draw_nodes(
        self, kernel: str, *, num_points: int, kappa: float | None, width: float | None, edges: Floats | None
    ) -> Density:
        """Draw the nodes, or the best estimate between them, with Gaussian bumps."""
        if kernel == "local":
            points = find_point_masses(self._measure)
            return local_density(self._measure, num_points=num_points, width=width, edges=edges, points=points)
        if kernel == "adaptive":
            return adaptive_density(self._measure, num_points=num_points, edges=edges)
        kappa = DEFAULT_KAPPA if kappa is None else kappa
        return gaussian_density(self._measure, num_points=num_points, kappa=kappa, width=width, edges=edges)

    @deprecate_positional("kernel", "kappa", "grid")
    def density(
        self,
        num_points: int = 1024,
        *,
        kernel: Literal["local", "gaussian", "jackson", "lorentz", "dirichlet", "adaptive"] | None = None,
        kappa: float | None = None,
        width: float | None = None,
        grid: ArrayLike | None = None,
    ) -> Density:
        """Draw the density of the eigenvalues.

        Parameters
        ----------
        num_points : int, default 1024
            The number of cells of the default grid, which covers the spectrum with a margin.
        kernel : {"local", "gaussian", "adaptive", "jackson", "lorentz", "dirichlet"}, optional
            "local": the best estimate of the distribution, as `cdf` gives it, at the resolution that the run has at
            every λ, with isolated and degenerate eigenvalues as atoms. "gaussian": bumps of one width at the nodes, as
            in the paper. "adaptive": Gaussian bumps as wide as the nodes are apart.
            "jackson" (positive, close to Gaussian), "lorentz" (positive, with long tails) and "dirichlet" (the bare
            series, which rings): the kernels of the kernel polynomial method, on the Chebyshev moments of the run.
            By default "local" for a `SpectralMeasure` and "jackson" for `ChebyshevMoments`.
        kappa : float, optional
            The width of the kernel "gaussian", which it chooses, relative to the spacing of the nodes: larger is
            narrower. By default 1.25, from the code of the paper's authors; the paper's text has 3, which draws a comb.
        width : float, optional
            The width of the kernel in units of λ, the same everywhere: the standard deviation of "local" and
            "gaussian", that of "jackson" at the center, the half width of "lorentz" there.
            All but what stands apart at this width is then part of the curve: levels within a band too.
        grid : array_like, optional
            Increasing points around which to draw instead, each standing for the cell half way to its neighbours.

        Returns
        -------
        Density
            The density, with its standard error at every point.

        Raises
        ------
        ValueError
            If the kernel is unknown, the width is smaller than the moments resolve, or the grid is not increasing.

        Notes
        -----
        "local" draws no mass beyond the ends of the spectrum: what a Gaussian has beyond the outermost eigenvalue is
        mirrored to the inside, so that the mass is 1 and a flat density stays flat up to its edge. With a `width` this
        holds where the spectrum is more than 12 of it wide. "gaussian" has the tails of the paper's picture. In the
        same way a spectrum that is known is smoothed by `Density.smooth`.

        Where all eigenvalues are known (`from_eigenvalues`, small matrices, probes that broke down), up to 32 levels
        are point masses. More are a curve whose width is a few distances between neighbours: gaps stay empty, isolated
        and degenerate levels are atoms. A `width`, or another kernel, smooths these levels like any others.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> measure = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 1000)))
        >>> density = measure.density(width=0.05)
        >>> round(density.mass() + density.mass_outside, 12)
        1.0
        """
        width = None if width is None else as_positive("width", width)

        def draw(measure: Measure, num_points: int, edges: Floats | None) -> Density:
            default = measure.default_kernel if kappa is None else "gaussian"
            chosen = _check_kernel(default if kernel is None else kernel, kappa, width)
            if chosen == "local":
                return measure._draw_nodes(chosen, num_points=num_points, kappa=kappa, width=width, edges=edges)
            is_few = width is None and is_few_levels(measure.exact_levels, measure.dimension)
            smooth = measure if is_few else measure.as_smooth()
            if chosen not in CHEBYSHEV_KERNELS:
                drawn = smooth._draw_nodes(chosen, num_points=num_points, kappa=kappa, width=width, edges=edges)
            else:
                moments, interval = _moments_for(smooth, chosen, width)
                drawn = chebyshev_density(smooth, moments, interval, chosen, num_points=num_points, edges=edges)
            return replace(drawn, measure=measure)

        return self._draw(draw, num_points, grid)

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
    ) -> Any:
        """Draw the density of the eigenvalues; the same as ``measure.density().plot(…)``.

        Parameters
        ----------
        ax, x, label, color, log_y, band, annotate_outliers
            As for `Density.plot`.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes.
        """
        return self.density().plot(
            ax, x=x, label=label, color=color, log_y=log_y, band=band, annotate_outliers=annotate_outliers
        )

    def _repr_html_(self) -> str:
        return self.density()._repr_html_()

    @deprecate_positional("per")
    def log_density(
        self,
        epsilon: float = 1e-5,
        *,
        per: Literal["log", "lambda"] = "log",
        num_points: int = 1024,
        kappa: float = DEFAULT_KAPPA,
        grid: ArrayLike | None = None,
    ) -> Density:
        """Draw the density of log(|λ| + ε).

        Parameters
        ----------
        epsilon : float, default 1e-5
            What is added to |λ|: eigenvalues much smaller than it end in a bump at log ε.
        per : {"log", "lambda"}, default "log"
            What the values are per unit of: "log" for log(|λ| + ε) (mass 1 on a logarithmic axis), "lambda" for |λ|
            (smaller by the factor |λ| + ε, so that exponents of power laws differ by exactly 1).
        num_points : int, default 1024
            The number of cells of the default grid.
        kappa : float, default 1.25
            The width of the bumps in log(|λ| + ε), as for `density`.
        grid : array_like, optional
            Points in log(|λ| + ε), or in |λ| for ``per="lambda"``.

        Returns
        -------
        Density
            The density on the axis "log(|λ| + ε)" or "|λ|".

        Raises
        ------
        ValueError
            If `epsilon` is not positive, or the grid is not increasing.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> measure = sd.fast_lanczos(np.diag(np.geomspace(1e-3, 1, 1000)))
        >>> measure.log_density().axis, measure.log_density(per="lambda").axis
        ('log(|λ| + ε)', '|λ|')
        """
        epsilon = as_positive("epsilon", epsilon, remedy="It keeps log(|λ| + ε) finite at zero.")
        as_choice("per", per, ("log", "lambda"))

        def draw(measure: Measure, num_points: int, edges: Floats | None) -> Density:
            shorter = measure.at_resolution_of_run()
            drawn = log_density(shorter, epsilon, per, num_points=num_points, kappa=kappa, edges=edges)
            return replace(drawn, measure=measure)

        return self._draw(draw, num_points, grid)

    def density_of(
        self,
        f: Callable[[Floats], ArrayLike],
        *,
        num_points: int = 1024,
        kappa: float = DEFAULT_KAPPA,
        grid: ArrayLike | None = None,
        axis: str = "f(λ)",
    ) -> Density:
        """Draw the density of the eigenvalues of f(A), with no mass beyond what the spectrum becomes under f.

        Parameters
        ----------
        f : callable
            A real function of an array of eigenvalues, monotone or not.
        num_points : int, default 1024
            The number of cells of the default grid.
        kappa : float, default 1.25
            The width of the bumps on the axis of f, as for `density`.
        grid : array_like, optional
            Points on the axis of f.
        axis : str, default "f(λ)"
            What to call that axis.

        Returns
        -------
        Density
            The density on the axis of f.

        Raises
        ------
        ValueError
            If f is not finite and real on the spectrum.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> measure = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 1000)))
        >>> round(measure.density_of(np.square, axis="λ²").mass(), 3)
        1.0
        """

        def draw(measure: Measure, num_points: int, edges: Floats | None) -> Density:
            shorter = measure.at_resolution_of_run()
            drawn = pushed_density(
                shorter, f=lambda x: apply_function(f, x), axis=axis, num_points=num_points, kappa=kappa, edges=edges
            )
            return replace(drawn, measure=measure)

        return self._draw(draw, num_points, grid)


def _moments_for(measure: Measure, kernel: str, width: float | None) -> tuple[Floats, Interval]:
    """Return the moments that a kernel takes, as many as its width needs, and their interval."""
    moments, interval = measure.chebyshev_moments()
    if width is None:
        return moments, interval
    if num_moments_of_width(kernel, width, interval) > moments.shape[1]:
        moments, interval = measure.chebyshev_moments(num_moments_of_width(kernel, width, interval))
    return moments[:, : num_moments_of_width(kernel, width, interval, moments.shape[1])], interval


def _check_kernel(kernel: str, kappa: float | None, width: float | None) -> str:
    """Return the name of a kernel if it exists and goes with the width that was given."""
    as_choice("kernel", kernel, DENSITY_KERNELS)
    if kappa is not None and (kernel != "gaussian" or width is not None):
        raise ValueError(
            f"`kappa` must be left out for the kernel {kernel}{' of a given width' if width is not None else ''}; "
            'it is the width of kernel="gaussian"'
        )
    if width is not None and kernel not in _WIDTHS:
        raise ValueError(f"`width` must be left out for the kernel {kernel}; it goes with {', '.join(_WIDTHS)}")
    return kernel
