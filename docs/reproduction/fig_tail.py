"""Tail of H: the spectrum on logarithmic axes, with power laws and random-matrix laws."""

from __future__ import annotations

from typing import Any

import numpy as np
from experiment.spectra import LOG_STEPS, TAIL_STEPS, Spectra
from experiment.spectrum_claims import upper_decade
from experiment.study import NETWORK_CHOICES, TITLES, Study, parse

import specdens as sd

EPSILON = 1e-5


def compute(study: Study, network: str) -> sd.SpectralMeasure:
    """Compute, or load, the measure of H on the test examples, as in the paper."""
    steps = TAIL_STEPS if network == "vgg11" else LOG_STEPS
    return Spectra(study.case(network, "mnist", 13), "test").lanczos("H", num_steps=steps)


def draw(study: Study, measure: sd.SpectralMeasure, *, network: str = "vgg11") -> None:
    """Draw both signs on doubly logarithmic axes, per unit |λ| and per unit log|λ|, and laws beside the spectrum."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    for ax, per, title in zip(axes, ("lambda", "log"), ("per unit |λ|", "per unit log|λ|"), strict=False):
        sd.plot_loglog(measure, ax, per=per, range=None if study.tiny else upper_decade(measure))
        ax.set_title(f"H, test, {title}", fontsize="medium")
        ax.legend(loc="upper right", fontsize="small")
    _draw_laws(axes[2], measure)
    figure.suptitle(f"{TITLES[network]}, MNIST, 13 per class, {measure.num_steps:,} steps")
    study.save(figure, "tail", network=network)


def _draw_laws(ax: Any, measure: sd.SpectralMeasure) -> None:
    """Draw the distribution of |λ| beside that of the semicircle of the same variance."""
    fit = sd.analysis.fit_semicircle(measure)
    scale = fit.law.radius
    x = scale * np.geomspace(1e-4, 1e3, 300)
    bounds = measure.bounds()
    x = x[x < max(abs(bounds.lo), abs(bounds.hi))]
    beyond = 1 - measure.cdf(x) + measure.cdf(-x)
    ax.loglog(x, np.maximum(beyond, 0.1 / measure.dimension), color="#2a8fd0", label="H")
    t = np.minimum(x / scale, 1.0)
    law = 1 - 2 / np.pi * (t * np.sqrt(1 - t**2) + np.arcsin(t))
    ax.loglog(x, np.where(law > 0, law, np.nan), "k--", label="semicircle of the same variance")
    ax.set(xlabel="|λ|", ylabel="share of eigenvalues beyond |λ|", ylim=(0.3 / measure.dimension, 2))
    said = "follows it" if fit.follows else "does not follow it"
    ax.set_title(f"W1 to the semicircle {fit.distance:.2g} of its width: H {said}", fontsize="medium")
    ax.legend()


if __name__ == "__main__":
    study, options = parse(__doc__, choices={"network": NETWORK_CHOICES})
    result = compute(study, options.network)
    if not options.compute_only:
        draw(study, result, network=options.network)
