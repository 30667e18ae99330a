"""Outliers of the Hessian belong to G, its bulk to H: Hess, G and H on training and test examples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from experiment.drawing import COLORS, draw_exact, draw_measure, draw_stems, outermost
from experiment.spectra import Spectra
from experiment.store import Missing
from experiment.study import NETWORK_CHOICES, TITLES, Study, parse
from numpy.typing import NDArray

import specdens as sd

Floats = NDArray[np.float64]


class Split(NamedTuple):
    """What the figure shows of the training or test examples."""

    hess: sd.SpectralMeasure
    """Of the deflated Hessian."""
    top: Floats
    """The C eigenvalues of the Hessian of largest magnitude."""
    g: Floats
    """The exact eigenvalues of G, descending."""
    h: sd.SpectralMeasure
    overlap: Floats
    """Squared inner products of the top eigenvectors of Hess (rows) and G (columns)."""


def compute(study: Study, network: str, splits: tuple[str, ...] = ("train", "test")) -> dict[str, Split]:
    """Compute, or load, everything that the figure shows."""
    found = {}
    for split in splits:
        spectra = Spectra(study.case(network, "mnist", 13), split)
        try:
            g = spectra.gauss_newton()["G"]
            hess, pairs = spectra.deflated()
            found[split] = Split(hess, pairs["values"], g, spectra.lanczos("H"), spectra.overlap())
        except Missing as missing:
            print(missing)
    return found


def draw(study: Study, found: dict[str, Split], *, network: str = "vgg11") -> None:
    """Draw the whole spectra above, and below what is left when the outliers are out of sight."""
    import matplotlib.pyplot as plt

    width = 5.5 * len(found)
    figure, axes = plt.subplots(
        4, len(found), figsize=(width, 9.5), layout="constrained", height_ratios=(1, 1, 1, 1.7), squeeze=False
    )
    for column, (split, spectra) in zip(axes.T, found.items(), strict=True):
        _draw_whole(column[:3], spectra)
        _draw_bulk(column[3], spectra)
        column[0].set_title(f"{split} examples", fontsize="medium")
    for ax in axes[:, 0]:
        ax.set_ylabel("density per unit λ")
    for ax in axes[2:].ravel():
        ax.set_xlabel("λ")
    figure.suptitle(f"{TITLES[network]}, MNIST, 13 per class, {len(next(iter(found.values())).hess.alphas[0])} steps")
    study.save(figure, "attribution", network=network)


def _draw_whole(axes: Any, spectra: Split) -> None:
    lo = min(outermost(spectra.hess)[0], outermost(spectra.h)[0])
    hi = max(spectra.top.max(), spectra.g[0])
    room = 0.04 * (hi - lo)
    edges = np.linspace(lo - room, hi + room, 401)
    rank = len(spectra.top)
    draw_measure(axes[0], spectra.hess, edges, color=COLORS["Hess"], label="Hess, bulk")
    draw_stems(axes[0], spectra.top, color=COLORS["Hess"], label=f"Hess, top {rank}")
    dimension = spectra.hess.dimension
    draw_exact(axes[1], spectra.g[rank:], edges, dimension=dimension, color=COLORS["G"], label="G, bulk, exact")
    draw_stems(axes[1], spectra.g[:rank], color=COLORS["G"], label=f"G, top {rank}, exact")
    draw_measure(axes[2], spectra.h, edges, color=COLORS["H"], label="H")
    for ax in axes:
        ax.set(yscale="log", xlim=(edges[0], edges[-1]), ylim=(1e-2 / dimension / (edges[1] - edges[0]), None))
        ax.legend(fontsize="small", loc="upper right")
        ax.sharex(axes[0])


def _draw_bulk(ax: Any, spectra: Split) -> None:
    lo, hi = outermost(spectra.h)
    hi = max(hi, float(np.max(spectra.hess.nodes[0])))
    edges = np.linspace(1.1 * lo, 1.1 * hi, 301)
    draw_measure(ax, spectra.hess, edges, color=COLORS["Hess"], label="Hess, deflated")
    draw_measure(ax, spectra.h, edges, color=COLORS["H"], label="H")
    dimension, rank = spectra.hess.dimension, len(spectra.top)
    draw_exact(ax, spectra.g[rank:], edges, dimension=dimension, color=COLORS["G"], label="G, exact, deflated")
    ax.set(yscale="log", xlim=(edges[0], edges[-1]), ylim=(1e-2 / dimension / (edges[1] - edges[0]), None))
    ax.legend(fontsize="small", loc="upper right", title="the bulks")


if __name__ == "__main__":
    study, options = parse(__doc__, choices={"split": ("both", "train", "test"), "network": NETWORK_CHOICES})
    results = compute(study, options.network, ("train", "test") if options.split == "both" else (options.split,))
    if not options.compute_only and results:
        draw(study, results, network=options.network)
