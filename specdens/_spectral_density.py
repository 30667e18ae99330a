"""The front door: the paper's pipeline in one call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any, Literal

from numpy.typing import ArrayLike

from specdens._adaptive import lanczos_to_tolerance
from specdens._as_operator import as_operator
from specdens._cdf import Floats
from specdens._chebyshev_moments import ChebyshevMoments
from specdens._deflation import deflate
from specdens._density import Density
from specdens._errors import as_choice, as_count, as_positive
from specdens._fast_lanczos import DEFAULT_STEPS, fast_lanczos, steps_within
from specdens._kpm import kpm
from specdens._measure import SpectralMeasure
from specdens._monitor import Monitor, Progress
from specdens._operators import Operator
from specdens._slow_lanczos import slow_lanczos
from specdens._top_eigenpairs import top_eigenpairs

_log = logging.getLogger("specdens")

METHODS = ("fast_lanczos", "slow_lanczos", "kpm")
DEFAULT_LOG_STEPS = 2048


def spectral_density(
    A: Any,
    *,
    method: Literal["fast_lanczos", "slow_lanczos", "kpm"] = "fast_lanczos",
    num_steps: int | None = None,
    num_probes: int = 1,
    rank: int = 0,
    function: Literal["log"] | Callable[[Floats], ArrayLike] | None = None,
    tol: float | None = None,
    max_products: int | None = None,
    seed: int = 0,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_interval: float = 60.0,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Density:
    """Return the density of the eigenvalues of A.

    Parameters
    ----------
    A
        A real symmetric or complex Hermitian operator: anything that `as_operator` takes.
    method
        "fast_lanczos" (three vectors per probe), "slow_lanczos" (full reorthogonalisation) or "kpm".
    num_steps
        The number of products per probe; by default 128, or 2048 for ``function="log"``, or the dimension if less.
    num_probes
        The number of random start vectors.
    rank
        How many eigenpairs of largest magnitude to find first and to take out: they become atoms of mass 1/n and the
        bulk is drawn on its own scale.
    function
        None for the density of A; "log" for that of log(|λ| + 1e-5); or any real function of an array of eigenvalues.
    tol
        The error to reach, as the W1 distance to the spectrum divided by its width: steps, then probes are added
        until the estimated error is below it. `num_steps` and `num_probes` are where to start. For "fast_lanczos".
    max_products
        The budget of products for `tol`, 2048 by default; the density's notes say whether it was spent.
    seed
        The seed of all random vectors.
    checkpoint
        A file to save the run to, every `checkpoint_interval` seconds. Killed at any moment, the same call continues
        from it and gives the same result bit for bit; more steps or probes extend what it holds.
    checkpoint_interval
        Seconds between two writes, at least; never less than 50 times the duration of the last one.
    progress
        None: a bar on a terminal or in a notebook. True or False: always or never. A function: called with `Progress`.

    Returns
    -------
    Density
        With its measure, from which any other picture can be drawn without a further product.

    Notes
    -----
    An operator may know a cheaper one with the same spectrum (`Operator.cheaper_form`: the dual of a Gauss–Newton
    matrix). That is then used, with full reorthogonalisation where its vectors are short, and the density's notes and
    the log (logger "specdens") say so.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.concatenate([[30.0, 20.0], np.linspace(-1, 1, 998)]))
    >>> density = sd.spectral_density(A, rank=2)
    >>> density.atoms.positions.round(6)
    array([20., 30.])
    >>> round(density.mass(), 6)
    1.0
    """
    operator = as_operator(A)
    as_choice("method", method, METHODS)
    as_count("num_probes", num_probes)
    as_count("rank", rank, minimum=0, maximum=operator.bulk_dimension)
    if num_steps is not None and operator.bulk_dimension > rank:
        limit = "the dimension less the rank" if rank else "the dimension"
        as_count("num_steps", num_steps, maximum=operator.bulk_dimension - rank, limit=limit)
    if not (function is None or callable(function) or (isinstance(function, str) and function == "log")):
        raise ValueError(f'`function` must be None, "log" or a function; got {function!r}')
    if tol is not None:
        as_positive("tol", tol)
    if tol is not None and method != "fast_lanczos":
        raise ValueError(f'`tol` needs method="fast_lanczos", whose runs can be extended; got {method!r}')
    if max_products is not None and tol is None:
        raise ValueError("`max_products` must come with `tol`: without it num_steps × num_probes products are made")
    form = operator.cheaper_form()
    if form is not None and rank <= form.operator.bulk_dimension:
        operator = form.operator
        num_steps = None if num_steps is None else min(num_steps, max(1, operator.bulk_dimension - rank))
        _log.info("%s", form.note)
    else:
        form = None
    monitor = Monitor(progress=progress, checkpoint=checkpoint, checkpoint_interval=checkpoint_interval)
    pairs = top_eigenpairs(operator, rank=rank, seed=seed, monitor=monitor) if rank else None
    if pairs is not None:
        operator = deflate(operator, pairs)
    default = DEFAULT_LOG_STEPS if function == "log" and tol is None else DEFAULT_STEPS
    num_steps = steps_within(operator, num_steps, default) if operator.bulk_dimension else 0
    notes: tuple[str, ...] = () if form is None else (form.note,)
    if form is not None and method == "fast_lanczos" and tol is None and num_steps <= form.full_steps:
        method = "slow_lanczos"
    measure: SpectralMeasure | ChebyshevMoments
    if tol is not None:
        measure, note = lanczos_to_tolerance(operator, tol, max_products, num_steps, num_probes, seed, monitor)
        notes += (note,)
    else:
        measure = _measure(operator, method, num_steps, num_probes, seed, monitor)
    outliers = form.lift(pairs) if form is not None and pairs is not None else pairs
    return replace(_draw(measure, function), outliers=outliers, notes=notes)


def _measure(
    A: Operator, method: str, num_steps: int, num_probes: int, seed: int, monitor: Monitor
) -> SpectralMeasure | ChebyshevMoments:
    if method == "kpm":
        return kpm(A, num_moments=2 * max(num_steps, 1), num_probes=num_probes, seed=seed, monitor=monitor)
    run = fast_lanczos if method == "fast_lanczos" else slow_lanczos
    return run(A, num_steps=num_steps or None, num_probes=num_probes, seed=seed, monitor=monitor)


def _draw(measure: SpectralMeasure | ChebyshevMoments, function: Any) -> Density:
    if function is None:
        return measure.density()
    return measure.log_density() if function == "log" else measure.density_of(function)
