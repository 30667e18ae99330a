"""Densities of one or several curvature operators, with the arguments of `specdens.spectral_density`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

import specdens as sd
from specdens.adapters import CheaperForm, Operator
from specdens_torch._operators.curvature_operator import CurvatureOperator
from specdens_torch._operators.dual import dual_form, has_dual
from specdens_torch._operators.lockstep import in_lockstep
from specdens_torch._operators.named_densities import Densities
from specdens_torch._operators.products import SideBySide

_log = logging.getLogger("specdens")

LOG_STEPS = 2048
"""Steps of a log density, as in `specdens.spectral_density`."""

Method = Literal["fast_lanczos", "slow_lanczos", "kpm"]
ProgressOption = bool | Callable[[sd.Progress], None] | None


@dataclass(frozen=True)
class DensityOptions:
    """The arguments of `specdens.spectral_density`, under their names there."""

    method: Method | None
    num_steps: int | None
    num_probes: int | None
    rank: int
    function: Any
    tol: float | None
    max_products: int | None
    seed: int
    checkpoint: str | PathLike[str] | None
    checkpoint_interval: float
    progress: ProgressOption

    def density(self, A: Operator) -> sd.Density:
        """Return the density of one operator."""
        return sd.spectral_density(
            A, method=self.method, num_steps=self.num_steps, num_probes=self.num_probes, rank=self.rank,
            function=self.function, tol=self.tol, max_products=self.max_products, seed=self.seed,
            checkpoint=self.checkpoint, checkpoint_interval=self.checkpoint_interval, progress=self.progress,
        )  # fmt: skip

    def named(self, name: str, number: int, total: int) -> DensityOptions:
        """Return the options for one of several densities: a checkpoint of its own, and its name in the progress."""
        if total == 1:
            return self
        label = f"{name} ({number} of {total})"
        _log.info("density of %s", label)
        return replace(
            self,
            checkpoint=None if self.checkpoint is None else checkpoint_of(self.checkpoint, name),
            progress=labelled(self.progress, label),
        )

    def block_density(self, A: Operator) -> sd.Density:
        """Return the density of a block of parameters: exact where the run would take as many products, or more."""
        n, steps = A.dimension, 128 if self.num_steps is None else self.num_steps
        is_plain = not self.rank and self.tol is None and self.max_products is None
        if self.method is None and is_plain and n <= min(steps * self.probes(n), 1024):
            return replace(self, num_steps=None, num_probes=None).density(A)
        if self.method == "kpm" or self.num_steps is None or self.num_steps <= n:
            return self.density(A)
        density = replace(self, num_steps=n).density(A)
        note = f"num_steps is {n}, the number of parameters of this block, instead of {self.num_steps}"
        return replace(density, notes=(*density.notes, note))

    def probes(self, n: int) -> int:
        """Return the number of probes for n eigenvalues: what was asked for, or the default of the front door."""
        return max(1, min(8, -(-8000 // n))) if self.num_probes is None else self.num_probes

    def runs_side_by_side(self, n: int) -> bool:
        """Return whether recurrences of several operators can share their passes; small ones are exact instead."""
        is_free = self.method is None and self.num_steps is None and self.num_probes is None
        is_exact = is_free and n <= min(128 * self.probes(n), 1024)
        is_plain = not self.rank and self.tol is None and self.max_products is None
        return self.method in (None, "fast_lanczos") and is_plain and not is_exact


def checkpoint_of(path: str | PathLike[str], name: str) -> Path:
    """Return the checkpoint of one of several runs: run.npz becomes run-G.npz."""
    path = Path(path)
    safe = "".join(letter if letter.isalnum() or letter in "._+-" else "_" for letter in name)
    return path.with_name(f"{path.stem}-{safe}{path.suffix}")


def labelled(progress: ProgressOption, label: str) -> ProgressOption:
    """Return a progress function that is told which of several runs it is about; bars are left alone."""
    if progress is None or isinstance(progress, bool):
        return progress
    report = progress
    return lambda state: report(replace(state, stage=f"{label}: {state.stage}"))


class _WithDual(Operator):
    """An operator for which it is settled whether its dual is used."""

    def __init__(self, A: CurvatureOperator, form: CheaperForm | None) -> None:
        super().__init__(A.shape[0], A.vectors)
        self.A, self.form = A, form
        self.has_block_products = A.has_block_products

    def apply(self, x: Tensor) -> Tensor:
        return self.A @ x

    def cheaper_form(self) -> CheaperForm | None:
        return self.form


def with_dual(A: CurvatureOperator, dual: bool | None) -> Operator:
    """Return the operator with its dual, without it, or (None) with the dual where that is shorter."""
    if dual is None:
        return A
    return _WithDual(A, dual_form(A.dual()) if dual else None)


def densities_of(
    operators: Mapping[str, CurvatureOperator], *, dual: bool | None, options: DensityOptions, blocks: bool = False
) -> Densities:
    """Return the densities of several operators; recurrences share passes where graphs are not kept.

    `blocks` says that they are blocks of all sizes, of which small ones take fewer steps than asked for.
    """
    _check_function(options.function)
    all_operators = list(operators.values())
    first = all_operators[0]
    shareable = (
        len(operators) > 1
        and dual is False
        and options.runs_side_by_side(first.dimension)
        and not first.engine.keeps_all_graphs
        and all(A.subset == first.subset for A in all_operators)
    )
    if shareable:
        measures = side_by_side_measures(all_operators, options)
        return Densities({name: _drawn(m, options.function) for name, m in zip(operators, measures, strict=True)})
    numbers = {name: number for number, name in enumerate(operators, 1)}

    def density(name: str, A: Operator) -> sd.Density:
        own = options.named(name, numbers[name], len(operators))
        return own.block_density(A) if blocks else own.density(A)

    no_duals = dual is False or (dual is None and not any(has_dual(A) for A in all_operators))
    # threads that take turns would send their inner products in an order of their own
    alone = first.engine.keeps_all_graphs or first.subset.whole_shapes is not None
    if len(operators) > 1 and no_duals and not alone:
        # bars of several runs at a time would overwrite each other
        options = replace(options, progress=options.progress if callable(options.progress) else False)
        return Densities(in_lockstep(operators, density))
    return Densities({name: density(name, with_dual(A, dual)) for name, A in operators.items()})


def side_by_side_measures(operators: Sequence[CurvatureOperator], options: DensityOptions) -> list[sd.SpectralMeasure]:
    """Return one measure per operator; all recurrences start from the same probes and share passes over the data."""
    count = len(operators)
    columns = count * options.probes(operators[0].dimension)
    num_steps = options.num_steps
    if num_steps is None and isinstance(options.function, str):
        num_steps = min(LOG_STEPS, operators[0].dimension)
    together = sd.fast_lanczos(
        SideBySide(operators), num_steps=num_steps, num_probes=columns, seed=options.seed, block_size=columns,
        monitor=sd.Monitor(
            progress=labelled(options.progress, ", ".join(str(A.coefficients) for A in operators)),
            checkpoint=options.checkpoint, checkpoint_interval=options.checkpoint_interval,
        ),
    )  # fmt: skip
    return [measure_of_probes(together, range(j, columns, count)) for j in range(count)]


def measure_of_probes(measure: sd.SpectralMeasure, probes: Iterable[int]) -> sd.SpectralMeasure:
    """Return the measure of some of the probes."""
    chosen = list(probes)
    return replace(
        measure,
        alphas=tuple(measure.alphas[j] for j in chosen),
        betas=tuple(measure.betas[j] for j in chosen),
        last_betas=measure.last_betas[chosen],
        num_products=sum(measure.alphas[j].size for j in chosen),
        block_size=1,
        recurrences=(),
    )


def _drawn(measure: sd.SpectralMeasure, function: Any) -> sd.Density:
    if function is None:
        return measure.density()
    return measure.log_density() if isinstance(function, str) else measure.density_of(function)


def _check_function(function: Any) -> None:
    if not (function is None or callable(function) or (isinstance(function, str) and function == "log")):
        raise ValueError(f'`function` must be None, "log" or a function; got {function!r}')
