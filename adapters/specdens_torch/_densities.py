"""Densities of several operators or layers at once, and by way of the dual."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

import specdens as sd
from specdens._operators import CheaperForm, Operator
from specdens_torch._dual import dual_form
from specdens_torch._operators import CurvatureOperator, SideBySide


class _Chosen(Operator):
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
    """Return the operator with its dual for the front door to use, without it, or as the operator decides."""
    if dual is None:
        return A
    return _Chosen(A, dual_form(A.dual()) if dual else None)


def lockstep_measures(
    operators: Sequence[CurvatureOperator], *, num_steps: int | None, num_probes: int, seed: int
) -> list[sd.SpectralMeasure]:
    """Return one measure per operator; all recurrences advance with the same passes over the data."""
    count = len(operators)
    together = sd.fast_lanczos(
        SideBySide(operators), num_steps=num_steps, num_probes=count * num_probes, seed=seed,
        block_size=count * num_probes,
    )  # fmt: skip
    return [_column(together, range(j, count * num_probes, count)) for j in range(count)]


def _column(measure: sd.SpectralMeasure, probes: Iterable[int]) -> sd.SpectralMeasure:
    chosen = list(probes)
    return replace(
        measure,
        alphas=tuple(measure.alphas[j] for j in chosen),
        betas=tuple(measure.betas[j] for j in chosen),
        last_betas=measure.last_betas[chosen],
        num_products=sum(measure.alphas[j].size for j in chosen),
        block_size=1,
        runs=(),
    )


def layer_groups(names: Sequence[str], by: int | Mapping[str, Iterable[str]] | None) -> dict[str, Any]:
    """Return groups of parameter names: one per module, per first parts of the name, or as given."""
    if isinstance(by, Mapping):
        return {name: list(params) if not isinstance(params, str) else params for name, params in by.items()}
    if by is not None and (isinstance(by, bool) or not isinstance(by, int) or by < 1):
        raise ValueError(f"`by` must be None, a number of name parts or a dict of groups; got {by!r}")
    groups: dict[str, list[str]] = {}
    for name in names:
        parts = name.split(".")
        depth = max(1, len(parts) - 1)
        groups.setdefault(".".join(parts[: depth if by is None else min(by, depth)]), []).append(name)
    return groups
