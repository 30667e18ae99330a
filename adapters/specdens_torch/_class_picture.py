"""The class structure of G as one result, and its picture: a histogram with rows of marks above it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import specdens as sd
from specdens_torch._class_structure import ClassSpectrum, ClassTraces

Floats = NDArray[np.float64]

COLORS = {"A1": "#e69f00", "B1": "#009e73", "B2c": "#d62728"}
LEGEND = {
    "A1": "A1: outliers, one per class",
    "B1": "B1: cross-class means",
    "B2c": "B2c: mean eigenvalue of every class",
}
_FILL = "#9ecae1"
_NUM_BINS = 60
_MAX_MARKS = 100
"""Longer rows of marks show their deciles instead."""
_SHARE_OF_MARKS = 0.36


@dataclass(frozen=True, repr=False)
class ClassStructure:
    """The spectrum of G with the eigenvalues of its class components.

    Attributes
    ----------
    measure : Measure
        Of G; exact where G or its dual is small.
    spectrum : ClassSpectrum
        The eigenvalues of A1 + A2 + B1.
    traces : ClassTraces
        The traces of B2c.
    rounding : float
        The unit of rounding of products with G.

    Examples
    --------
    >>> import torch, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (torch.randn(30, 4), torch.arange(30) % 3))
    >>> structure = curv.class_structure()
    >>> structure.spectrum.labels, structure.traces.counts.tolist()
    (('A1', 'A1', 'A1', 'B1', 'B1', 'B1'), [10, 10, 10])
    """

    measure: sd.Measure
    spectrum: ClassSpectrum
    traces: ClassTraces
    rounding: float

    @property
    def marks(self) -> dict[str, Floats]:
        """The positive eigenvalues of A1 and B1, and Tr(B2c) / (C n_c) of every class: the mean eigenvalue of B2c."""
        labels = np.array(self.spectrum.labels)
        values = {name: self.spectrum.eigenvalues[labels == name] for name in ("A1", "B1")}
        # Tr(B2c) is spread over C n_c eigenvalues at most
        values["B2c"] = (self.traces.per_example / len(self.traces.values))[self.traces.counts > 0]
        return {name: found[found > 0] for name, found in values.items()}

    @property
    def resolution(self) -> float:
        """The eigenvalue below which the measure knows how many there are, not where; rounding, if it is exact."""
        nodes = [np.sort(row) for row in getattr(self.measure, "nodes", ())]
        largest = max(float(row[-1]) for row in nodes)
        rounding = self.rounding * largest
        if self.measure.probes == "exact":
            return rounding
        # the smallest node stands for all that lies between zero and the second
        return max(rounding, *(float(row[min(1, len(row) - 1)]) for row in nodes))

    def __repr__(self) -> str:
        marks = ", ".join(f"{len(values)} of {name}" for name, values in self.marks.items())
        return f"ClassStructure(G of dimension {self.measure.dimension}, {marks})"

    def plot(self, ax: Any = None) -> Any:
        """Draw the numbers of eigenvalues of G per bin of log λ, with a row of marks each for A1, B1 and B2c.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The Axes to draw in; by default those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        if ax is None:
            ax = _pyplot().subplots(figsize=(6.4, 3.6), layout="constrained")[1]
        edges = common_edges([self])
        tallest = draw_panel(ax, self, edges)
        finish_panel(ax, edges, tallest)
        ax.set(xlabel="eigenvalue of G", ylabel="eigenvalues per bin")
        handles, names = ax.get_legend_handles_labels()
        ax.legend(handles, names, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize="small")
        return ax


class HasClassStructure(Protocol):
    """A `Curvature`."""

    def class_structure(self) -> ClassStructure:
        """Return the spectrum of G with the eigenvalues of its class components."""


Panel = ClassStructure | HasClassStructure


