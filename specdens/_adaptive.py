"""Steps and probes until an error is reached, or a budget spent."""

from __future__ import annotations

import math

from specdens._errors import as_count
from specdens._fast_lanczos import extend, fast_lanczos
from specdens._measure import SpectralMeasure
from specdens._operators import Operator

DEFAULT_MAX_PRODUCTS = 2048


def lanczos_to_tolerance(
    A: Operator, tol: float, max_products: int | None, num_steps: int, num_probes: int, seed: int
) -> tuple[SpectralMeasure, str]:
    """Return a measure whose estimated W1 error, divided by the width, is below `tol`, and a sentence on how it ended.

    First steps are added until half of them would nearly do, with the vectors of the first probes kept; then probes, as
    many as the sampling error asks for.
    """
    budget = as_count("max_products", DEFAULT_MAX_PRODUCTS if max_products is None else max_products)
    if budget < num_probes + 1:
        raise ValueError(
            f"`max_products` must allow one step of every probe and a check, {num_probes + 1}; got {budget}"
        )
    steps = min(num_steps, (budget - 1) // num_probes)
    measure = fast_lanczos(A, num_steps=steps or None, num_probes=num_probes, seed=seed, keep_vectors=True)
    error = measure.convergence()
    while error.steps > tol / 2 and measure.num_steps < A.bulk_dimension:
        affordable = measure.num_steps + (budget - measure.num_products) // num_probes
        steps = min(2 * measure.num_steps, affordable, A.bulk_dimension)
        if steps <= measure.num_steps:
            break
        measure = extend(measure, A, num_steps=steps)
        error = measure.convergence()
    while error.steps + error.sampling > tol:
        room = max(tol - error.steps, tol / 2)
        wanted = math.ceil(measure.num_probes * (error.sampling / room) ** 2)
        affordable = measure.num_probes + (budget - measure.num_products) // max(measure.num_steps, 1)
        probes = min(max(wanted, measure.num_probes + 1), affordable)
        if probes <= measure.num_probes or error.sampling == 0:
            break
        measure = extend(measure, A, num_probes=probes, keep_vectors=False)
        error = measure.convergence()
    return measure, _describe(error.steps, error.sampling, tol, measure, budget)


def _describe(steps: float, sampling: float, tol: float, measure: SpectralMeasure, budget: int) -> str:
    said = f"estimated error {steps + sampling:.2g} of the width (steps {steps:.1g}, sampling {sampling:.1g})"
    if steps + sampling <= tol:
        return f"{said}: tol = {tol:g} reached in {measure.num_products} of {budget} products"
    return f"{said}: tol = {tol:g} not reached; {measure.num_products} of {budget} products were spent"
