"""The front door: the paper's pipeline in one call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any, Literal

from numpy.typing import ArrayLike

from specdens._density.density import Density
from specdens._density_request import DensityRequest
from specdens._distributions.cdf import Floats
from specdens._eigenpairs.top import top_eigenpairs
from specdens._measure.base import Measure
from specdens._measure.known_moments import as_moments
from specdens._operators.base import CheaperForm, Operator
from specdens._operators.convert import as_operator
from specdens._operators.deflation import deflate
from specdens._operators.entry_moments import entry_moments
from specdens._running.agreement import check_same_call
from specdens._running.executor import ExecutorLike, as_executor
from specdens._running.monitor import Monitor
from specdens._running.progress import Progress

_log = logging.getLogger("specdens")


def spectral_density(
    A: Any,
    *,
    method: Literal["fast_lanczos", "slow_lanczos", "kpm"] | None = None,
    num_steps: int | None = None,
    num_probes: int | None = None,
    rank: int = 0,
    function: Literal["log"] | Callable[[Floats], ArrayLike] | None = None,
    tol: float | None = None,
    max_products: int | None = None,
    seed: int = 0,
    probes: Any = None,
    energy_resolution: float | None = None,
    known_moments: ArrayLike | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_interval: float = 60.0,
    progress: bool | Callable[[Progress], None] | None = None,
    executor: ExecutorLike | None = None,
) -> Density:
    """Return the density of the eigenvalues of A.

    Parameters
    ----------
    A : array_like, sparse array, LinearOperator or anything that `as_operator` takes
        A real symmetric or complex Hermitian operator.
    method : {None, "fast_lanczos", "slow_lanczos", "kpm"}, optional
        "fast_lanczos" holds three vectors per probe, "slow_lanczos" reorthogonalises fully, "kpm" takes Chebyshev
        moments. By default all eigenvalues are computed where that is cheap, else "fast_lanczos" runs: see the notes.
    num_steps : int, optional
        The number of products per probe; by default 128, or 2048 for ``function="log"``. More than eigenvalues are cut
        to their number, with a note.
    num_probes : int, optional
        The number of random start vectors; by default 8 for small operators and one from n = 8,000 on, but up to four
        of a CSR matrix whose products are cheap.
    rank : int, default 0
        How many eigenpairs of largest magnitude to find first and to take out: they become atoms of mass 1/n and the
        bulk is drawn on its own scale.
    function : {None, "log"} or callable, optional
        None for the density of A; "log" for that of log(|λ| + 1e-5); or any real function of an array of eigenvalues.
    tol : float, optional
        The error to reach, as the W1 distance to the spectrum divided by its width: steps or probes are added, what
        reduces the error more per product, until it is below `tol` with 90 % confidence. `num_steps` and `num_probes`
        are where to start. For "fast_lanczos".
    max_products : int, optional
        The budget of products, those for eigenpairs and checks included; 2048 by default with `tol`. Without `tol` it
        is spent, on steps and probes as above. The density's notes say what was chosen and what limits the accuracy.
    seed : int, default 0
        The seed of all random vectors.
    probes : array, optional
        Start vectors of shape (n,) or (n, k) instead of random ones, complex ones for a real operator too: the density
        is then their local density of states, ``density.measure[j]`` that of one of them.
    energy_resolution : float, optional
        The resolution to draw at, as the standard deviation of a Gaussian in units of λ; it chooses the number of
        steps, after 32 products that find the width of the spectrum.
    known_moments : array_like, optional
        Exact means of λ, λ², … over the spectrum, up to seven: they correct the weights and shrink the errors, see
        `SpectralMeasure.with_moments`. Dense and CSR matrices give the first two by themselves unless a method is
        asked for.
    checkpoint : str or path, optional
        A file to save the run to, every `checkpoint_interval` seconds. Killed at any moment, the same call continues
        from it and gives the same result bit for bit; more steps or probes extend what it holds.
    checkpoint_interval : float, default 60
        Seconds between two writes, at least; never less than 50 times the duration of the last one.
    progress : bool or callable, optional
        None: a bar on a terminal or in a notebook. True or False: always or never. A function: called with `Progress`.
    executor : Executor or callable, optional
        Where to run the probes: anything that follows ``concurrent.futures.Executor`` (a process pool, dask's
        ``client.get_executor()``, mpi4py's ``MPIPoolExecutor()``), or a function that makes one; see `fast_lanczos`.

    Returns
    -------
    Density
        With its measure, from which any other picture can be drawn without a further product.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range; before the first product.

    Notes
    -----
    Unless a method, steps, probes or a rank are asked for, all eigenvalues are computed where that is cheap: of
    explicit matrices (dense or CSR) of up to 1024 rows, and of other operators where it takes no more products than the
    run would. The density then has no sampling error, and the notes say so.

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
    moments = as_moments(known_moments)
    if moments is None and method is None and probes is None:
        moments = entry_moments(operator)
    request = DensityRequest(
        method, num_steps, num_probes, rank, function, tol, max_products, seed, moments, probes, energy_resolution
    )
    request.check(operator)
    request, remarks = request.within(operator)
    executor = as_executor(executor, operator)
    check_same_call(operator, "spectral_density", {**request.arguments, "checkpoint": checkpoint is not None})
    monitor = Monitor(progress=progress, checkpoint=checkpoint, checkpoint_interval=checkpoint_interval)
    monitor.attach(operator)
    with monitor.run(request.identity):
        form = _cheaper_form(operator, request)
        operator = operator if form is None else form.operator
        pairs = top_eigenpairs(operator, rank=rank, seed=seed, monitor=monitor) if rank else None
        operator = operator if pairs is None else deflate(operator, pairs)
        spent = 0 if pairs is None else pairs.num_products
        measure, notes = request.run(operator, form, monitor, spent=spent, executor=executor)
    outliers = pairs if form is None or pairs is None else form.lift(pairs)
    notes = tuple(dict.fromkeys((*remarks, *notes, *(() if pairs is None else pairs.notes), *measure.notes)))
    return replace(_draw(measure, function, energy_resolution), outliers=outliers, notes=notes)


def _cheaper_form(A: Operator, request: DensityRequest) -> CheaperForm | None:
    """Return a cheaper operator with the same spectrum, if there is one that has `rank` eigenpairs."""
    form = A.cheaper_form() if request.start_vectors is None else None
    if form is None or request.rank > form.operator.bulk_dimension:
        return None
    _log.info("%s", form.note)
    return form


def _draw(
    measure: Measure, function: Literal["log"] | Callable[[Floats], ArrayLike] | None, width: float | None = None
) -> Density:
    if width is not None:
        return measure.density(width=width)
    if function is None:
        return measure.density()
    return measure.density_of(function) if callable(function) else measure.log_density()
