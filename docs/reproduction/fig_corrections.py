"""The paper's formulas beside ours: bumps with κ = 3, and the factor 1/θ in the log density."""

from __future__ import annotations

from typing import Any

import numpy as np
from experiment.spectra import Spectra
from experiment.study import Study, parse
from fig_synthetic import EPSILON, Floats
from fig_synthetic import compute as compute_synthetic
from numpy.typing import NDArray

import specdens as sd

OURS, PAPERS = "#d55e00", "#2a8fd0"


def compute(study: Study) -> tuple[dict[str, tuple[sd.SpectralMeasure, Floats]], sd.SpectralMeasure]:
    """Compute, or load, the synthetic matrices and the training Hessian of VGG11 on MNIST, deflated."""
    return compute_synthetic(study), Spectra(study.case("vgg11", "mnist", 13), "train").deflated()[0]


def papers_log_density(measure: sd.SpectralMeasure, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ ω (1/θ) g_σ(t − log θ) as the paper has it, with κ = 3, at points t = log(|λ| + ε)."""
    lo, hi = grid[0], grid[-1]
    sigma = (hi - lo) / ((measure.num_steps - 1) * np.sqrt(8 * np.log(3)))
    total = np.zeros(len(grid))
    for nodes, weights in zip(measure.nodes, measure.weights, strict=True):
        size = np.abs(nodes) + EPSILON
        bumps = np.exp(-(((grid[:, None] - np.log(size)) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))
        total += bumps @ (weights / size) / measure.num_probes
    return total


def draw(study: Study, synthetic: dict[str, tuple[sd.SpectralMeasure, Floats]], hessian: sd.SpectralMeasure) -> None:
    """Draw κ on a known spectrum and on a Hessian, and the log density on a known spectrum."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(15, 4.4), layout="constrained")
    measure, values = synthetic["spikes"]
    one = measure.within(measure.num_steps, 1)  # the paper has n_vec = 1 for networks
    axes[0].hist(values, bins=100, density=True, color="#dddddd", label="exact eigenvalues")
    _draw_kappas(axes[0], one, "spiked Wishart, one probe")
    axes[0].set(ylim=(1e-3, 5))
    _draw_kappas(axes[1], hessian, "training Hessian of VGG11, deflated")
    axes[1].set(ylim=(1e-9 * float(hessian.density().values.max()), None))
    _draw_log(axes[2], *synthetic["pareto"])
    study.save(figure, "corrections")


def _draw_kappas(ax: Any, measure: sd.SpectralMeasure, title: str) -> None:
    for kappa, color, label in ((3.0, PAPERS, "κ = 3, the paper's text"), (1.25, OURS, "κ = 1.25, ours")):
        density = measure.density(kappa=kappa)
        ax.plot(density.grid, density.values, color=color, linewidth=1.0, label=label)
    ax.set(yscale="log", xlabel="λ", ylabel="density per unit λ")
    ax.set_title(title, fontsize="medium")
    ax.legend(fontsize="small")


def _draw_log(ax: Any, measure: sd.SpectralMeasure, values: Floats) -> None:
    logs = np.log(np.abs(values) + EPSILON)
    edges = np.linspace(logs.min() - 0.5, logs.max() + 0.5, 101)
    counts, _ = np.histogram(logs, edges)
    decades = edges / np.log(10)
    ax.stairs(counts / np.diff(edges) / len(values), decades, fill=True, color="#dddddd", label="exact eigenvalues")
    centres = np.linspace(edges[0], edges[-1], 1001)
    ours = measure.log_density(epsilon=EPSILON, grid=centres)
    ax.plot(centres / np.log(10), ours.values, color=OURS, linewidth=1.0, label="ours: mass 1")
    theirs = papers_log_density(measure, centres)
    mass = float(np.sum(theirs) * (centres[1] - centres[0]))
    ax.plot(centres / np.log(10), theirs, color=PAPERS, linewidth=1.0, label=f"with 1/θ: mass {mass:.1e}")
    ax.set(yscale="log", xlabel="log₁₀ λ", ylabel="density per unit log λ", ylim=(1e-10, 30))
    ax.set_title("Pareto matrix: the factor 1/θ", fontsize="medium")
    ax.legend(fontsize="small")


if __name__ == "__main__":
    study, options = parse(__doc__)
    results = compute(study)
    if not options.compute_only:
        draw(study, *results)
