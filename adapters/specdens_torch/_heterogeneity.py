"""How much the spectra of blocks of parameters differ from each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import specdens as sd
from specdens_torch._operators.densities import measure_of_probes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Heterogeneity:
    """Distances between the spectra of blocks, two by two.

    Attributes
    ----------
    names : tuple of str
        The blocks.
    jensen_shannon : ndarray
        Jensen–Shannon divergences in nats, between 0 and log 2.
    jensen_shannon_stderr : ndarray
        Their standard errors; nan for blocks with a single probe.
    w1 : ndarray
        W1 distances in units of the eigenvalues.
    w1_stderr : ndarray
        Their standard errors; nan for blocks with a single probe.

    Examples
    --------
    >>> import torch, specdens as sd, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (torch.randn(30, 4), torch.arange(30) % 3))
    >>> distances = sdt.heterogeneity(curv.layer_densities("Hess"))
    >>> distances.names, distances.w1.shape
    (('0', '2'), (2, 2))
    """

    names: tuple[str, ...]
    jensen_shannon: Floats
    jensen_shannon_stderr: Floats
    w1: Floats
    w1_stderr: Floats

    @property
    def mean_jensen_shannon(self) -> float:
        """The mean divergence over all pairs of different blocks."""
        return _mean_of_pairs(self.jensen_shannon)

    @property
    def mean_w1(self) -> float:
        """The mean W1 distance over all pairs of different blocks."""
        return _mean_of_pairs(self.w1)

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        lines = [" " * width + "  Jensen-Shannon divergence; W1 below the diagonal"]
        for i, name in enumerate(self.names):
            row = [self.w1[i, j] if j < i else self.jensen_shannon[i, j] for j in range(len(self.names))]
            lines.append(f"{name:{width}}  " + " ".join(f"{value:9.3g}" for value in row))
        return "\n".join(lines)


def heterogeneity(densities: Mapping[str, sd.Density], *, num_cells: int = 64) -> Heterogeneity:
    """Return the distances between the spectra of blocks, as `Curvature.layer_densities` gives them.

    The Jensen–Shannon divergence of two spectra is that of their masses in cells with equal shares of both together,
    so that it does not change with the scale of the axis. The noise of the probes adds about num_cells / (2 n
    num_probes) to it for blocks of n parameters. Standard errors come from leaving out one probe at a time.

    Parameters
    ----------
    densities : mapping of str to Density
        At least two densities, with their measures.
    num_cells : int, default 64
        The number of cells. The divergence grows with it until the cells resolve both spectra.

    Returns
    -------
    Heterogeneity
        Matrices of distances, with standard errors.

    Raises
    ------
    ValueError
        If there are fewer than two densities, or fewer than two cells.

    Examples
    --------
    >>> import numpy as np, specdens as sd, specdens_torch as sdt
    >>> near, far = np.linspace(-1, 1, 200), np.linspace(4, 6, 200)
    >>> blocks = {name: sd.spectral_density(np.diag(values)) for name, values in {"a": near, "b": far}.items()}
    >>> found = sdt.heterogeneity(blocks)
    >>> bool(abs(found.jensen_shannon[0, 1] - np.log(2)) < 0.02), round(found.mean_w1)
    (True, 5)
    """
    if len(densities) < 2:
        raise ValueError(f"`densities` must have at least two blocks to compare; got {len(densities)}")
    if num_cells < 2:
        raise ValueError(f"`num_cells` must be at least 2; got {num_cells}")
    names = tuple(densities)
    measures = [density.measure for density in densities.values()]

    def divergence(a: sd.Measure, b: sd.Measure) -> float:
        return jensen_shannon(a, b, num_cells=num_cells)

    js, js_stderr = _matrix(measures, divergence)
    w1, w1_stderr = _matrix(measures, sd.analysis.distance)
    return Heterogeneity(names, js, js_stderr, w1, w1_stderr)


def jensen_shannon(a: sd.Measure, b: sd.Measure, *, num_cells: int) -> float:
    """Return the Jensen–Shannon divergence of two spectra, in nats."""
    ends = [1e-6, 1.0 - 1e-6]  # so that no cell lies between two spectra and holds the ends of both
    shares = [ends[0], *(np.arange(1, num_cells) / num_cells).tolist(), ends[1]]
    points = np.unique(np.concatenate([np.atleast_1d(m.quantile(q)) for m in (a, b) for q in shares]))
    p, q = (np.diff([0.0, *np.clip(np.atleast_1d(m.cdf(points)), 0.0, 1.0), 1.0]).clip(0.0) for m in (a, b))
    middle = (p + q) / 2
    return float((_entropy_terms(p, middle) + _entropy_terms(q, middle)) / 2)


def _entropy_terms(p: Floats, middle: Floats) -> float:
    seen = p > 0
    return float(np.sum(p[seen] * np.log(p[seen] / middle[seen])))


def _matrix(measures: list[sd.Measure], compare: Callable[[sd.Measure, sd.Measure], float]) -> tuple[Floats, Floats]:
    """Return the comparison of all pairs, with its standard error by the jackknife over probes."""
    count = len(measures)
    values, errors = np.zeros((count, count)), np.zeros((count, count))
    fewer = [_leaving_one_out(measure) for measure in measures]
    for i in range(count):
        for j in range(i):
            values[i, j] = values[j, i] = compare(measures[i], measures[j])
            one = _jackknife_variance([compare(part, measures[j]) for part in fewer[i]])
            other = _jackknife_variance([compare(measures[i], part) for part in fewer[j]])
            errors[i, j] = errors[j, i] = np.sqrt(one + other)
    return values, errors


def _leaving_one_out(measure: sd.Measure) -> list[sd.Measure]:
    if not isinstance(measure, sd.SpectralMeasure) or measure.num_probes < 2:
        return []
    probes = range(measure.num_probes)
    return [measure_of_probes(measure, [k for k in probes if k != left_out]) for left_out in probes]


def _jackknife_variance(values: list[float]) -> float:
    if len(values) < 2:
        return float("nan")
    found = np.asarray(values)
    return float((len(found) - 1) / len(found) * np.sum((found - found.mean()) ** 2))


def _mean_of_pairs(matrix: Floats) -> float:
    rows, columns = np.triu_indices(len(matrix), 1)
    return float(matrix[rows, columns].mean())
