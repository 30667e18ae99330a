"""Verification on synthetic matrices with known eigenvalues: spikes on Wishart, and a Pareto power law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from experiment.spectra import LOG_STEPS, STEPS
from experiment.store import Store
from experiment.study import Study, parse
from numpy.typing import NDArray

import specdens as sd

Floats = NDArray[np.float64]

SPIKES = (5.0, 4.0, 3.0)
PROBES = 10  # the paper's n_vec
EPSILON = 1e-5


def spiked_wishart(n: int) -> Floats:
    """Return X + ZZᵀ/n with X = diag(5, 4, 3, 0, …) and standard normal Z."""
    Z = np.random.default_rng(0).standard_normal((n, n))
    Y = Z @ Z.T / n
    Y[range(len(SPIKES)), range(len(SPIKES))] += SPIKES
    return Y


def pareto_wishart(n: int) -> Floats:
    """Return ZZᵀ/n for an n × n/2 matrix Z of Pareto entries with index 1; the paper's shapes are swapped."""
    Z = 1 + np.random.default_rng(0).pareto(1.0, size=(n, n // 2))
    return Z @ Z.T / n


def measured(
    store: Store, name: str, matrix: Callable[[int], Floats], n: int, steps: int
) -> tuple[sd.SpectralMeasure, Floats]:
    """Return the measure by Lanczos and the exact eigenvalues."""
    facts = {"matrix": name, "dimension": n}
    measure = store.measure(
        f"synthetic-{name}",
        lambda monitor: sd.fast_lanczos(matrix(n), num_steps=steps, num_probes=PROBES, monitor=monitor),
        **facts,
    )
    exact = store.arrays(f"synthetic-{name}-exact", lambda: {"values": np.linalg.eigvalsh(matrix(n))}, **facts)
    return measure, exact["values"]


def compute(study: Study) -> dict[str, tuple[sd.SpectralMeasure, Floats]]:
    """Compute, or load, both verifications."""
    n, m = (200, 100) if study.tiny else (2000, 1000)
    return {
        "spikes": measured(study.store, "spikes", spiked_wishart, n, study.steps(STEPS)),
        "pareto": measured(study.store, "pareto", pareto_wishart, m, study.steps(min(LOG_STEPS, m))),
    }


def width_distance(measure: sd.Measure, values: Floats) -> float:
    """Return the W1 distance from the exact eigenvalues, divided by the width of the spectrum."""
    q = (np.arange(len(values)) + 0.5) / len(values)
    return float(np.mean(np.abs(measure.quantile(q) - values)) / np.ptp(values))


def log_distance(measure: sd.Measure, values: Floats) -> float:
    """Return the W1 distance on the axis log(|λ| + ε) from the exact eigenvalues, divided by their range there."""
    q = (np.arange(len(values)) + 0.5) / len(values)
    exact, estimate = (np.sort(np.log(np.abs(each) + EPSILON)) for each in (values, measure.quantile(q)))
    return float(np.mean(np.abs(estimate - exact)) / np.ptp(exact))


def compare_kpm(study: Study) -> dict[str, Floats]:
    """Compute, or load, distances from the exact spectra by matrix: Lanczos, and KPM with as many products."""

    def run() -> dict[str, Floats]:
        found = {}
        for (name, (measure, values)), matrix in zip(
            compute(study).items(), (spiked_wishart, pareto_wishart), strict=True
        ):
            kpm = sd.kpm(matrix(len(values)), num_moments=2 * measure.num_steps, num_probes=PROBES)
            linear, log = (
                [distance(each, values) for each in (measure, kpm)] for distance in (width_distance, log_distance)
            )
            found[name] = np.array(linear if name == "spikes" else log)
        return found

    return study.store.arrays("synthetic-kpm", run)


def draw(study: Study, found: dict[str, tuple[sd.SpectralMeasure, Floats]]) -> None:
    """Draw histograms of the exact eigenvalues and the estimates over them."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    _draw_spikes(left, *found["spikes"])
    _draw_pareto(right, *found["pareto"])
    study.save(figure, "synthetic")


def _draw_spikes(ax: Any, measure: sd.SpectralMeasure, values: Floats) -> None:
    ax.hist(values, bins=100, density=True, color="#9ecae1", label="exact eigenvalues, 100 bins")
    density, distance = measure.density(), width_distance(measure, values)
    ax.plot(density.grid, density.values, color="#d55e00", linewidth=1.3, label=f"Lanczos, {measure.num_steps} steps")
    bars = density.atoms.masses / (np.ptp(values) / 100)  # an eigenvalue that stands alone, as in a histogram
    ax.vlines(density.atoms.positions, 1e-6, bars, color="#d55e00", linewidth=1.3)
    for spike in SPIKES:  # an eigenvalue θ of X shows at θ + θ/(θ − 1)
        ax.axvline(spike + spike / (spike - 1), color="black", linestyle=":", linewidth=0.8)
    ax.plot([], [], color="black", linestyle=":", label="where theory puts the spikes")
    ax.set(
        yscale="log",
        ylim=(1e-4, 3),
        xlabel="λ",
        ylabel="density per unit λ",
        title=f"(a) spiked Wishart; W1 to the exact spectrum {distance:.1e} of its width",
    )
    ax.legend(fontsize="small")


def _draw_pareto(ax: Any, measure: sd.SpectralMeasure, values: Floats) -> None:
    logs = np.log(np.abs(values) + EPSILON)
    edges = np.linspace(logs.min() - 0.1, logs.max() + 0.1, 101)
    density = measure.log_density(epsilon=EPSILON, grid=(edges[1:] + edges[:-1]) / 2)
    ax.plot(density.grid, density.values, color="#d55e00", linewidth=1.3, label=f"Lanczos, {measure.num_steps} steps")
    ax.hist(logs, bins=edges, density=True, color="#9ecae1", label="exact eigenvalues, 100 bins")
    decades = np.arange(-4, np.ceil(logs.max() / np.log(10)) + 1, 2)
    ax.set_xticks(decades * np.log(10), [f"$10^{{{int(d)}}}$" for d in decades])
    tail = values[values > np.quantile(values, 0.75)]
    x = np.geomspace(tail.min(), tail.max(), 50)
    share = 0.25 * 0.5 * np.sqrt(tail.min() / x)  # of λ^(−3/2) per unit λ, normalised to the upper quarter
    ax.plot(np.log(x), share, "k--", linewidth=1, label="λ$^{-3/2}$ per unit λ")
    ax.set(yscale="log", ylim=(1e-4, 20), xlabel="λ", ylabel="density per unit log λ")
    ax.set_title("(b) log spectrum of a Pareto matrix")
    ax.legend(fontsize="small")


if __name__ == "__main__":
    study, options = parse(__doc__)
    results = compute(study)
    compare_kpm(study)
    if not options.compute_only:
        draw(study, results)
