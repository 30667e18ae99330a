"""The spectrum of one weight matrix, its heavy tail, and what lies beyond a random matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

import specdens as sd
from specdens.analysis import MarchenkoPastur, PowerLaw
from specdens_torch._weights.matrices import WeightMatrix

_TALL = 4  # times as many rows as columns: reduced to a triangle piece by piece first
_FEW = 16  # columns: below, the law of Marchenko and Pastur says nothing
_TAIL = 5  # eigenvalues beyond a random matrix: fewer make no tail
_DRAWN_STEPS = 128  # all eigenvalues are drawn at the resolution that so many steps have
_TRACY_WIDOM = 3.2724  # the 99.9 % quantile for real matrices


@dataclass(frozen=True, repr=False)
class WeightSpectrum:
    """The spectrum of WᵀW / N for a weight matrix W whose larger side is N; the smaller side M is its size.

    The mean eigenvalue is the mean square of the entries of W. Independent entries have the law of Marchenko and Pastur
    with γ = M / N.

    Attributes
    ----------
    name : str
        The layer.
    kind : str
        The class of the module, "Linear" for instance.
    shape : (int, int)
        Rows and columns of W: the first dimension of the weight against all others.
    groups : int
        How many such matrices there are; one, but for grouped convolutions, whose W is block diagonal.
    density : Density
        The density of the eigenvalues, with its measure.
    power_law : PowerLaw or None
        The power law of the tail, density ∝ λ^exponent, up to the largest eigenvalue; None where fewer than 5
        eigenvalues are `outliers`, or no law that falls faster than 1/λ fits over half a decade.
    law : MarchenkoPastur or None
        The law of a random matrix with the same median, its γ known from the shape; None for fewer than 16 columns or
        where half of the eigenvalues are zero.
    outliers : Estimate or None
        How many eigenvalues lie beyond `threshold`; its standard error has the doubt about both.
    threshold : float or None
        Just beyond the edge of `law`: what the largest eigenvalue of a random matrix exceeds in at most 2 of 100 cases,
        by the law of Tracy and Widom.
    aliases : tuple of str
        Other names of the same tensor.

    Examples
    --------
    >>> import torch, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> spectrum = sdt.weight_densities(torch.nn.Sequential(torch.nn.Linear(64, 128)))["0"]
    >>> spectrum.shape, bool(spectrum.largest < spectrum.threshold)  # an untrained layer has no outliers
    ((128, 64), True)
    """

    name: str
    kind: str
    shape: tuple[int, int]
    groups: int
    density: sd.Density
    power_law: PowerLaw | None
    law: MarchenkoPastur | None
    outliers: sd.Estimate | None
    threshold: float | None
    aliases: tuple[str, ...]

    @property
    def measure(self) -> sd.Measure:
        """The measure of the eigenvalues: counts, traces and further fits."""
        return self.density.measure

    @property
    def method(self) -> str:
        """How the spectrum was found: "svd" (all singular values) or the name of a matrix-free method."""
        method = getattr(self.measure, "method", "average")
        return "svd" if method == "exact" else str(method)

    @property
    def edge(self) -> float | None:
        """The upper edge of the law of Marchenko and Pastur."""
        return None if self.law is None else self.law.bulk.hi

    @property
    def largest(self) -> float:
        """The largest eigenvalue: the squared spectral norm, divided by N."""
        return largest_node(self.measure)

    @property
    def mean(self) -> sd.Estimate:
        """The mean eigenvalue, which is the mean square of the entries of W."""
        return self.measure.mean(lambda x: x)

    @property
    def stable_rank(self) -> float:
        """The sum of the eigenvalues divided by the largest."""
        return self.measure.dimension * float(self.mean.value) / self.largest if self.largest > 0 else 0.0

    def __repr__(self) -> str:
        rows, columns = self.shape
        parts = [
            f"WeightSpectrum({self.name}: {self.kind} {rows} × {columns}{f' × {self.groups}' * (self.groups > 1)}",
            f"{self.measure.dimension} eigenvalues by {self.method}",
            "no heavy tail"
            if self.power_law is None
            else f"tail ∝ λ^({self.power_law.exponent:.2f} ± {self.power_law.stderr:.1g})",
        ]
        if self.outliers is not None:
            parts.append(f"{self.outliers.value:.3g} ± {self.outliers.stderr:.1g} beyond the edge {self.edge:.3g}")
        return ", ".join(parts) + ")"


def largest_node(measure: sd.Measure) -> float:
    """Return the largest eigenvalue that a measure knows."""
    return max(float(rule.nodes[-1]) for rule in measure.rules if rule.nodes.size)


def weight_spectrum(
    weight: WeightMatrix, *, max_svd: int, lanczos: Callable[[sd.Gram, float], sd.Density]
) -> WeightSpectrum:
    """Return the spectrum of one layer: all singular values where its smaller side is at most `max_svd`."""
    blocks = weight.blocks()
    rows, columns = blocks.shape[-2:]
    if weight.groups > 1 or columns <= max_svd:
        values = singular_values(blocks).to(torch.float64).cpu().numpy() ** 2 / rows
        density = exact_density(values)
        zero = rows * float(np.finfo(np.float64).eps) * float(values.max(initial=0.0))
    else:
        mean = float(torch.linalg.vector_norm(blocks, dtype=_wide(blocks)).item()) ** 2 / (rows * columns)
        density = lanczos(sd.gram(blocks[0], divisor=rows), mean)
        zero = rows * torch.finfo(blocks.dtype).eps * largest_node(density.measure)
    law, threshold, outliers = beyond_random(density.measure, rows, columns, zero)
    return WeightSpectrum(
        weight.name, weight.kind, weight.shape, weight.groups, density, tail(density.measure, outliers), law, outliers,
        threshold, weight.aliases,
    )  # fmt: skip


def singular_values(blocks: Tensor) -> Tensor:
    """Return all singular values of matrices of shape (groups, rows, columns), in double precision."""
    rows, columns = blocks.shape[-2:]
    if rows <= _TALL * columns or blocks.shape[0] > 1:
        return torch.linalg.svdvals(blocks.to(_wide(blocks))).flatten()
    triangle = blocks[0, :0].to(_wide(blocks))
    for piece in blocks[0].split(_TALL * columns):  # so that no second copy of a tall matrix is made
        triangle = torch.linalg.qr(torch.cat([triangle, piece.to(triangle.dtype)]), mode="r").R
    return torch.linalg.svdvals(triangle)


def _wide(blocks: Tensor) -> torch.dtype:
    return torch.complex128 if blocks.is_complex() else torch.float64


def exact_density(values: np.ndarray) -> sd.Density:
    """Return the density of known eigenvalues: as a curve where there are many, each a stem where there are few."""
    measure = sd.SpectralMeasure.from_eigenvalues(values)
    if measure.num_steps <= 32:
        return measure.density()
    return replace(measure.truncated(min(_DRAWN_STEPS, measure.num_steps // 4)).density(), measure=measure)


def tail(measure: sd.Measure, outliers: sd.Estimate | None) -> PowerLaw | None:
    """Return the power law of the tail, or None where there is none, or a random matrix explains it."""
    if outliers is not None and outliers.value - 2 * outliers.stderr < _TAIL:
        return None
    try:
        law = sd.analysis.fit_power_law(measure, part="positive", tail=True)
    except ValueError:
        return None
    return law if law.exponent + 2 * law.stderr < -1 else None


def beyond_random(
    measure: sd.Measure, rows: int, columns: int, zero: float
) -> tuple[MarchenkoPastur | None, float | None, sd.Estimate | None]:
    """Return the law of a random matrix with the same median, a threshold for its edge, and the number beyond that.

    The median does not move with a few outliers [Gavish & Donoho 2014]; those beyond the threshold are left out of it.
    The threshold is that of Tracy and Widom [Johnstone 2001] at 99.9 %; the median errs too.
    """
    if columns < _FEW or float(measure.quantile(0.5)) <= zero:
        return None, None, None
    gamma, n = columns / rows, measure.dimension
    middle = float(MarchenkoPastur(gamma, 1.0).distribution().quantile(0.5))
    a, b = np.sqrt(rows - 0.5), np.sqrt(columns - 0.5)
    edge = float(((a + b) ** 2 + _TRACY_WIDOM * (a + b) * (1 / a + 1 / b) ** (1 / 3)) / rows)

    def settled(stretch: float) -> tuple[float, sd.Estimate]:
        """Return scale and number beyond where neither changes any more, with the median off by a factor."""
        scale, count = 0.0, sd.Estimate(0.0, 0.0)
        for _ in range(20):
            previous, share = scale, 1 - min(count.value / n, 0.5)
            scale = stretch * float(measure.quantile(0.5 * share)) / middle
            count = measure.count(scale * edge, np.inf)
            if scale == previous:
                break
        return scale, count

    scale, count = settled(1.0)
    law, threshold = MarchenkoPastur(gamma, scale), scale * edge
    level = 0.5 * (1 - min(count.value / n, 0.5))
    doubt = min(float(measure.quantile_stderr(level) / measure.quantile(level)), 0.5)
    if not doubt:  # all eigenvalues are known
        return law, threshold, sd.Estimate(float(round(count.value)), 0.0)
    moved = np.ptp([settled(1 + side * doubt)[1].value for side in (-1, 1)]) / 2
    return law, threshold, sd.Estimate(count.value, float(np.hypot(count.stderr, moved)))
