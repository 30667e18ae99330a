"""Class structure: eigenvalues of A1 + A2 + B1 and traces of B2c, with the results as tables."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import specdens as sd
from specdens.adapters import as_count, probe_block
from specdens_torch import _coefficients
from specdens_torch._autodiff.class_components import sums_of_differences
from specdens_torch._class_sweep import ProgressCallback, sweep_spectrum
from specdens_torch._operators.curvature_operator import CurvatureOperator

_log = logging.getLogger("specdens")

Floats = NDArray[np.float64]

MANY_CLASSES = 100
"""From here on the spectrum is found by `top_eigenpairs`, not exactly."""

_LEADING = 20
_SHOWN = 12
_NO_OVERLAP = 0.05
"""Among the C largest, eigenvectors with less of A1 are printed without a label."""
_OVERLAP = "  overlap: share of the eigenvector in the directions of A1 (1: pure A1, 0: none of it)"


@dataclass(frozen=True, repr=False)
class ClassSpectrum:
    """The non-zero eigenvalues of A1 + A2 + B1, in decreasing order.

    Attributes
    ----------
    eigenvalues : ndarray
        All of them, or the largest where there are many classes.
    labels : tuple of str
        "A1" for the C largest and "B1" for the others, as in the paper.
    overlap : ndarray
        The share of every eigenvector (in the dual's coordinates) within the directions of A1: 1 for a pure A1.
    num_products : int
        Passes of Jᵀ over all of the data; products with the operator where there are many classes.

    Examples
    --------
    >>> import torch, specdens as sd, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (torch.randn(30, 4), torch.arange(30) % 3))
    >>> spectrum = curv.class_spectrum()
    >>> spectrum.labels
    ('A1', 'A1', 'A1', 'B1', 'B1', 'B1')
    """

    eigenvalues: Floats
    labels: tuple[str, ...]
    overlap: Floats
    num_products: int

    def __repr__(self) -> str:
        head = f"ClassSpectrum({len(self.eigenvalues)} eigenvalues, {self.num_products} products)"
        rows = [
            f"{i:>5}  {value:>12.5g}  {'' if label == 'A1' and share < _NO_OVERLAP else label:>5}  {share:>7.3f}"
            for i, (value, label, share) in enumerate(zip(self.eigenvalues, self.labels, self.overlap, strict=True))
        ]
        return "\n".join([head, _OVERLAP, "    #    eigenvalue  label  overlap", *_shortened(rows)])


@dataclass(frozen=True, repr=False)
class ClassTraces:
    """The traces of B2c for every class c, estimated with random probes.

    Attributes
    ----------
    values : ndarray
        The traces.
    stderr : ndarray
        Standard errors; nan for a single probe.
    counts : ndarray
        n_c, the number of examples of every class.

    Examples
    --------
    >>> import torch, specdens as sd, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (torch.randn(30, 4), torch.arange(30) % 3))
    >>> traces = curv.class_traces()
    >>> traces.values.shape, traces.counts.tolist()
    ((3,), [10, 10, 10])
    """

    values: Floats
    stderr: Floats
    counts: NDArray[np.int64]

    @property
    def per_example(self) -> Floats:
        """Tr(B2c) / n_c; nan for an empty class."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.counts > 0, self.values / self.counts, np.nan)

    def __repr__(self) -> str:
        rows = [
            f"{c:>7}  {value:>12.5g}  {error:>9.2g}  {count:>8}  {each:>12.5g}"
            for c, (value, error, count, each) in enumerate(
                zip(self.values, self.stderr, self.counts, self.per_example, strict=True)
            )
        ]
        head = f"ClassTraces({len(self.values)} classes, {int(self.counts.sum())} examples)"
        return "\n".join([head, "  class     Tr(B2c)     stderr       n_c   per example", *_shortened(rows)])


def _shortened(rows: list[str]) -> list[str]:
    return rows if len(rows) <= 2 * _SHOWN else [*rows[:_SHOWN], "    ⋮", *rows[-_SHOWN:]]


