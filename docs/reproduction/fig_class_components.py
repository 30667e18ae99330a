"""Attribution of the spectrum of G to its class components: G, G − A1, G − A2, G − B1, G − B2."""

from __future__ import annotations

import numpy as np
from experiment.spectra import Spectra
from experiment.study import NETWORK_CHOICES, TITLES, Study, parse
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PANELS = ("G", "G-A1", "G-A2", "G-B1", "G-B2")
DECADES = 11  # below the largest eigenvalue


def compute(study: Study, network: str) -> dict[str, Floats]:
    """Compute, or load, the exact spectra."""
    return Spectra(study.case(network, "mnist", 13), "train").gauss_newton()


def draw(study: Study, found: dict[str, Floats], *, network: str = "vgg11") -> None:
    """Draw histograms of the exact eigenvalues on a logarithmic axis."""
    import matplotlib.pyplot as plt

    top = 2 * found["G"].max()
    edges = np.geomspace(top * 10.0**-DECADES, top, 111)
    figure, axes = plt.subplots(len(PANELS), 1, figsize=(8, 8.5), sharex=True, sharey=True, layout="constrained")
    reference, _ = np.histogram(found["G"], edges)
    for ax, name in zip(axes, PANELS, strict=True):
        counts, _ = np.histogram(found[name], edges)
        ax.stairs(counts, edges, fill=True, color="#2a8fd0")
        if name != "G":
            ax.stairs(reference, edges, color="black", linewidth=0.6)
        below = int(np.sum(found[name] <= edges[0]))
        ax.text(0.01, 0.9, name.replace("-", " − "), transform=ax.transAxes, va="top", fontsize="large")
        ax.text(0.01, 0.6, f"{below} of {len(found[name])} below", transform=ax.transAxes, va="top", fontsize="small")
    figure.suptitle(f"G without each component: {TITLES[network]}, MNIST, 13 per class, train", fontsize="medium")
    axes[0].set(xscale="log", yscale="log", ylim=(0.6, None))
    axes[-1].set_xlabel("eigenvalue; the black line is G")
    axes[2].set_ylabel("number of eigenvalues per bin")
    study.save(figure, "class-components", network=network)


if __name__ == "__main__":
    study, options = parse(__doc__, choices={"network": NETWORK_CHOICES})
    results = compute(study, options.network)
    if not options.compute_only:
        draw(study, results, network=options.network)
