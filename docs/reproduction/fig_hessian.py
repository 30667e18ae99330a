"""The Hessian of VGG11 on training and test examples, with and without deflation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from experiment.drawing import COLORS, draw_measure, draw_stems, outermost
from experiment.spectra import Spectra
from experiment.store import Missing
from experiment.study import DATA_TITLES, NETWORK_CHOICES, TITLES, Study, parse
from numpy.typing import NDArray

import specdens as sd

Floats = NDArray[np.float64]
DATASETS = ("mnist", "fashion")


class Hessian(NamedTuple):
    """The Hessian of one network on one split."""

    plain: sd.SpectralMeasure
    deflated: sd.SpectralMeasure
    top: Floats
    """The C eigenvalues of largest magnitude."""


def compute(study: Study, network: str, names: tuple[str, ...]) -> dict[tuple[str, str], Hessian]:
    """Compute, or load, the spectra as (data set, split) -> Hessian."""
    found = {}
    for name in names:
        for split in ("train", "test"):
            spectra = Spectra(study.case(network, name, 13), split)
            try:
                deflated, pairs = spectra.deflated()
                found[name, split] = Hessian(spectra.lanczos("Hess"), deflated, pairs["values"])
            except Missing:
                print(f"{spectra.name} has not been computed")
    return found


def draw(study: Study, found: dict[tuple[str, str], Hessian], *, network: str = "vgg11") -> None:
    """Draw one column per data set and split: with deflation above, without below."""
    import matplotlib.pyplot as plt

    width = 3.6 * len(found) + 0.5
    figure, axes = plt.subplots(2, len(found), figsize=(width, 6), layout="constrained", squeeze=False)
    for column, ((name, split), hessian) in zip(axes.T, found.items(), strict=True):
        _draw_column(column, hessian)
        column[0].set_title(f"{DATA_TITLES[name]}, {split}", fontsize="medium")
        column[1].set_xlabel("λ")
    axes[0, 0].set_ylabel("with deflation: density per unit λ")
    axes[1, 0].set_ylabel("without: density per unit λ")
    figure.suptitle(f"Hessian of {TITLES[network]}, 13 per class")
    study.save(figure, "hessian", network=network)


def _draw_column(axes: Any, hessian: Hessian) -> None:
    lo = min(outermost(hessian.plain)[0], hessian.top.min())
    hi = max(outermost(hessian.plain)[1], hessian.top.max())
    room = 0.05 * (hi - lo)
    edges = np.linspace(lo - room, hi + room, 401)
    draw_measure(axes[0], hessian.deflated, edges, color=COLORS["Hess"], label="bulk")
    draw_stems(axes[0], hessian.top, color="#e69f00", label=f"top {len(hessian.top)} eigenvalues")
    draw_measure(axes[1], hessian.plain, edges, color=COLORS["Hess"], label="whole spectrum")
    floor = 1e-2 / hessian.plain.dimension / (edges[1] - edges[0])
    for ax in axes:
        ax.set(yscale="log", xlim=(edges[0], edges[-1]), ylim=(floor, None))
        ax.legend(fontsize="small", loc="upper right")


if __name__ == "__main__":
    study, options = parse(__doc__, choices={"dataset": ("all", *DATASETS), "network": NETWORK_CHOICES})
    results = compute(study, options.network, DATASETS if options.dataset == "all" else (options.dataset,))
    if not options.compute_only and results:
        draw(study, results, network=options.network)
