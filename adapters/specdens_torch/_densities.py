"""Densities of several operators or layers at once, and by way of the dual."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import specdens as sd
from specdens_torch._operators import CurvatureOperator, SideBySide
from specdens_torch._states import DiagonalState, SoftmaxState

_log = logging.getLogger("specdens")

# Full reorthogonalisation keeps all vectors; beyond this the dual runs without it.
_BASIS_BYTES = 2**30


def measure_by_dual(
    A: CurvatureOperator, dual: bool | None, num_steps: int | None, num_probes: int, seed: int
) -> tuple[sd.SpectralMeasure, str] | None:
    """Return the measure of the dual and a note, or None where the operator itself is to be used."""
    if dual is False or (dual is None and not _dual_is_shorter(A)):
        return None
    D = A.dual()
    steps = min(128 if num_steps is None else num_steps, D.bulk_dimension)
    full = (steps + 3) * D.shape[0] * 8 <= _BASIS_BYTES
    run: Any = sd.slow_lanczos if full else sd.fast_lanczos
    note = (
        f"by the dual of {A.mix}: vectors of {D.shape[0]} entries instead of {A.shape[0]}, "
        f"{'with full' if full else 'without'} reorthogonalisation, and an exact atom at zero"
    )
    _log.info("%s", note)
    return run(D, num_steps=steps or None, num_probes=num_probes, seed=seed), note


def _dual_is_shorter(A: CurvatureOperator) -> bool:
    mix = A.mix
    if mix.h or not mix.has_g or min(*mix.parts, *(mix.parts[3] + value for _, value in mix.classes)) < 0:
        return False
    length = 0
    for state in A.engine.states():
        if not isinstance(state, SoftmaxState | DiagonalState):
            return False
        length += state.num_rows * state.width
    return length < A.shape[0]


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
