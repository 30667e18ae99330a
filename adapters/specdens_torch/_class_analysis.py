"""The class structure of a model's curvature: spectra, traces and their picture."""

from __future__ import annotations

from os import PathLike
from typing import Any

import torch

import specdens as sd
from specdens.adapters import Operator, as_count
from specdens_torch import _coefficients
from specdens_torch._class_picture import ClassStructure
from specdens_torch._class_structure import ClassSpectrum, ClassTraces, class_spectrum, class_traces
from specdens_torch._operator_family import OperatorFamily
from specdens_torch._operators.densities import ProgressOption

_FEW_EIGENVALUES = 512
"""Up to here all eigenvalues of G are computed for the picture of the class structure."""
_STEPS = 256
"""Steps of the measure of G beyond that."""


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

    def class_structure(
        self,
        *,
        num_steps: int | None = None,
        num_probes: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        progress: ProgressOption = None,
    ) -> ClassStructure:
        """Return the spectrum of G with the eigenvalues of A1 and B1 and the means of B2c.

        The cost is that of the spectrum of G: as many products as there are eigenvalues beside the known zeros, up to
        512 of these, else 256 products. `class_spectrum` adds C − 1 passes of Jᵀ and `class_traces` 16 of J.

        Parameters
        ----------
        num_steps, num_probes : int, optional
            Of the measure of G; by default all eigenvalues are computed up to 512 of them (on the dual, where that
            is smaller), else 256 steps with one probe. More steps resolve smaller eigenvalues: the least resolved is
            about 1 / num_steps² of the largest, and the picture says what lies below.
        seed : int, default 0
            Of the random vectors.
        rank : int, optional
            As for `class_spectrum`.
        progress : bool or callable, optional
            As for `specdens.spectral_density`.

        Returns
        -------
        ClassStructure
            The three results, with a method `plot`; `plot_class_structures` draws several.

        Raises
        ------
        TypeError
            If the loss is not cross-entropy with class labels.
        """
        spectrum = self.class_spectrum(rank=rank, progress=progress)
        form = self.G.cheaper_form()
        smaller = self.G if form is None else form.operator
        if num_steps is None and num_probes is None and smaller.bulk_dimension <= _FEW_EIGENVALUES:
            measure: sd.Measure = _exact_measure(smaller)
        else:
            measure = sd.spectral_density(
                self.G, num_steps=min(_STEPS if num_steps is None else num_steps, smaller.bulk_dimension),
                num_probes=1 if num_probes is None else num_probes, seed=seed, progress=progress,
            ).measure  # fmt: skip
        return ClassStructure(measure, spectrum, self.class_traces(seed=seed), float(self.G.vectors.eps))

    def plot_class_structure(
        self,
        ax: Any = None,
        *,
        num_steps: int | None = None,
        num_probes: int | None = None,
        seed: int = 0,
        rank: int | None = None,
    ) -> Any:
        """Draw how many eigenvalues G has per bin of log λ, with marks for those of A1 and B1 and the means of B2c.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The Axes to draw in; by default those of a new figure.
        num_steps, num_probes, seed, rank : int, optional
            As for `class_structure`, which says what it costs.

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
        return self.class_structure(num_steps=num_steps, num_probes=num_probes, seed=seed, rank=rank).plot(ax)


def _exact_measure(A: Operator) -> sd.SpectralMeasure:
    """Return the measure of all eigenvalues of G, from as many products as it, or its dual, has rows."""
    unit = torch.eye(A.shape[0], dtype=A.dtype, device=A.device)
    matrix = (A @ unit).double()
    values = torch.linalg.eigvalsh((matrix + matrix.T) / 2).cpu().numpy()
    known = A.dimension - A.bulk_dimension  # zeros
    return sd.SpectralMeasure.from_eigenvalues(values[len(values) - A.bulk_dimension :], num_zeros=known)