def class_spectrum(
    operator: CurvatureOperator, *, rank: int | None, monitor: sd.Monitor, progress: ProgressCallback | None
) -> ClassSpectrum:
    """Return the eigenvalues of A1 + A2 + B1 and their labels.

    Parameters
    ----------
    operator : CurvatureOperator
        A1 + A2 + B1.
    rank : int, optional
        The number of largest eigenvalues; by default all of them, exactly, below 100 classes, else 20.
    monitor : Monitor
        Progress and checkpoint of `top_eigenpairs`, which finds a given number of eigenvalues.
    progress : callable, optional
        Called with a `Progress` after every direction of the exact way.
    """
    if operator.engine.ranks.size > 1:
        raise ValueError(
            f"class_spectrum() takes the data of one process; they are shared by {operator.engine.ranks.size}. Use the "
            "densities of A1, A2 and B1, or group=False with all of the data."
        )
    means = operator.engine.class_means()
    num_present = int((means.weights.sum(1) > 0).sum())
    if rank is None and means.num_classes < MANY_CLASSES:
        values, overlap, num_passes = sweep_spectrum(operator, progress)
        labels = tuple("A1" if k < num_present else "B1" for k in range(len(values)))
        return ClassSpectrum(values, labels, overlap, num_passes)
    largest = num_present * (means.num_classes - 1)
    rank = as_count("rank", min(_LEADING, num_present) if rank is None else rank, maximum=largest, limit="C (C - 1)")
    _log.info("class_spectrum: %d largest eigenvalues of %s by top_eigenpairs", rank, operator.coefficients)
    pairs = sd.top_eigenpairs(operator, rank=rank, monitor=monitor)
    within = CurvatureOperator(
        operator.engine, operator.subset, _coefficients.A1.plus(_coefficients.A2)
    )  # of an eigenvector v, ⟨v, (A1 + A2) v⟩ / λ is its share within the directions of A1
    shares = (pairs.vectors * (within @ pairs.vectors)).sum(0).cpu().numpy() / pairs.values
    labels = tuple("A1" if k < num_present else "B1" for k in range(rank))
    return ClassSpectrum(pairs.values, labels, shares.astype(np.float64), pairs.num_products + rank)


def class_traces(operator: CurvatureOperator, *, num_probes: int, seed: int) -> ClassTraces:
    """Return the traces of B2c for all classes: one Jv per probe gives them all, batch after batch."""
    engine, subset = operator.engine, operator.subset
    means = engine.class_means()
    samples = []
    for index in range(num_probes):
        x = probe_block(operator.vectors, operator.shape[0], [index], seed, kind="rademacher")[:, 0].contiguous()
        sums = squares = torch.zeros_like(means.weights)
        state: Any
        for state, u in engine.differential(subset, x):
            sums = sums + sums_of_differences(state, u, means)
            squares = squares + means.sums(state.mass * state.differences(u) ** 2, state.labels)
        sums, squares = (engine.ranks.total(x, means.weights) for x in (sums, squares))
        positive = means.weights > 0
        explained = torch.where(positive, sums**2 / torch.where(positive, means.weights, 1.0), 0.0)
        samples.append((squares - explained).sum(1).cpu().numpy())
    counts = torch.zeros(means.num_rows, dtype=torch.int64, device=means.weights.device)
    for state in engine.states():
        rows = means.rows(state.labels[state.omega[:, 0] > 0])
        counts += torch.bincount(rows, minlength=means.num_rows)
    counts = engine.ranks.total(counts, counts)
    values = np.array(samples)
    stderr = values.std(axis=0, ddof=1) / np.sqrt(num_probes) if num_probes > 1 else np.full(values.shape[1], np.nan)
    present = ClassTraces(values.mean(axis=0), stderr, counts.cpu().numpy())
    return _spread(present, means.classes.cpu().numpy(), means.num_classes)


def _spread(traces: ClassTraces, classes: NDArray[np.int64], num_classes: int) -> ClassTraces:
    """Return the traces with zeros for the classes that do not occur."""

    def spread(values: NDArray[Any]) -> NDArray[Any]:
        out = np.zeros(num_classes, dtype=values.dtype)
        out[classes] = values
        return out

    return replace(traces, values=spread(traces.values), stderr=spread(traces.stderr), counts=spread(traces.counts))
