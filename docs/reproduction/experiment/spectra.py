"""Spectra of Hess, G and H of one network on one set of examples, computed once and stored."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import specdens_torch as sdt
import torch
from numpy.typing import NDArray

import specdens as sd
from experiment.class_components import COMPONENTS, ClassComponents
from experiment.gradient_gram import dual_of_G
from experiment.study import Case

Floats = NDArray[np.float64]

STEPS, LOG_STEPS = 128, 2048  # the paper's
TAIL_STEPS = 1024  # of the tail of the full VGG11: half an hour on one core
_BASIS_SIZE = 30  # vectors of the search for eigenpairs: memory against products
EXACT_ROWS = 2000  # examples × classes up to which the dual is computed in float64


class Spectra:
    """The spectra of one network on its training or test examples.

    Parameters
    ----------
    case
        The network and its examples.
    split
        "train" or "test".
    epoch
        The epoch of the weights, one of those in `keep`; by default the last.
    keep
        Epochs of which the training keeps the weights.
    rate
        The learning rate; by default that of the sweep.
    """

    def __init__(
        self, case: Case, split: str, *, epoch: int | None = None, keep: tuple[int, ...] = (), rate: float | None = None
    ) -> None:
        self.case, self.split, self.epoch, self.keep, self.rate = case, split, epoch, keep, rate
        self.study, self.store = case.study, case.study.store
        self.name = f"{case.name}-{split}" if epoch is None else f"{case.name}-epoch{epoch}-{split}"
        self.facts = {**case.facts(split), "at_epoch": case.epochs if epoch is None else epoch}

    @cached_property
    def network(self) -> torch.nn.Module:
        """The trained network."""
        return self.case.trained(keep=self.keep, at=self.epoch, rate=self.rate).network

    @cached_property
    def curvature(self) -> sdt.Curvature:
        """Its curvature."""
        return self.case.curvature(self.split, self.network)

    @property
    def num_classes(self) -> int:
        """The number of classes, C."""
        return self.case.num_classes

    def lanczos(self, operator: str, *, num_steps: int = STEPS) -> sd.SpectralMeasure:
        """Return the measure of "Hess" or "H" after so many steps from one random vector."""
        steps = self.study.steps(num_steps)
        suffix = "" if num_steps == STEPS else f"-{num_steps}"
        return self.store.measure(
            f"{self.name}-{operator}{suffix}",
            lambda monitor: sd.fast_lanczos(getattr(self.curvature, operator), num_steps=steps, monitor=monitor),
            operator=operator, **self.facts,
        )  # fmt: skip

    def pairs(self) -> sd.EigenPairs:
        """Return the C eigenpairs of Hess of largest magnitude; the vectors are kept in the cache only."""
        monitor = self.store.monitor(f"{self.name}-Hess-pairs")
        rank = self.num_classes
        return sd.top_eigenpairs(self.curvature.Hess, rank=rank, basis_size=rank + _BASIS_SIZE, monitor=monitor)

    def deflated(self) -> tuple[sd.SpectralMeasure, dict[str, Floats]]:
        """Return the measure of Hess with its top C eigenpairs taken out, and their values and residuals."""

        def values() -> dict[str, Floats]:
            pairs = self.pairs()
            return {"values": pairs.values, "residuals": pairs.residuals, "products": np.array(pairs.num_products)}

        found = self.store.arrays(f"{self.name}-Hess-pairs", values, operator="Hess", **self.facts)
        measure = self.store.measure(
            f"{self.name}-Hess-deflated",
            lambda monitor: sd.fast_lanczos(
                sd.deflate(self.curvature.Hess, self.pairs()), num_steps=self.study.steps(STEPS), monitor=monitor
            ),
            operator="Hess, deflated", **self.facts,
        )  # fmt: skip
        return measure, found

    def gauss_newton(self) -> dict[str, Floats]:
        """Return the exact eigenvalues of G and of what is left of it without each component.

        The keys are "G", "G-A1", …, "A1+A2+B1"; "within" holds Tr B2c of every class, "traces" those of the components,
        "check" the relative difference to a product with the library's dual.
        """
        return self.store.arrays(f"{self.name}-G-exact", self._gauss_newton, operator="G", **self.facts)

    def _dual(self) -> tuple[ClassComponents, torch.Tensor]:
        examples = self.case.examples(self.split)
        dtype = torch.float64 if len(examples) * self.num_classes <= EXACT_ROWS else torch.float32
        network = self.case.copy_of(self.network).to(dtype)
        checkpoint = self.store.checkpoint(f"{self.name}-G-dual")  # kept: `overlap` needs it again
        gram, p = dual_of_G(network, examples.images.to(dtype), checkpoint=checkpoint)
        return ClassComponents(gram.numpy(), p.numpy(), examples.labels.numpy()), gram

    def _gauss_newton(self) -> dict[str, Floats]:
        components, gram = self._dual()
        found = {"G": components.eigenvalues(), "A1+A2+B1": components.eigenvalues(without=("B2",))}
        found |= {f"G-{name}": components.eigenvalues(without=(name,)) for name in COMPONENTS}
        traces = components.traces()
        found |= {"within": components.within_traces(), "traces": np.array([traces[name] for name in COMPONENTS])}
        dual = self.curvature.G.dual()
        x = dual.project(torch.as_tensor(np.random.default_rng(0).standard_normal(len(gram))))
        found["check"] = np.array(float((dual @ x - gram @ x).norm() / (gram @ x).norm()))
        return found

    def overlap(self) -> Floats:
        """Return the squared inner products of the top C eigenvectors of Hess (rows) with those of G (columns)."""
        return self.store.arrays(f"{self.name}-overlap", self._overlap, **self.facts)["squares"]

    def _overlap(self) -> dict[str, Floats]:
        components, _ = self._dual()
        values, vectors = components.top_vectors(self.num_classes)
        rank = len(values)
        found = sd.EigenPairs(
            values, torch.as_tensor(vectors.copy()), np.zeros(rank), np.ones(rank, dtype=bool), 0, 0.0
        )
        lifted = self.curvature.G.dual().lift(found)
        hessian = self.pairs()
        inner = hessian.vectors.double().T @ lifted.vectors.double()
        return {"squares": (inner**2).numpy(), "values": hessian.values, "values_of_G": values}


def count_negative(measure: sd.SpectralMeasure, *, below: float) -> sd.Estimate:
    """Return the number of eigenvalues below ``-below``, a positive number that keeps the null space out."""
    return measure.count(-np.inf, -below)


def describe(measure: Any) -> str:
    """Return the outliers of a measure in a line."""
    found = sd.analysis.outliers(measure)
    return f"{len(found)} positions beyond [{found.bulk.lo:.3g}, {found.bulk.hi:.3g}]"