def plot_class_structures(panels: Mapping[str, Panel | Mapping[str, Panel]]) -> Any:
    """Draw the class structures of several networks, epochs or data sets as a grid of panels with shared axes.

    Parameters
    ----------
    panels : mapping
        Names to `Curvature` or `ClassStructure`, drawn one below the other; or names of rows to such mappings, the
        columns.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import torch, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()
    >>> x, y = torch.randn(20, 4).double(), torch.arange(20) % 3
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (x, y))
    >>> structure = curv.class_structure()
    >>> structure
    ClassStructure(G of dimension 67, 3 of A1, 3 of B1, 3 of B2c)
    >>> len(sdt.plot_class_structures({"epoch 1": structure, "epoch 2": structure}).axes)
    2
    """
    if not panels:
        raise ValueError("`panels` must have at least one Curvature or ClassStructure; got none")
    rows = {name: dict(row) if isinstance(row, Mapping) else {"": row} for name, row in panels.items()}
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    found = {(r, c): _structure(panel) for r, row in rows.items() for c, panel in row.items()}
    figure, axes = _pyplot().subplots(
        len(rows), len(columns), figsize=(max(6.4, 3.6 * len(columns)), 1.6 * len(rows) + 1.0), sharex=True,
        sharey=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    edges, tallest = common_edges(list(found.values())), 1.0
    for (i, r), (j, c) in ((a, b) for a in enumerate(rows) for b in enumerate(columns)):
        if (r, c) in found:
            tallest = max(tallest, draw_panel(axes[i, j], found[r, c], edges))
        axes[i, j].set_title(c if i == 0 else "", fontsize="medium")
        axes[i, j].set_ylabel(r if j == 0 else "")
    finish_panel(axes[0, 0], edges, tallest)
    figure.supxlabel("eigenvalue of G", fontsize="medium")
    figure.supylabel("eigenvalues per bin", fontsize="medium")
    drawn = {name: handle for ax in axes.flat for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        drawn.values(), drawn.keys(), loc="outside upper center", ncols=min(3, 1 + len(columns)), fontsize="small"
    )
    return figure


def _structure(panel: Panel) -> ClassStructure:
    return panel if isinstance(panel, ClassStructure) else panel.class_structure()


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install specdens[plot]") from error
    return plt


def common_edges(structures: list[ClassStructure]) -> Floats:
    """Return the edges of bins that hold all that is resolved, and all marks."""
    ends = [float(value) for each in structures for values in each.marks.values() for value in values]
    largest = max(*ends, *(float(np.max(row)) for each in structures for row in each.measure.nodes))  # type: ignore[attr-defined]
    finest = min(each.resolution for each in structures)
    smallest = max(min([*ends, finest]), 0.1 * finest)
    return np.geomspace(smallest / 3, 2 * largest, _NUM_BINS + 1)


def draw_panel(ax: Any, structure: ClassStructure, edges: Floats) -> float:
    """Draw histogram and marks; return the largest number of a bin."""
    measure, floor = structure.measure, structure.resolution
    resolved = np.concatenate([[floor], edges[edges > floor]])
    counts = measure.dimension * np.diff(np.asarray(measure.cdf(resolved)))
    ax.stairs(counts, resolved, fill=True, color=_FILL, label="G")
    tallest = float(counts.max(initial=1.0))
    if measure.probes != "exact":
        tallest = max(tallest, _draw_unresolved(ax, measure, edges[edges < floor], floor))
    bottom = 1.0 - _SHARE_OF_MARKS
    for level, (name, values) in enumerate(structure.marks.items()):
        shown, label = values[values >= edges[0]], LEGEND[name]
        if len(shown) > _MAX_MARKS:
            shown, label = np.quantile(shown, np.linspace(0, 1, 11)), f"{LEGEND[name]} (deciles of {len(shown)})"
        low = bottom + 0.11 * level
        ax.vlines(
            shown, low, low + 0.09, transform=ax.get_xaxis_transform(), color=COLORS[name], linewidth=1.0, label=label
        )
    return tallest


def _draw_unresolved(ax: Any, measure: sd.Measure, edges: Floats, floor: float) -> float:
    """Draw what lies between zero and the resolution, evenly over the bins there; return its height."""
    at_zero = float(np.sum(measure.known_atoms.masses[np.abs(measure.known_atoms.positions) <= floor]))
    number = measure.dimension * (float(measure.cdf(floor)) - at_zero)
    height = number / max(1, len(edges))
    if number >= 0.5 and len(edges):
        ax.stairs(
            [height], [edges[0], floor], fill=True, facecolor="none", edgecolor=_FILL, hatch="////",
            label="G, smaller than it resolves",
        )  # fmt: skip
    return height


def finish_panel(ax: Any, edges: Floats, tallest: float) -> None:
    """Set the scales, with room for the marks above the tallest bin."""
    room = 0.5 * (2 * tallest) ** (1 / (0.95 - _SHARE_OF_MARKS))
    ax.set(xscale="log", yscale="log", ylim=(0.5, max(room, 50.0)), xlim=(edges[0], edges[-1]))
