"""Class structure: exact eigenvalues of A1 + A2 + B1 through a small Gram matrix, and the traces of B2c."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specdens._probes import draw_chunk, probe_rng
from specdens_torch._dual import Dual
from specdens_torch._mix import class_sums
from specdens_torch._operators import CurvatureOperator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClassSpectrum:
    """The non-zero eigenvalues of A1 + A2 + B1, in decreasing order."""

    eigenvalues: Floats
    labels: tuple[str, ...]
    """"A1" for the C largest and "B1" for the others, as in the paper."""
    overlap: Floats
    """The share of every eigenvector (in the dual's coordinates) within the directions of A1: 1 for a pure A1."""
    num_products: int


@dataclass(frozen=True)
class ClassTraces:
    """The traces of B2c for every class c, estimated with random probes."""

    values: Floats
    stderr: Floats
    """Standard errors; nan for a single probe."""
    counts: NDArray[np.int64]
    """n_c, the number of examples of every class."""

    @property
    def per_example(self) -> Floats:
        """Tr(B2c) / n_c; nan for an empty class."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.counts > 0, self.values / self.counts, np.nan)


def class_spectrum(operator: CurvatureOperator) -> ClassSpectrum:
    """Return the eigenvalues of A1 + A2 + B1 and their labels, one product and one parameter-sized vector at a time."""
    dual = Dual(operator)
    weights = operator.engine.means.weights
    bases = [(c, _directions(weights[c], c)) for c in range(len(weights)) if float(weights[c].sum()) > 0]
    scale = torch.where(weights > 0, weights, 1.0).rsqrt() * (weights > 0)
    root = dual.mass.sqrt()
    columns = []
    for c, basis in bases:
        for direction in basis:  # Σ_c' direction_c' e_cc', with unit vectors e_cc' = √(ω p_ic') / √w_cc' on class c
            z = root * (direction * scale[c]) * (dual.labels[:, None] == c)
            sums = class_sums(root * dual.gram(z), dual.labels, len(weights)) * scale
            columns.append(torch.cat([other @ sums[d] for d, other in bases]))
    gram = torch.stack(columns)
    values, vectors = torch.linalg.eigh((gram + gram.T) / 2)
    first = torch.cat([torch.arange(len(basis), device=gram.device) == 0 for _, basis in bases])
    overlap = (vectors[first] ** 2).sum(0)
    num_outliers = len(bases)
    return ClassSpectrum(
        eigenvalues=values.flip(0).cpu().numpy(),
        labels=tuple("A1" if k < num_outliers else "B1" for k in range(len(values))),
        overlap=overlap.flip(0).cpu().numpy(),
        num_products=len(columns),
    )


def _directions(weights: Tensor, c: int) -> Tensor:
    """Return C − 1 orthonormal rows orthogonal to (√w_cc')_c', the null vector of the class; the first is A1's."""
    s = weights.sqrt()
    off = s.clone()
    off[c] = 0.0
    unit = torch.zeros_like(s)
    unit[c] = 1.0
    size = off.norm()
    hat = off / size.clamp_min(1e-300)
    first = size * unit - s[c] * hat
    first = first / first.norm().clamp_min(1e-300)
    span = torch.stack([unit, hat], dim=1)
    complement = torch.linalg.qr(torch.cat([span, torch.eye(len(s), dtype=s.dtype, device=s.device)], dim=1))[0][:, 2:]
    return torch.cat([first[None], complement.T])


def class_traces(operator: CurvatureOperator, *, num_probes: int, seed: int) -> ClassTraces:
    """Return the traces of B2c for all classes: one Jv per probe gives them all."""
    engine, subset = operator.engine, operator.subset
    means = engine.means
    samples = []
    for index in range(num_probes):
        x = _rademacher(operator, seed, index)
        gathered = [(state, u) for state, u in engine.differential(subset, x)]
        sums = sum(engine.sums(state, u) for state, u in gathered)
        squares = sum(
            class_sums(state.mass * state.differences(u) ** 2, state.labels, means.num_classes)  # type: ignore[attr-defined]
            for state, u in gathered
        )
        positive = means.weights > 0
        explained = torch.where(positive, sums**2 / torch.where(positive, means.weights, 1.0), 0.0)
        samples.append((squares - explained).sum(1).cpu().numpy())
    counts: Any = sum(
        torch.bincount(state.labels[state.omega[:, 0] > 0], minlength=means.num_classes)  # type: ignore[attr-defined]
        for state in engine.states()
    )
    values = np.array(samples)
    stderr = values.std(axis=0, ddof=1) / np.sqrt(num_probes) if num_probes > 1 else np.full(values.shape[1], np.nan)
    return ClassTraces(values.mean(axis=0), stderr, counts.cpu().numpy())


def _rademacher(operator: CurvatureOperator, seed: int, index: int) -> Tensor:
    signs = draw_chunk("rademacher", probe_rng(seed, index, 0), operator.shape[0], is_complex=False)
    return operator.vectors.from_host(signs)
