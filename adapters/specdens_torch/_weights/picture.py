"""A grid of panels, one per layer: how many eigenvalues of WᵀW / N lie where, beside a random matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens_torch._weights.spectrum import WeightSpectrum

_BULK, _BEYOND, _LAW, _TAIL = "#9aa5b1", "#d55e00", "#0072b2", "#222222"
_MOST_BINS = 40
_FLOOR = 0.5  # of one eigenvalue
_CUT = 0.02  # the share of the smallest eigenvalues that may lie beyond the left end of a panel, which then says so


def draw_grid(spectra: Mapping[str, WeightSpectrum], *, num_columns: int, panel_size: tuple[float, float]) -> Any:
    """Draw one panel per spectrum and return the Axes, one per layer."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('plots need matplotlib: pip install "specdens[plot]"') from None
    columns = min(num_columns, len(spectra))
    rows = -(-len(spectra) // columns)
    size = (panel_size[0] * columns + 0.4, panel_size[1] * rows + 0.8)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    axes, unused = np.split(grid.ravel(), [len(spectra)])
    handles: dict[str, Any] = {}
    for ax, spectrum in zip(axes, spectra.values(), strict=True):
        draw_panel(ax, spectrum)
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for ax in unused:
        ax.remove()
    legend_columns = max(1, min(4, int(size[0] / 2.2)))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=legend_columns, fontsize="small")
    figure.supxlabel("eigenvalue of WᵀW / N", fontsize="medium")
    figure.supylabel("eigenvalues per bin", fontsize="medium")
    return axes


def draw_panel(ax: Any, spectrum: WeightSpectrum) -> None:
    """Draw the histogram of one layer with the law of a random matrix and the power law of its tail."""
    edges, measure = _bins(spectrum), spectrum.measure
    n = measure.dimension
    counts = n * np.diff(measure.cdf(edges))
    _dress(ax, edges, float(counts.max()))
    threshold = np.inf if spectrum.threshold is None else spectrum.threshold
    beyond = edges[:-1] >= threshold * (1 - 1e-9)
    for chosen, color, label in ((~beyond, _BULK, "eigenvalues"), (beyond, _BEYOND, "beyond a random matrix")):
        if chosen.any():
            ax.bar(
                edges[:-1][chosen], counts[chosen], np.diff(edges)[chosen], align="edge", color=color, label=label,
                edgecolor="white", linewidth=0.4,
            )  # fmt: skip
    if spectrum.law is not None and spectrum.outliers is not None:
        expected = (n - spectrum.outliers.value) * np.diff(spectrum.law.distribution()(edges))
        ax.stairs(np.maximum(expected, 1e-9), edges, color=_LAW, linewidth=1.4, label="Marchenko–Pastur")
    if spectrum.power_law is not None:
        x = np.geomspace(*spectrum.power_law.range, 50)
        per_bin = n * spectrum.power_law.density(x) * x * np.log(edges[1] / edges[0])
        ax.plot(x, per_bin, "--", color=_TAIL, linewidth=1.6, label="power law of the tail")
    smaller = round(n * float(measure.cdf(edges[0])))
    if smaller:
        ax.text(0.02, 0.97, f"◂ {smaller} smaller", transform=ax.transAxes, va="top", fontsize="x-small")
    ax.set_title(_title(spectrum), fontsize="small")


def _bins(spectrum: WeightSpectrum) -> NDArray[np.float64]:
    """Return the edges of logarithmic bins, one of them at the threshold."""
    largest, n = spectrum.largest, spectrum.measure.dimension
    if largest <= 0:
        return np.array([0.1, 1.0, 10.0])
    zeros = float(spectrum.measure.cdf(1e-6 * largest))  # whatever is smaller is not drawn
    low = float(spectrum.measure.quantile(min(max(zeros + 0.5 / n, _CUT if n > 50 else 0.0), 1.0)))
    low = 0.9 * min(low, 0.1 * largest)
    pivot = largest if spectrum.threshold is None else spectrum.threshold
    width = np.log(1.05 * largest / low) / min(_MOST_BINS, max(12, int(2 * np.sqrt(n))))
    first, last = -int(np.ceil(np.log(pivot / low) / width)), int(np.ceil(np.log(1.05 * largest / pivot) / width))
    return np.asarray(pivot * np.exp(width * np.arange(first, max(last, first + 1) + 1)))


def _dress(ax: Any, edges: NDArray[np.float64], highest: float) -> None:
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    ax.set(xlim=(edges[0], edges[-1]), ylim=(_FLOOR, max(2 * highest, 20.0)))
    ax.set(xscale="log", yscale="log")
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.tick_params(labelsize="small")


def _title(spectrum: WeightSpectrum) -> str:
    rows, columns = spectrum.shape
    found = []
    if spectrum.power_law is not None:
        found.append(f"λ^({spectrum.power_law.exponent:.2f} ± {spectrum.power_law.stderr:.2f})")
    if spectrum.outliers is not None:
        found.append(f"{spectrum.outliers.value:.0f} beyond")
    return f"{spectrum.name}, {rows} × {columns}\n{', '.join(found)}"
