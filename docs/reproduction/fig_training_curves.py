"""Training curves, with the epoch in which G was largest."""

from __future__ import annotations

import numpy as np
from experiment import dynamics
from experiment.store import Missing
from experiment.study import Study, parse
from numpy.typing import NDArray

Floats = NDArray[np.float64]
COLUMNS = ("epoch", "train_error", "train_loss", "test_error")


def history(study: Study, size: int) -> dict[str, Floats]:
    """Compute, or load, the errors of a network while it was trained."""
    case = dynamics.case(study, size)

    def run() -> dict[str, Floats]:
        rows = case.trained(keep=dynamics.epochs(study)).history
        return {column: np.array([row[column] for row in rows], dtype=np.float64) for column in COLUMNS}

    return study.store.arrays(f"{case.name}-history", run, **case.facts("train"))


def apex(study: Study, size: int) -> tuple[int, float] | None:
    """Return the epoch of the grid in which the trace of G was largest, and that trace."""
    try:
        traces = {
            epoch: float(dynamics.panel(study, size, epoch).gauss_newton()["traces"].sum())
            for epoch in dynamics.epochs(study)
        }
    except Missing:
        return None
    epoch = max(traces, key=traces.__getitem__)
    return epoch, traces[epoch]


def compute(study: Study) -> dict[int, dict[str, Floats]]:
    """Compute, or load, the curves of all sample sizes."""
    found = {}
    for size in dynamics.sizes(study):
        try:
            found[size] = history(study, size)
        except Missing:
            print(f"the curve of {size} per class has not been computed")
    return found


def draw(study: Study, found: dict[int, dict[str, Floats]]) -> None:
    """Draw errors against epochs, and a circle where G was largest."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True, sharey=True, layout="constrained")
    for size, curve in found.items():
        for ax, column in zip(axes, ("train_error", "test_error"), strict=True):
            (line,) = ax.plot(np.maximum(curve["epoch"], 0.7), 100 * curve[column], label=f"{size} per class")
            top = apex(study, size)
            if top is not None:
                at = int(np.argmin(np.abs(curve["epoch"] - top[0])))
                ax.plot(curve["epoch"][at], 100 * curve[column][at], "o", markersize=10, color=line.get_color())
    axes[0].set(xscale="log", xlabel="epoch", ylabel="misclassified (%)", title="training examples")
    axes[1].set(xlabel="epoch", title="500 test examples")
    axes[1].plot([], [], "o", color="grey", markersize=10, label="G is largest")
    axes[1].legend()
    study.save(figure, "training-curves")


if __name__ == "__main__":
    study, options = parse(__doc__)
    results = compute(study)
    if not options.compute_only and results:
        draw(study, results)
