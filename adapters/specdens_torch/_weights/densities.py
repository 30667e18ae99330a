"""The spectra of all weight matrices of a model: `weight_densities`, a mapping that prints as a table."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from tqdm.auto import tqdm

import specdens as sd
from specdens.adapters import as_count
from specdens_torch._operators.densities import ProgressOption, labelled
from specdens_torch._weights.matrices import weight_matrices
from specdens_torch._weights.picture import draw_grid
from specdens_torch._weights.spectrum import WeightSpectrum, weight_spectrum

_log = logging.getLogger("specdens")

_HEAD = (
    "layer",
    "kind",
    "matrix",
    "by",
    "mean λ",
    "largest λ",
    "stable rank",
    "tail exponent",
    "MP edge",
    "threshold",
    "beyond it",
)
_THRESHOLD = (
    "  beyond it: eigenvalues beyond the threshold, which allows for the fluctuation of the largest eigenvalue of a "
    "random matrix around the MP edge"
)
_NO_TAIL = "  tail exponent —: too few eigenvalues beyond a random matrix, or no straight range of half a decade"
_NO_LAW = "  MP edge —: too few eigenvalues, or too many zeros, to compare with a random matrix"


class WeightDensities(dict[str, WeightSpectrum]):
    """The spectra of weight matrices by the names of their layers: a dict that prints as a table and draws itself.

    Made by `weight_densities`.

    Attributes
    ----------
    left_out : dict of str to str
        Weights without a spectrum here, and why.

    Examples
    --------
    >>> import torch, specdens_torch as sdt
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    >>> weights = sdt.weight_densities(model)
    >>> list(weights), weights.left_out
    (['0', '2'], {})
    """

    left_out: dict[str, str]

    def __init__(self, spectra: Iterable[WeightSpectrum], left_out: Mapping[str, str]) -> None:
        super().__init__((spectrum.name, spectrum) for spectrum in spectra)
        self.left_out = dict(left_out)

    @property
    def densities(self) -> dict[str, sd.Density]:
        """The densities alone, for `plot_densities` and `heterogeneity`."""
        return {name: spectrum.density for name, spectrum in self.items()}

    def plot(self, *, num_columns: int = 4, panel_size: tuple[float, float] = (3.0, 2.3)) -> Any:
        """Draw a panel for every layer: a histogram on logarithmic axes, the random law and the power law of the tail.

        Heights are numbers of eigenvalues per bin, so that a single one is seen. The law of Marchenko and Pastur is
        drawn as its numbers in the same bins; what lies beyond its threshold is filled in another colour.

        Parameters
        ----------
        num_columns : int, default 4
            The largest number of panels side by side.
        panel_size : (float, float), default (3.0, 2.3)
            Width and height of a panel in inches.

        Returns
        -------
        ndarray of matplotlib.axes.Axes
            One Axes per layer.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        return draw_grid(self, num_columns=as_count("num_columns", num_columns), panel_size=panel_size)

    def __repr__(self) -> str:
        return "\n".join([f"WeightDensities({len(self)} layers)", *_table(self), *self._remarks()])

    def _repr_html_(self) -> str:
        cells = [_HEAD, *(_row(spectrum) for spectrum in self.values())]
        tags = ["th", *["td"] * len(self)]
        rows = "".join(
            "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>"
            for tag, row in zip(tags, cells, strict=True)
        )
        return f"<table>{rows}</table>" + "".join(f"<p>{remark.strip()}</p>" for remark in self._remarks())

    def _remarks(self) -> list[str]:
        tied = [f"  {name}: tied to {s.name}" for s in self.values() for name in s.aliases]
        notes = [_THRESHOLD] if any(s.threshold is not None for s in self.values()) else []
        notes += [_NO_TAIL] if any(s.power_law is None for s in self.values()) else []
        notes += [_NO_LAW] if any(s.edge is None for s in self.values()) else []
        return [*notes, *tied, *(f"  {name}: left out, {reason}" for name, reason in self.left_out.items())]


def _row(spectrum: WeightSpectrum) -> tuple[str, ...]:
    rows, columns = spectrum.shape
    law, beyond = spectrum.power_law, spectrum.outliers
    if beyond is None:
        outliers = "—"
    else:
        outliers = f"{beyond.value:.0f}" if beyond.stderr < 0.05 else f"{beyond.value:.1f} ± {beyond.stderr:.1g}"
    return (
        spectrum.name,
        spectrum.kind,
        f"{rows} × {columns}" + (f" × {spectrum.groups}" if spectrum.groups > 1 else ""),
        spectrum.method,
        f"{spectrum.mean.value:.3g}",
        f"{spectrum.largest:.3g}",
        f"{spectrum.stable_rank:.3g}",
        "—" if law is None else f"{law.exponent:.2f} ± {law.stderr:.2f}",
        "—" if spectrum.edge is None else f"{spectrum.edge:.3g}",
        "—" if spectrum.threshold is None else f"{spectrum.threshold:.3g}",
        outliers,
    )


