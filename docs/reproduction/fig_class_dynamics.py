"""The class structure of G through training and sample sizes: two bulks, that of B1 and that of B2."""

from __future__ import annotations

from typing import Any

import numpy as np
from experiment import dynamics
from experiment.spectra import EXACT_ROWS
from experiment.store import Missing
from experiment.study import Study, parse
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Grid = dict[tuple[int, int], dict[str, Floats]]

FLOOR = 1e-9  # eigenvalues below are rounding, or zero
COLORS = {"A1": "#e69f00", "B1": "#009e73", "A2": "#17a2b8", "B2": "#d62728"}


def compute(study: Study) -> Grid:
    """Compute, or load, the exact spectra of G and its components on the grid."""
    found: Grid = {}
    for place, spectra in dynamics.grid(study).items():
        try:
            found[place] = spectra.gauss_newton()
        except Missing:
            print(f"{spectra.name} has not been computed")
    return found


def split_classes(values: Floats, num_classes: int) -> dict[str, Floats]:
    """Return the eigenvalues of A1 + A2 + B1 as the paper labels them: C of A1, C(C − 2) of B1, C of A2."""
    ends = (num_classes, num_classes * (num_classes - 1))
    return {"A1": values[: ends[0]], "B1": values[ends[0] : ends[1]], "A2": values[ends[1] :]}


def separation(found: dict[str, Floats], size: int) -> float:
    """Return log₁₀ of the ratio of the two bulks: the geometric mean of B1's eigenvalues over the mean of Tr B2c/n."""
    classes = split_classes(found["A1+A2+B1"], len(found["within"]))
    return float(np.mean(np.log10(np.maximum(classes["B1"], 1e-300))) - np.log10(np.mean(found["within"]) / size))


def draw(study: Study, found: Grid) -> None:
    """Draw a grid of panels, one row per epoch and one column per sample size."""
    import matplotlib.pyplot as plt

    epochs, sizes = (sorted({place[k] for place in found}) for k in (0, 1))
    figure, axes = plt.subplots(
        len(epochs), len(sizes), figsize=(3.0 * len(sizes), 1.5 * len(epochs) + 1.0), sharex=True, sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    edges = np.geomspace(FLOOR, 1.5 * max(panel["G"].max() for panel in found.values()), 70)
    tallest = max(np.histogram(panel["G"], edges)[0].max() for panel in found.values())
    room = 0.5 * (2 * tallest) ** (1 / 0.6)  # on a logarithmic axis, the upper 40 % are for the marks
    for (i, epoch), (j, size) in ((a, b) for a in enumerate(epochs) for b in enumerate(sizes)):
        ax = axes[i, j]
        if (epoch, size) in found:
            _draw_panel(ax, found[epoch, size], size, edges)
        ax.set(xscale="log", yscale="log", ylim=(0.5, room))
        ax.set_title(f"{size} per class" if i == 0 else "", fontsize="medium")
        ax.set_ylabel(f"epoch {epoch}" if j == 0 else "")
    figure.supxlabel("eigenvalue of G", fontsize="medium")
    figure.supylabel("number of eigenvalues per bin", fontsize="medium")
    handles = [plt.Rectangle((0, 0), 1, 1, color="#9ecae1")] + [plt.Line2D([], [], color=c) for c in COLORS.values()]
    names = ["G, exact", "A1: outliers", "B1", "A2", "Tr B2c / n"]
    figure.legend(handles, names, loc="outside upper center", ncols=5)
    study.save(figure, "class-dynamics")


def _draw_panel(ax: Any, found: dict[str, Floats], size: int, edges: Floats) -> None:
    in_float64 = size * len(found["within"]) <= EXACT_ROWS
    floor = max(edges[0], 0.0 if in_float64 else 1e-8 * found["G"][0])  # below is rounding
    counts, _ = np.histogram(found["G"][found["G"] > floor], edges)
    ax.stairs(counts, edges, fill=True, color="#9ecae1")
    classes = split_classes(found["A1+A2+B1"], len(found["within"]))
    marks = {**classes, "B2": found["within"] / size}
    for level, (name, values) in enumerate(marks.items()):
        shown = values[values > floor]
        bottom = 0.62 + 0.08 * level
        ax.vlines(shown, bottom, bottom + 0.08, transform=ax.get_xaxis_transform(), color=COLORS[name], linewidth=0.9)


if __name__ == "__main__":
    study, options = parse(__doc__)
    results = compute(study)
    if not options.compute_only and results:
        draw(study, results)
