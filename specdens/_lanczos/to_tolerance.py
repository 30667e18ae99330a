"""Lanczos with as many steps and probes as a tolerance or a budget asks for."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from specdens._lanczos.fast import advance_lanczos, lanczos_runner
from specdens._measure.lanczos import SpectralMeasure
from specdens._operators.base import Operator
from specdens._running.executor import ExecutorLike
from specdens._running.monitor import Monitor
from specdens._running.start_vectors import as_block_size
from specdens._validate import as_count

DEFAULT_MAX_PRODUCTS = 2048

_FIRST_STEPS = 12
_GROWTH = 1.25  # how many more steps or probes are tried at a time
_QUANTILE = 1.6  # of the L1 norm of a Brownian bridge: 90 % are below this many means
_STEPS_LEFT = 0.5  # of the change by the second half of the steps: what is left, if the error falls like 1/steps
_KEPT_BYTES = 2**31  # of vectors that are kept so that all probes can be given more steps


class _Errors(NamedTuple):
    """Two parts of the W1 error divided by the width, with 90 % confidence."""

    sampling: float
    steps: float

    @property
    def total(self) -> float:
        return math.hypot(self.sampling, self.steps)


class _Split(NamedTuple):
    """A number of steps and a number of probes."""

    steps: int
    probes: int

    @property
    def products(self) -> int:
        return self.steps * self.probes


def lanczos_to_tolerance(
    A: Operator,
    *,
    tol: float | None,
    max_products: int | None,
    num_steps: int | None,
    num_probes: int | None,
    seed: int,
    monitor: Monitor,
    spent: int = 0,
    executor: ExecutorLike | None = None,
    known_moments: tuple[float, ...] | None = None,
) -> tuple[SpectralMeasure, str]:
    """Return a measure whose W1 error is below `tol` of the width with 90 % confidence, and a sentence on how it ended.

    The run begins small. The errors due to the number of probes and due to the number of steps are estimated, and the
    one that falls more per product is reduced, until the tolerance is reached or the budget spent.

    Parameters
    ----------
    A
        The operator.
    tol
        The error to reach; None to spend the budget.
    max_products
        The budget, 2048 by default: all products, those that were `spent` before and one for a check included.
    num_steps, num_probes
        Where to begin; by default 12 steps of one probe.
    seed
        The seed of the probes.
    monitor
        Progress and checkpoints.
    spent
        The number of products that were made before.
    executor
        Where to run the blocks of probes; see `fast_lanczos`.
    known_moments
        Exact moments of the spectrum, which reduce the sampling error.
    """
    budget = as_count("max_products", DEFAULT_MAX_PRODUCTS if max_products is None else max_products)
    first = _Split(min(num_steps or _FIRST_STEPS, A.bulk_dimension), num_probes or 1)
    left = budget - spent - 1  # one for the check
    if left < first.probes:
        raise ValueError(
            f"`max_products` must allow {spent + first.probes + 1}, one step of every probe and a check; got {budget}"
        )
    split = _Split(min(first.steps, left // first.probes), first.probes)
    started = time.perf_counter()
    with lanczos_runner(
        A, monitor, num_steps=split.steps, num_probes=split.probes, total=budget - spent, probes="gaussian", seed=seed,
        block_size=as_block_size(A, None, executor), keep_vectors=True, executor=executor,
    ) as runner:  # fmt: skip
        advance = partial(advance_lanczos, runner, kind="gaussian", seed=seed, started=started, repeat_first=False)
        while True:
            measure = replace(advance(*split), known_moments=known_moments)
            errors = _estimate(measure)
            has_ended = measure.num_steps < split.steps
            if errors.total == 0 or (tol is not None and errors.total <= tol):
                break
            if runner.keep_vectors and not _fit(A, split.probes):
                runner.forget_vectors()
            longest = split.steps if has_ended or not runner.keep_vectors else A.bulk_dimension
            larger = _next_split(split, errors, tol, left, longest)
            if larger is None:
                break
            split = larger
        if measure.num_products + spent < budget:
            runner.repeat_first_product()
            measure = replace(measure, num_products=runner.num_products)
    return measure, _describe(errors, tol, measure.num_products + spent, budget, split)


def _estimate(measure: SpectralMeasure) -> _Errors:
    convergence = measure.convergence()
    return _Errors(_QUANTILE * convergence.sampling, _STEPS_LEFT * convergence.steps)


def _fit(A: Operator, num_probes: int) -> bool:
    return bool(2 * num_probes * A.shape[0] * A.vectors.itemsize <= _KEPT_BYTES)


def _next_split(now: _Split, errors: _Errors, tol: float | None, left: int, longest: int) -> _Split | None:
    """Return the larger split that reduces the error most per product, or None if the budget allows none."""
    steps = min(_grown(now.steps, errors.steps, errors.sampling, tol, power=1.0), longest, left // now.probes)
    probes = min(_grown(now.probes, errors.sampling, errors.steps, tol, power=2.0), left // now.steps)
    choices = [_Split(steps, now.probes), _Split(now.steps, probes)]
    gains = [
        (errors.total - _predicted(now, choice, errors)) / (choice.products - now.products)
        for choice in choices
        if choice.products > now.products
    ]
    choices = [choice for choice in choices if choice.products > now.products]
    return choices[gains.index(max(gains))] if choices and max(gains) > 0 else None


def _grown(number: int, mine: float, other: float, tol: float | None, *, power: float) -> int:
    """Return the next number of steps or probes: what the tolerance needs, at most a quarter more, and one."""
    wanted = math.inf
    if tol is not None and tol > other:
        wanted = number * (mine / math.sqrt(tol**2 - other**2)) ** power
    return math.ceil(min(max(wanted, number + 1), _GROWTH * number + 1))


def _predicted(now: _Split, then: _Split, errors: _Errors) -> float:
    return math.hypot(errors.steps * now.steps / then.steps, errors.sampling * math.sqrt(now.probes / then.probes))


def _describe(errors: _Errors, tol: float | None, spent: int, budget: int, split: _Split) -> str:
    message = (
        f"error below {errors.total:.2g} of the width with 90 % confidence "
        f"(steps {errors.steps:.1g}, sampling {errors.sampling:.1g}), {split.probes} probes of {split.steps} steps"
    )
    if tol is None:
        return f"{message}: {spent} of {budget} products were spent"
    if errors.total <= tol:
        return f"{message}: tol = {tol:g} reached in {spent} of {budget} products"
    limit = "more steps" if errors.steps > errors.sampling else "more probes"
    return f"{message}: tol = {tol:g} not reached; {spent} of {budget} products were spent, {limit} would help most"
