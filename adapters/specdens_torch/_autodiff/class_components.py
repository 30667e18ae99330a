"""Class components of G on the outputs of one batch: sums over classes, and the cotangents they give."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from specdens_torch._coefficients import ClassMeans, Coefficients


def sums_of_differences(state: Any, u: Tensor, means: ClassMeans) -> Tensor:
    """Return the sums Σ ω p a over the examples of every class, for a = u − ⟨p, u⟩."""
    return means.sums(state.mass * state.differences(u), state.labels)


def component_cotangent(state: Any, a: Tensor | None, table: Tensor, beta: Tensor, means: ClassMeans) -> Tensor:
    """Return ω p (β_y a + M_y) as a cotangent of the outputs; None stands for a component without B2."""
    rows = means.rows(state.labels)
    q = table[rows]
    return state.cotangent(state.mass * (q if a is None else q.addcmul_(beta[rows], a)))


def single_batch_component(state: Any, u: Tensor, coefficients: Coefficients, means: ClassMeans) -> Tensor:
    """Return the cotangent of a component where one batch is all of the data, so that its class sums are complete."""
    a = state.differences(u)
    table, beta = means.table(means.sums(state.mass * a, state.labels), coefficients)
    return component_cotangent(state, a if coefficients.has_b2 else None, table, beta, means)
