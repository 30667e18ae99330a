"""What is written in a picture, and densities to draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import spectra

import specdens as sd


def legend_of(ax: Any) -> list[str]:
    """Return the entries of the legend, but for the resolution."""
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    return [word for word in words if not word.startswith("resolution")]


def texts_of(ax: Any) -> list[str]:
    """Return the texts within the axes."""
    return [text.get_text() for text in ax.texts]


def hess_g_h(scale: float = 1.0) -> dict[str, sd.Density]:
    """Return the densities of a Hessian and of its parts, two of which have outliers at `scale`."""
    G = np.concatenate([np.zeros(300), [3.0 * scale, 5.0 * scale]])
    H = np.random.default_rng(0).permutation(spectra.semicircle(302))
    parts = {"Hess": (G + H, 2), "G": (G, 2), "H": (H, 0)}
    return {
        name: sd.spectral_density(spectra.diagonal(values), num_steps=40, rank=rank)
        for name, (values, rank) in parts.items()
    }
