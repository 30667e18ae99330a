"""A pretrained language model: Hess, G and H of SmolLM2-135M, from what docs/language_models/smollm2.py stored."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from experiment.drawing import COLORS, draw_measure, outermost
from experiment.store import Missing
from experiment.study import HERE, Study, parse

import specdens as sd

FOLDER = HERE.parent / "language_models"


def load() -> tuple[dict[str, sd.SpectralMeasure], dict[str, Any]]:
    """Return the measures by name, and what the manifest says; nothing is computed here."""
    if not (FOLDER / "manifest.json").exists():
        raise Missing("the spectra of SmolLM2 have not been computed: run docs/language_models/smollm2.py")
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    return {name: sd.load(FOLDER / manifest["spectra"][name]["file"]) for name in COLORS}, manifest


def draw(study: Study, found: dict[str, sd.SpectralMeasure], manifest: dict[str, Any]) -> None:
    """Draw the three spectra above each other, and the middle of them in one panel."""
    import matplotlib.pyplot as plt

    ends = [outermost(measure) for measure in found.values()]
    lo, hi = min(a for a, _ in ends), max(b for _, b in ends)
    edges = np.linspace(lo - 0.04 * (hi - lo), hi + 0.04 * (hi - lo), 401)
    figure, axes = plt.subplots(4, 1, figsize=(8, 9.5), layout="constrained", height_ratios=(1, 1, 1, 1.7))
    for ax, (name, measure) in zip(axes, found.items(), strict=False):
        draw_measure(ax, measure, edges, color=COLORS[name], label=f"{name}, {measure.num_steps} steps")
    reach = 1.5 * max(abs(end) for end in outermost(found["H"]))
    middle = np.linspace(-reach, reach, 301)
    for name, measure in found.items():
        draw_measure(axes[3], measure, middle, color=COLORS[name], label=name)
    for ax, cells in zip(axes, (edges, edges, edges, middle), strict=True):
        floor = 1e-2 / found["Hess"].dimension / (cells[1] - cells[0])
        ax.set(yscale="log", xlim=(cells[0], cells[-1]), ylim=(floor, None), ylabel="density per unit λ")
        ax.legend(fontsize="small", loc="upper right")
    axes[2].set_xlabel("λ")
    axes[3].set_xlabel("λ, near zero")
    rows, length = manifest["tokens"]
    figure.suptitle(f"SmolLM2-135M, {rows} × {length} tokens of text, {manifest['parameters']:,} parameters")
    study.save(figure, "language-model")


if __name__ == "__main__":
    study, options = parse(__doc__)
    if not options.compute_only:
        draw(study, *load())
