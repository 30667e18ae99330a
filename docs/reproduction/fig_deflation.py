"""What deflation gains: the training Hessian of ResNet18 with and without."""

from __future__ import annotations

import numpy as np
from experiment.drawing import COLORS, draw_measure, draw_stems, outermost
from experiment.spectra import Spectra
from experiment.study import Study, parse
from numpy.typing import NDArray

import specdens as sd


def compute(study: Study) -> tuple[sd.SpectralMeasure, sd.SpectralMeasure, NDArray[np.float64]]:
    """Compute, or load, the plain and the deflated measure, and the deflated eigenvalues."""
    spectra = Spectra(study.case("resnet18", "mnist", 13), "train")
    deflated, pairs = spectra.deflated()
    return spectra.lanczos("Hess"), deflated, pairs["values"]


def draw(study: Study, plain: sd.SpectralMeasure, deflated: sd.SpectralMeasure, top: NDArray[np.float64]) -> None:
    """Draw the whole spectrum with and without deflation, and the bulk of both."""
    import matplotlib.pyplot as plt

    lo, hi = outermost(plain)
    figure, axes = plt.subplots(2, 2, figsize=(11, 6), layout="constrained", width_ratios=(1.6, 1))
    zoom = outermost(deflated)[0], float(np.max(deflated.nodes[0]))
    for column, (a, b) in zip(axes.T, ((min(lo, top.min()), max(hi, top.max())), zoom), strict=True):
        room = 0.05 * (b - a)
        edges = np.linspace(a - room, b + room, 401)
        draw_measure(column[0], deflated, edges, color=COLORS["Hess"], label="with deflation")
        draw_measure(column[1], plain, edges, color=COLORS["H"], label="without")
        for ax in column:
            draw_stems(ax, top[(top > edges[0]) & (top < edges[-1])], color="#e69f00", label="top eigenvalues")
            floor = 1e-2 / plain.dimension / (edges[1] - edges[0])
            ax.set(yscale="log", xlim=(edges[0], edges[-1]), ylim=(floor, None), xlabel="λ")
            ax.legend(fontsize="small")
    axes[0, 0].set_title("ResNet18, MNIST, train: whole spectrum", fontsize="medium")
    axes[0, 1].set_title("the bulk", fontsize="medium")
    study.save(figure, "deflation")


if __name__ == "__main__":
    study, options = parse(__doc__)
    results = compute(study)
    if not options.compute_only:
        draw(study, *results)
