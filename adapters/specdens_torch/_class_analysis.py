"""The class structure of a model's curvature: spectra, traces and their picture."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

import specdens as sd
from specdens.adapters import as_count
from specdens_torch import _coefficients
from specdens_torch._class_structure import ClassSpectrum, ClassTraces, class_spectrum, class_traces
from specdens_torch._operator_family import OperatorFamily
from specdens_torch._operators.densities import ProgressOption

_COLORS = ("#d55e00", "#e69f00", "#8c8c8c")
_EPSILON = 1e-5
"""As in the log density of `specdens.spectral_density`."""


class ClassAnalysis(OperatorFamily):
    """The part of `Curvature` that is about classes."""

    def class_spectrum(
        self,
        *,
        rank: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        progress: ProgressOption = None,
    ) -> ClassSpectrum:
        """Return the non-zero eigenvalues of A1 + A2 + B1, labelled as in the paper.

        Below 100 classes all of them, exactly: that takes C(C − 1) vectors of parameters in memory and C − 1 passes of
        Jᵀ over the data, which the log says beforehand (C(C − 1) passes where examples cannot be sorted by class:
        streamed data, one label per token). Otherwise the largest, by `specdens.top_eigenpairs`.

        Parameters
        ----------
        rank : int, optional
            The number of largest eigenvalues; by default all below 100 classes, else 20.
        checkpoint : path, optional
            As for `specdens.spectral_density`; for the largest eigenvalues only.
        progress : bool or callable, optional
            As for `specdens.spectral_density`.

        Returns
        -------
        ClassSpectrum
            Eigenvalues, labels and overlaps; it prints as a table.

        Raises
        ------
        TypeError
            If the loss is not cross-entropy with class labels.
        MemoryError
            If the vectors do not fit.
        """
        component = self._component(_coefficients.Coefficients(0.0, (1.0, 1.0, 1.0, 0.0)))
        return class_spectrum(
            component, rank=rank, monitor=sd.Monitor(progress=progress, checkpoint=checkpoint),
            progress=progress if callable(progress) else None,
        )  # fmt: skip

    def class_traces(self, *, num_probes: int = 16, seed: int = 0) -> ClassTraces:
        """Return Tr(B2c) for every class c, with standard errors; one Jv per probe gives them all.

        Parameters
        ----------
        num_probes : int, default 16
            The number of random vectors.
        seed : int, default 0
            Their seed.

        Returns
        -------
        ClassTraces
            The traces; it prints as a table.

        Raises
        ------
        TypeError
            If the loss is not cross-entropy with class labels.
        """
        return class_traces(self.B2, num_probes=as_count("num_probes", num_probes), seed=seed)

    def plot_class_structure(
        self,
        ax: Any = None,
        *,
        num_steps: int | None = None,
        num_probes: int = 1,
        seed: int = 0,
        rank: int | None = None,
    ) -> Any:
        """Draw the log spectrum of G with the eigenvalues of A1 and B1 and the means of B2c.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The Axes to draw in; by default those of a new figure.
        num_steps, num_probes, seed : int, optional
            Of the density of G, as for `specdens.spectral_density` with ``function="log"``.
        rank : int, optional
            As for `class_spectrum`.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes.

        Raises
        ------
        TypeError
            If the loss is not cross-entropy with class labels.
        ImportError
            If matplotlib is not installed.
        """
        spectrum, traces = self.class_spectrum(rank=rank), self.class_traces(seed=seed)
        density = sd.spectral_density(self.G, function="log", num_steps=num_steps, num_probes=num_probes, seed=seed)
        ax = density.plot(ax, log_y=True, band=False, annotate_outliers=False)
        labels = np.array(spectrum.labels)
        values = {name: spectrum.eigenvalues[labels == name] for name in ("A1", "B1")}
        # Tr(B2c) is spread over C n_c eigenvalues at most
        values["mean of B2c"] = (traces.per_example / len(traces.values))[traces.counts > 0]
        for k, (name, found) in enumerate(values.items()):
            top = 0.98 - 0.11 * k  # a band of ticks each, in parts of the height
            positions = np.log(found[found > 0] + _EPSILON)
            ax.vlines(
                positions, top - 0.09, top, color=_COLORS[k], linewidth=1.0, label=name,
                transform=ax.get_xaxis_transform(),
            )  # fmt: skip
        ax.legend(loc="center right", fontsize="small")
        return ax
