"""Steps and probes until an error is reached, or a budget spent."""

from __future__ import annotations

import math

from specdens._errors import as_count
from specdens._fast_lanczos import LanczosRun
from specdens._measure import SpectralMeasure
from specdens._monitor import Monitor
from specdens._operators import Operator
from specdens._probes import as_block_size

DEFAULT_MAX_PRODUCTS = 2048


def lanczos_to_tolerance(
    A: Operator,
    tol: float,
    max_products: int | None,
    num_steps: int,
    num_probes: int,
    seed: int,
    monitor: Monitor,
) -> tuple[SpectralMeasure, str]:
    """Return a measure whose estimated W1 error, divided by the width, is below `tol`, and a sentence on how it ended.

    First steps are added until half of them would nearly do, with the vectors of the first probes kept; then probes,
    as many as the sampling error asks for.
    """
    budget = as_count("max_products", DEFAULT_MAX_PRODUCTS if max_products is None else max_products)
    if budget < num_probes + 1:
        raise ValueError(
            f"`max_products` must allow {num_probes + 1}, one step of every probe and a check; got {budget}"
        )
    steps, probes = min(num_steps, (budget - 1) // num_probes), num_probes
    run = LanczosRun(A, monitor, probes="gaussian", kind="gaussian", seed=seed, block_size=as_block_size(A, None))
    with run.stage(steps, probes, total=budget, check=True, keep_vectors=True) as blocks:
        measure = run.measure(steps, probes)
        error = measure.convergence()
        while error.steps > tol / 2 and measure.num_steps == steps:
            longer = min(2 * steps, (budget - 1) // probes, A.bulk_dimension)
            if longer <= steps:
                break
            steps = longer
            measure = run.measure(steps, probes)
            error = measure.convergence()
        blocks.forget_vectors()
        while error.steps + error.sampling > tol and error.sampling > 0:
            room = max(tol - error.steps, tol / 2)
            wanted = max(math.ceil(probes * (error.sampling / room) ** 2), probes + 1)
            more = min(wanted, (budget - 1) // steps)
            if more <= probes:
                break
            probes = more
            measure = run.measure(steps, probes)
            error = measure.convergence()
    return measure, _describe(error.steps, error.sampling, tol, measure, budget)


def _describe(steps: float, sampling: float, tol: float, measure: SpectralMeasure, budget: int) -> str:
    said = f"estimated error {steps + sampling:.2g} of the width (steps {steps:.1g}, sampling {sampling:.1g})"
    if steps + sampling <= tol:
        return f"{said}: tol = {tol:g} reached in {measure.num_products} of {budget} products"
    return f"{said}: tol = {tol:g} not reached; {measure.num_products} of {budget} products were spent"
