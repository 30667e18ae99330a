"""Cheap checks of an operator while a recurrence runs.

Every 16th step, and the last one, compares two inner products that agree for a Hermitian operator: a product that was
zero, or of another matrix, leaves a difference that stays. The same steps look whether x was overwritten. After a run
of more than 32 steps the first product is repeated and compared with the coefficients that it gave.

The checks find errors that change these numbers by more than half of their digits. They miss smaller changes, changes
that are undone before the run ends and affect only products with nearly the same vectors, and an operator that is
wrong but symmetric and constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._operators.base import Operator
from specdens._operators.consistency import tolerance
from specdens._vectors.base import Array

WATCH_EVERY = 16
"""Steps from one check to the next: one or two passes over vectors each."""
FEWEST_STEPS = 33
"""Steps from which the first product is repeated at the end."""


def check_input_kept(A: Operator, v: Array, norms: NDArray[np.float64], step: int) -> None:
    """Raise if the vector that was multiplied has another norm than before."""
    now = np.atleast_1d(A.vectors.to_host(A.vectors.norm(v)))
    wrong = np.flatnonzero(~(np.abs(now - norms) <= tolerance(A) * np.maximum(norms, 1.0)))
    if wrong.size:
        before, after = norms[wrong[0]], now[wrong[0]]
        raise ValueError(
            f"A @ x overwrites x: its norm was {before:.3g} before the product of step {step} and is {after:.3g} after "
            "it. Work on a copy of x."
        )


def check_recurrence(
    found: NDArray[Any], expected: NDArray[np.float64], *, scale: NDArray[np.float64], rtol: float, step: int
) -> None:
    """Raise if an inner product of the recurrence is not what a Hermitian operator gives."""
    difference = np.abs(found - expected)
    wrong = np.flatnonzero(np.isfinite(difference) & (difference > rtol * scale))
    if wrong.size:
        j = int(wrong[0])
        raise ValueError(
            f"the operator has changed during the run, or a product was wrong: at step {step} an inner product of the "
            f"recurrence is {found[j].real:.3g}; for a Hermitian operator that stays the same it is {expected[j]:.3g}."
        )


def check_repeated(name: str, before: float, now: float, allowed: float) -> None:
    """Raise if a coefficient of the first product has changed."""
    if not abs(before - now) <= allowed:
        raise ValueError(
            f"the operator has changed during the run: its first product gave {name} = {before:.6g}, and gives "
            f"{now:.6g} now, after the last one."
        )
