"""Pretrained language models: Hess, G and H, from what the scripts in docs/language_models stored."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from experiment.drawing import COLORS, draw_measure, outermost
from experiment.store import Missing
from experiment.study import HERE, Study, parse

import specdens as sd

FOLDER = HERE.parent / "language_models"


class Model(NamedTuple):
    """The spectra of one model."""

    title: str
    measures: dict[str, sd.SpectralMeasure]


def load() -> list[Model]:
    """Return the models whose three spectra are stored; nothing is computed here."""
    found = []
    for file, prefix, name in (
        ("reactions.json", "reactions_", "ALBERT of rxnmapper"),
        ("manifest.json", "", "SmolLM2"),
    ):
        paths = {part: FOLDER / f"{prefix}{part}.npz" for part in COLORS}
        if all(path.exists() for path in (FOLDER / file, *paths.values())):
            manifest = json.loads((FOLDER / file).read_text())
            measures = {part: sd.load(path) for part, path in paths.items()}
            found.append(Model(f"{name}, {measures['Hess'].dimension:,} parameters, {_data(manifest)}", measures))
    if not found:
        raise Missing("no language model has been measured: run the scripts in docs/language_models")
    return found


def _data(manifest: dict[str, Any]) -> str:
    rows, length = manifest["tokens"]
    return f"{rows} × {length} tokens"


def draw(study: Study, models: list[Model]) -> None:
    """Draw the three spectra above each other, and what is near zero in one panel."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        4,
        len(models),
        figsize=(6.5 * len(models), 9.5),
        layout="constrained",
        height_ratios=(1, 1, 1, 1.7),
        squeeze=False,
    )
    for column, model in zip(axes.T, models, strict=True):
        _draw_model(column, model.measures)
        column[0].set_title(model.title, fontsize="medium")
    for ax in axes[:, 0]:
        ax.set_ylabel("density per unit λ")
    study.save(figure, "language-model")


def _draw_model(axes: Any, measures: dict[str, sd.SpectralMeasure]) -> None:
    ends = np.array([outermost(measure) for measure in measures.values()])
    lo, hi = ends.min(), ends.max()
    edges = np.linspace(lo - 0.04 * (hi - lo), hi + 0.04 * (hi - lo), 401)
    for ax, (name, measure) in zip(axes, measures.items(), strict=False):
        draw_measure(ax, measure, edges, color=COLORS[name], label=f"{name}, {measure.num_steps} steps")
    reach = 1.5 * np.abs(outermost(measures["H"])).max()
    near = np.linspace(-reach, reach, 301)
    for name, measure in measures.items():
        draw_measure(axes[3], measure, near, color=COLORS[name], label=name)
    for ax, cells in zip(axes, (edges, edges, edges, near), strict=True):
        floor = 1e-2 / measures["Hess"].dimension / (cells[1] - cells[0])
        ax.set(yscale="log", xlim=(cells[0], cells[-1]), ylim=(floor, None))
        ax.legend(fontsize="small", loc="upper right")
    axes[2].set_xlabel("λ")
    axes[3].set_xlabel("λ, within 1.5 times the reach of H")


if __name__ == "__main__":
    study, options = parse(__doc__)
    if not options.compute_only:
        draw(study, load())
