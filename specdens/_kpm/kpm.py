"""The kernel polynomial method: Chebyshev moments, two per product [Weiße et al. 2006]."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval, as_interval
from specdens._kpm.recurrence import ChebyshevRecurrence, LeftBounds
from specdens._lanczos.bounds import known_to_contain
from specdens._lanczos.fast import fast_lanczos
from specdens._measure.chebyshev_moments import ChebyshevMoments
from specdens._operators.base import Operator
from specdens._operators.complexified import Complexified, with_vectors_of
from specdens._operators.convert import as_operator
from specdens._running.block_runner import BlockRunner
from specdens._running.executor import ExecutorLike, as_executor
from specdens._running.monitor import Monitor, Stage
from specdens._running.start_vectors import as_block_size, as_probes, describe_probes, start_block
from specdens._validate import as_count, as_seed

# Automatic bounds: the products of the Lanczos run, twice as many at every new attempt, and the room on either side.
_BOUNDS_STEPS = (32, 64, 128)
_BOUNDS_MARGIN = 0.05
_ROUNDING_ROOM = 8.0  # eps beyond given bounds, so that an eigenvalue at their very end stays inside


def kpm(
    A: Any,
    *,
    num_moments: int = 256,
    num_probes: int = 1,
    seed: int = 0,
    bounds: Any = None,
    block_size: int | None = None,
    probes: Any = "gaussian",
    check: bool = True,
    keep_vectors: bool = False,
    monitor: Monitor | None = None,
    executor: ExecutorLike | None = None,
) -> ChebyshevMoments:
    """Compute Chebyshev moments of the spectral measure, two per product.

    Probes advance in lockstep, `block_size` at a time, and hold three vectors each, the product included.

    Parameters
    ----------
    A : OperatorLike
        A real symmetric or complex Hermitian operator: anything that `as_operator` takes.
    num_moments : int, default 256
        The number of moments, μ_0 included; num_moments/2 products per probe.
    num_probes, seed, block_size, probes
        As for `fast_lanczos`; the same seed gives the same probes.
    bounds : (float, float), optional
        (lo, hi), which must contain the spectrum outside the known atoms. By default from 32 Lanczos steps, with a
        margin; where the moments show that an eigenvalue was missed, from more steps, and the moments are made anew.
    check : bool, default True
        Whether to check on the way that the operator is deterministic (one further product) and Hermitian (none).
    keep_vectors : bool, default False
        Whether the result keeps the last two vectors of every probe, so that `extend` can add moments.
    monitor, executor
        Progress and checkpoints, and where to run the blocks of probes, as for `fast_lanczos`.

    Returns
    -------
    ChebyshevMoments
        The moments of every probe, with the same readings as a `SpectralMeasure`.

    Raises
    ------
    ValueError
        If the spectrum leaves the given bounds, which shows within the run: the moments belong to no measure.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> moments = sd.kpm(np.diag(np.linspace(-1, 1, 1000)), num_moments=100, bounds=(-1, 1))
    >>> moments
    ChebyshevMoments(dimension=1000, probes=1 gaussian, moments=100 on [-1, 1], products=52, float64)
    >>> value, stderr = moments.trace(np.exp)
    >>> bool(abs(value - np.exp(np.linspace(-1, 1, 1000)).sum()) < 2 * stderr)
    True
    """
    started = time.perf_counter()
    A = with_vectors_of(as_operator(A), probes)
    seed = as_seed(seed)
    num_moments = as_count("num_moments", num_moments, minimum=2)
    given = None if bounds is None else _with_room(as_interval("bounds", bounds), A.vectors.eps)
    kind, num_probes = as_probes(A, probes, num_probes)
    executor = as_executor(executor, A)
    block_size = as_block_size(A, block_size, executor)
    settings = {
        "num_moments": num_moments,
        "num_probes": num_probes,
        "probes": describe_probes(A, probes),
        "seed": seed,
    }
    settings |= {"block_size": block_size, "bounds": None if given is None else list(given)}
    total = num_moments // 2 * num_probes
    with (monitor or Monitor()).stage("kpm", A, settings, total=total) as stage:
        resumes = any(name.endswith("/indices") for name in stage.saved)
        attempt = _Attempt(
            A, probes, seed, block_size, stage, resumes=resumes, executor=executor, keep_vectors=keep_vectors
        )
        if given is not None:
            mus = _run_within(given, attempt, num_moments, num_probes, check=check)
        else:
            mus = _run_automatic(attempt, num_moments, num_probes, check=check)
    return ChebyshevMoments(
        mus=mus, interval=attempt.interval, dimension=A.dimension, bulk_dimension=A.bulk_dimension,
        known_atoms=A.known_atoms, dtype=A.vectors.name, probes=kind, seed=seed, block_size=block_size,
        num_products=attempt.num_products, seconds=time.perf_counter() - started, notes=stage.notes,
        recurrences=attempt.recurrences if keep_vectors else (),
    )  # fmt: skip


def extend_moments(
    measure: ChebyshevMoments, A: Any, *, num_moments: int | None, num_probes: int | None, keep_vectors: bool
) -> ChebyshevMoments:
    """Return the moments with more of them or more probes, in the same interval; see `extend`."""
    A, started = as_operator(A), time.perf_counter() - measure.seconds
    A = Complexified(A) if measure.dtype.startswith("complex") and not A.vectors.is_complex else A
    before = measure.num_moments, measure.num_probes
    num_moments, num_probes = (
        as_count(name, least if value is None else value, minimum=least)
        for name, value, least in zip(("num_moments", "num_probes"), (num_moments, num_probes), before, strict=True)
    )
    _check_extension(measure, A, num_moments, num_probes)
    # probes that are finished, of a result without its recurrences, keep their place
    finished = ChebyshevRecurrence(
        indices=tuple(range(measure.num_probes)), interval=measure.interval, mus=measure.mus, v=None,
        squared_norms=np.ones(measure.num_probes), num_steps=num_moments // 2,
    )  # fmt: skip
    blocks = [each.copy() for each in measure.recurrences] or [finished]
    spent = sum(each.num_products for each in blocks)
    settings = {"num_moments": num_moments, "num_probes": num_probes, "seed": measure.seed}
    with Monitor(progress=False).stage("kpm", A, settings, total=None) as stage:
        runner = BlockRunner(
            A, ChebyshevRecurrence, partial(_begin, A, measure.probes, measure.seed, measure.interval),
            block_size=measure.block_size, stage=stage, recurrences=blocks, check=False, keep_vectors=True,
        )  # fmt: skip
        try:
            runner.advance(num_moments // 2, num_probes)
            mus = np.concatenate([each.checked_moments(A, num_moments) for each in runner.recurrences])
        except LeftBounds as left:
            raise ValueError(
                f"the spectrum leaves the interval of these moments: {left}. Call kpm anew, which finds a wider one."
            ) from None
    return replace(
        measure,
        mus=mus,
        num_products=measure.num_products + runner.num_products - spent,
        seconds=time.perf_counter() - started,
        recurrences=tuple(runner.recurrences) if keep_vectors and measure.recurrences else (),
    )


def _check_extension(measure: ChebyshevMoments, A: Operator, num_moments: int, num_probes: int) -> None:
    if A.dimension != measure.dimension or A.vectors.name != measure.dtype:
        raise ValueError(
            f"`A` must be the operator of the moments (dimension {measure.dimension}, {measure.dtype}); got {A!r}"
        )
    has_vectors = bool(measure.recurrences) and all(each.has_vectors for each in measure.recurrences)
    if num_moments > measure.num_moments and not has_vectors:
        raise ValueError("more moments need the vectors of the run: call kpm with keep_vectors=True")
    if num_probes > measure.num_probes and measure.probes == "given":
        raise ValueError("`num_probes` cannot grow for given start vectors: run the new ones on their own")


@dataclass
class _Attempt:
    """The moments within one interval, and what earlier intervals have cost."""

    A: Operator
    probes: Any
    seed: int
    block_size: int
    stage: Stage
    resumes: bool
    """Whether to continue from what the stage has saved."""
    executor: ExecutorLike | None = None
    interval: Interval = field(default_factory=lambda: Interval(-1.0, 1.0))
    num_products: int = 0
    keep_vectors: bool = False
    recurrences: tuple[ChebyshevRecurrence, ...] = ()

    def moments(self, interval: Interval | None, num_moments: int, num_probes: int, *, check: bool) -> Floats:
        """Return the moments of all probes within an interval, or within that of the checkpoint (None)."""
        if interval is not None:
            self.interval = interval
        runner = BlockRunner(
            self.A,
            ChebyshevRecurrence,
            partial(_begin, self.A, self.probes, self.seed, self.interval),
            block_size=self.block_size,
            stage=self.stage,
            recurrences=None if self.resumes else (),
            check=check,
            executor=self.executor,
            keep_vectors=self.keep_vectors,
        )
        if interval is None:
            self.interval = runner.recurrences[0].interval
            runner.begin = partial(_begin, self.A, self.probes, self.seed, self.interval)
        self.resumes = False  # another interval begins anew
        try:
            runner.advance(num_moments // 2, num_probes)
            recurrences = [each for each in runner.recurrences if each.indices[0] < num_probes]
            rows = [each.checked_moments(self.A, num_moments) for each in recurrences]
            self.recurrences = tuple(recurrences)
        finally:
            self.num_products += runner.num_products
        return np.concatenate(rows)[:num_probes] if rows else np.empty((0, num_moments))


def _begin(A: Operator, probes: Any, seed: int, interval: Interval, indices: tuple[int, ...]) -> ChebyshevRecurrence:
    return ChebyshevRecurrence.start(A, indices, start_block(A, probes, indices, seed), interval)


def _run_within(interval: Interval, attempt: _Attempt, num_moments: int, num_probes: int, *, check: bool) -> Floats:
    try:
        return attempt.moments(interval, num_moments, num_probes, check=check)
    except LeftBounds as left:
        raise ValueError(
            f"`bounds` must contain the spectrum; got ({interval.lo:.6g}, {interval.hi:.6g}), but {left}. Leave "
            "them out, or take those of spectral_bounds."
        ) from None


def _run_automatic(attempt: _Attempt, num_moments: int, num_probes: int, *, check: bool) -> Floats:
    """Run within bounds from Lanczos steps, and again within wider ones as long as the moments leave them."""
    A, interval, evidence = attempt.A, None, ""
    for num_steps in _BOUNDS_STEPS:
        if not attempt.resumes:
            steps = min(num_steps, A.bulk_dimension) or None  # nothing to do where all is known
            quiet = Monitor(progress=False)
            measure = fast_lanczos(A, num_steps=steps, seed=attempt.seed, check=check, monitor=quiet)
            attempt.num_products += measure.num_products
            found = _with_known(A, measure.bounds(margin=_BOUNDS_MARGIN))
            known = known_to_contain(measure, found, A.known_bounds)
            if interval is None and known != found:
                found = _with_room(known, A.vectors.eps)
            interval = _wider(interval, found)
            check = False
        try:
            return attempt.moments(interval, num_moments, num_probes, check=False)
        except LeftBounds as left:
            interval, evidence = attempt.interval, str(left)
    raise ValueError(
        f"no bounds were found that contain the spectrum: within {interval} of {_BOUNDS_STEPS[-1]} Lanczos steps "
        f"{evidence}. Give `bounds` that do."
    )


def _with_known(A: Operator, found: Interval) -> Interval:
    """Return the interval with room for what rounding of known eigenvalues leaves in a bulk that is much smaller."""
    known = float(np.max(np.abs(A.known_atoms.positions), initial=0.0))
    room = max(0.0, np.sqrt(A.vectors.eps) * known - found.width / 2)
    return Interval(found.lo - room, found.hi + room)


def _wider(before: Interval | None, found: Interval) -> Interval:
    """Return the interval that was found, and one wider than that before, which the spectrum has left."""
    if before is None:
        return found
    wider = before.widened(2 * _BOUNDS_MARGIN)
    return Interval(min(wider.lo, found.lo), max(wider.hi, found.hi))


def _with_room(interval: Interval, eps: float) -> Interval:
    room = _ROUNDING_ROOM * eps * max(abs(interval.lo), abs(interval.hi))
    return Interval(interval.lo - room, interval.hi + room)
