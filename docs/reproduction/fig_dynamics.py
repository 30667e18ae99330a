"""Hess, G and H through training and sample sizes, in units of the bulk edge of H."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from experiment import dynamics
from experiment.drawing import COLORS, draw_exact, draw_measure
from experiment.store import Missing
from experiment.study import Study, parse
from numpy.typing import NDArray

import specdens as sd

Floats = NDArray[np.float64]


class Panel(NamedTuple):
    """The three spectra of one network."""

    hess: sd.SpectralMeasure | None
    """None where it has not been computed."""
    h: sd.SpectralMeasure
    g: Floats
    """The exact eigenvalues of G."""

    @property
    def edge(self) -> float:
        """The bulk edge of H."""
        return sd.analysis.outliers(self.h).bulk.hi

    @property
    def top(self) -> float:
        """The largest eigenvalue in units of the edge."""
        nodes = [] if self.hess is None else [float(self.hess.nodes[0][-1])]
        return max([float(self.g[0]), *nodes]) / self.edge


Grid = dict[tuple[int, int], Panel]


def compute(study: Study) -> Grid:
    """Compute, or load, the spectra on the grid: first G and H, which the claims need, then Hess."""
    found: Grid = {}
    grid = dynamics.grid(study)
    for place, spectra in grid.items():
        try:
            found[place] = Panel(None, spectra.lanczos("H"), spectra.gauss_newton()["G"])
        except Missing:
            print(f"{spectra.name} has not been computed")
    for place, panel in found.items():
        with suppress(Missing):
            found[place] = panel._replace(hess=grid[place].lanczos("Hess"))
    return found


def draw(study: Study, found: Grid) -> None:
    """Draw a grid of panels, one row per epoch and one column per sample size."""
    import matplotlib.pyplot as plt

    epochs, sizes = (sorted({place[k] for place in found}) for k in (0, 1))
    figure, axes = plt.subplots(
        len(epochs), len(sizes), figsize=(3.2 * len(sizes), 1.6 * len(epochs) + 1), sharex=True, sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    edges = _edges(1.5 * max(panel.top for panel in found.values()))
    for (i, epoch), (j, size) in ((a, b) for a in enumerate(epochs) for b in enumerate(sizes)):
        ax = axes[i, j]
        if (epoch, size) in found:
            _draw_panel(ax, found[epoch, size], edges)
        ax.set_title(f"{size} per class" if i == 0 else "", fontsize="medium")
        ax.set_ylabel(f"epoch {epoch}" if j == 0 else "")
    axes[0, 0].set_xscale("symlog", linthresh=1, linscale=1.0)
    axes[0, 0].set(yscale="log", ylim=(1e-8, 1e3), xlim=(edges[0], edges[-1]))
    figure.supxlabel("eigenvalue / bulk edge of H, linear between −1 and 1", fontsize="medium")
    figure.supylabel("density", fontsize="medium")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3)
    study.save(figure, "dynamics")


def _edges(top: float) -> Floats:
    """Return edges of cells from −3 to `top`, even in λ between −1 and 1 and in log|λ| beyond."""
    above = np.geomspace(1, max(top, 2), 80)
    return np.unique(np.concatenate([-np.geomspace(1, 3, 20), np.linspace(-1, 1, 81), above]))


def _draw_panel(ax: Any, panel: Panel, edges: Floats) -> None:
    for name, measure in (("Hess", panel.hess), ("H", panel.h)):
        if measure is None:
            continue
        draw_measure(ax, measure.scaled(1 / panel.edge), edges, color=COLORS[name], label=name)
    values = panel.g[panel.g > 1e-3 * panel.edge] / panel.edge  # the rest is part of the peak at zero
    draw_exact(ax, values, edges, dimension=panel.h.dimension, color=COLORS["G"], label="G, exact")
    words = f"λ₁(G) = {panel.g[0] / panel.edge:.3g}"
    ax.text(0.98, 0.94, words, transform=ax.transAxes, ha="right", va="top", fontsize="small")


if __name__ == "__main__":
    study, options = parse(__doc__)
    results = compute(study)
    if not options.compute_only and results:
        draw(study, results)