def _table(spectra: Mapping[str, WeightSpectrum]) -> list[str]:
    cells = [_HEAD, *(_row(spectrum) for spectrum in spectra.values())]
    widths = [max(len(row[k]) for row in cells) for k in range(len(_HEAD))]
    aligned = [
        [
            cell.ljust(width) if k < 2 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in cells
    ]
    return ["  " + "  ".join(row).rstrip() for row in aligned]


def weight_densities(
    model: torch.nn.Module | Mapping[str, Any],
    *,
    layers: str | Iterable[str] | None = None,
    max_svd: int = 2048,
    num_steps: int | None = None,
    num_probes: int | None = None,
    seed: int = 0,
    progress: ProgressOption = None,
) -> WeightDensities:
    """Return the spectra of WᵀW / N for the weight matrix W of every layer, N its larger side.

    Every parameter of two or more dimensions is a matrix W: its first dimension against all others. For a convolution
    with kernels (out, in, height, width) that is out × (in · height · width), the matrix that multiplies patches;
    grouped convolutions are block diagonal, one block per group. The smaller side M of W is the number of eigenvalues
    (zeros that only the shape causes are left out), and their mean is the mean square of the entries.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to array
        The model, or its tensors by name, such as a state dict, which knows no groups of convolutions. It is left as
        it is.
    layers : str or iterable of str, optional
        Names of layers, or patterns such as ``"blocks.*.mlp.*"``; by default all, embeddings included.
    max_svd : int, default 2048
        The smaller side of W up to which all singular values are computed, in double precision. Larger matrices are
        used through products (`specdens.gram`), with a standard error on what is read.
    num_steps, num_probes, seed
        As for `specdens.spectral_density`, for matrices beyond `max_svd`.
    progress : bool or callable, optional
        None: a bar over the layers on a terminal. True or False: always or never. A function: called with
        `specdens.Progress`, whose stage names the layer.

    Returns
    -------
    WeightDensities
        A dict from layers to `WeightSpectrum`, which prints as a table and has a method `plot`.

    Raises
    ------
    TypeError
        If `model` is neither a module nor a mapping, or `layers` holds no names.
    ValueError
        If there is no weight matrix, a weight is not finite or not loaded, or `layers` names none.

    Notes
    -----
    Tied weights are listed once. Weights in float16 and bfloat16 are converted. Weights that a module computes
    (`torch.nn.utils.parametrizations`, weight norm, pruning) are taken as it computes them.

    Examples
    --------
    A random layer with three large singular values added:

    >>> import torch, specdens_torch as sdt
    >>> model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.ReLU(), torch.nn.Linear(200, 100))
    >>> generator = torch.Generator().manual_seed(0)
    >>> _ = [torch.nn.init.normal_(layer.weight, std=0.1, generator=generator) for layer in (model[0], model[2])]
    >>> U, V = (torch.linalg.qr(torch.randn(n, 3, generator=generator)).Q for n in (200, 300))
    >>> model[0].weight.data += 5 * U @ V.T
    >>> weights = sdt.weight_densities(model)
    >>> {name: round(spectrum.outliers.value) for name, spectrum in weights.items()}
    {'0': 3, '2': 0}
    """
    max_svd = as_count("max_svd", max_svd, minimum=0)
    found, left_out = weight_matrices(model, layers)
    report = progress if callable(progress) else None
    bar = tqdm(found, unit="layer", disable=None if progress is None else report is not None or not progress)
    spectra = []
    with torch.no_grad():
        for number, weight in enumerate(bar, 1):
            label = f"{weight.name} ({number} of {len(found)})"
            _log.info("weights of %s", label)
            if report is not None:
                report(sd.Progress(label, 0, None, 0.0, None))

            def lanczos(A: sd.Gram, mean: float, label: str = label) -> sd.Density:
                return sd.spectral_density(
                    A, method="fast_lanczos", num_steps=num_steps, num_probes=num_probes, seed=seed,
                    known_moments=[mean], progress=labelled(report, label) if report is not None else False,
                )  # fmt: skip

            spectra.append(weight_spectrum(weight, max_svd=max_svd, lanczos=lanczos))
    return WeightDensities(spectra, left_out)
