"""Many local densities as one map of intensities. Needs matplotlib, which is imported when a picture is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from specdens._density.grid import edges_around, uniform_edges
from specdens._density.smoothing import Bumps, cell_averages
from specdens._distributions.cdf import Floats
from specdens._plotting.axes import new_axes, typical_resolution
from specdens._validate import as_count, as_positive

if TYPE_CHECKING:
    from specdens._measure.base import Measure

_CELLS = 2.0  # the least width, in cells of the map
_FINEST = 0.01  # and as a share of the spectrum
_DARKEST = 1e-4  # of a logarithmic scale of colours, as a share of the highest density


def plot_map(
    measures: Measure | Iterable[Measure],
    at: ArrayLike | None = None,
    *,
    ax: Any = None,
    width: float | None = None,
    num_points: int = 400,
    label: str = "",
    colorbar: bool = True,
    log_color: bool = False,
) -> Any:
    """Draw many densities side by side as a map: one column each, with λ upwards and the density as colour.

    The spectral function A(k, ω) of many plane waves is one run and one picture: give the waves as start vectors, and
    their measure here.

    Parameters
    ----------
    measures : Measure or iterable of Measure
        A measure of several given start vectors, of which each becomes a column, or one measure per column.
    at : array_like, optional
        The positions of the columns, increasing, for instance momenta; by default their numbers.
    ax : matplotlib.axes.Axes, optional
        The Axes to draw in; by default those of a new figure.
    width : float, optional
        The resolution in units of λ, the same for all columns: the standard deviation of the kernel, point masses
        included. By default the median resolution of the columns, and no less than a hundredth of the spectrum or than
        half of how far the mean moves from column to column.
    num_points : int, default 400
        The number of cells along λ.
    label : str, optional
        What the columns are, for the horizontal axis.
    colorbar : bool, default True
        Whether to add a scale of the colours.
    log_color : bool, default False
        Whether colours are on a logarithmic scale, over four decades.

    Returns
    -------
    matplotlib.axes.Axes
        The Axes; its last collection holds the values, in rows of λ.

    Raises
    ------
    ValueError
        If there are fewer than two columns, or `at` has another length or does not increase.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> n, k = 200, np.linspace(-np.pi, np.pi, 41)
    >>> ring = -np.roll(np.eye(n), 1, axis=0) - np.roll(np.eye(n), -1, axis=0)
    >>> waves = np.exp(1j * np.outer(np.arange(n), k)) / n**0.5
    >>> ax = sd.plot_map(sd.fast_lanczos(ring, probes=waves, num_steps=60), k, label="k")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('k', 'eigenvalue λ')
    """
    num_points = as_count("num_points", num_points, minimum=2)
    columns = _columns(measures)
    if len(columns) < 2:
        raise ValueError(f"`measures` must hold two columns or more; got {len(columns)}")
    positions = np.arange(len(columns)) if at is None else np.asarray(at, dtype=np.float64)
    if positions.shape != (len(columns),):
        raise ValueError(f"`at` must have one position for each of the {len(columns)} columns; got {positions.shape}")
    ends = [end for each in columns for end in (*each.bounds(), *each.known_atoms.positions)]
    lo, hi = min(ends), max(ends)
    span = (hi - lo) or 1.0
    width = as_positive("width", width) if width is not None else _common_width(columns, span, span / num_points)
    room = max(0.03 * (hi - lo), 4 * width)  # the whole of a point mass at an end
    edges = uniform_edges(lo - room, hi + room, num_points)
    values = np.array([_column(each, edges, width) for each in columns]).T
    ax = new_axes() if ax is None else ax
    mesh = ax.pcolormesh(
        edges_around(positions), edges, values, cmap="viridis", norm=_norm(values, log=log_color), rasterized=True
    )
    if colorbar:
        ax.figure.colorbar(mesh, ax=ax, label="density per unit λ")
    ax.set_xlabel(label)
    ax.set_ylabel("eigenvalue λ")
    return ax


def _columns(measures: Any) -> list[Measure]:
    if hasattr(measures, "num_probes"):
        return [measures[j] for j in range(measures.num_probes)]
    return list(measures)


def _common_width(columns: list[Measure], span: float, cell: float) -> float:
    """Return the median resolution of the columns, within what a map shows."""
    widths = [typical_resolution(each.density()) for each in columns]
    known = [width for width in widths if width is not None]
    means = np.array([each.mean(lambda x: x).value for each in columns])
    moved = float(np.quantile(np.abs(np.diff(means)), 0.9)) / 2
    return max(float(np.median(known)) if known else 0.0, moved, _FINEST * span, _CELLS * cell)


def _norm(values: Floats, *, log: bool) -> Any:
    """Return the scale of the colours."""
    from matplotlib.colors import LogNorm, Normalize

    top = float(np.max(values)) or 1.0
    return LogNorm(_DARKEST * top, top, clip=True) if log else Normalize(0.0, top)


def _column(measure: Measure, edges: Floats, width: float) -> Floats:
    """Return the density of one measure on the cells, point masses included."""
    centers = (edges[1:] + edges[:-1]) / 2
    density = measure.density(kernel="local", width=width, grid=centers)
    atoms = Bumps(density.atoms.positions, density.atoms.masses, np.full(density.atoms.masses.size, width))
    return density.values + cell_averages(edges, atoms)[0]
