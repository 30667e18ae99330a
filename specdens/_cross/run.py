"""Runs that measure between two vectors, or weighted by an operator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from specdens._cross.measure import CrossMeasure
from specdens._cross.recurrence import CrossRecurrence
from specdens._lanczos.fast import steps_within
from specdens._measure.lanczos import SpectralMeasure
from specdens._operators.base import Operator
from specdens._operators.complexified import Complexified, with_vectors_of
from specdens._operators.convert import as_operator
from specdens._running.block_runner import BlockRunner
from specdens._running.monitor import Monitor
from specdens._running.start_vectors import as_block_size, as_probes, start_block
from specdens._validate import as_seed
from specdens._vectors.base import Array

DEFAULT_STEPS = 256
"""Twice those of a density: k steps between two vectors are exact up to degree k − 1 alone."""


def cross_measure(A: Any, left: Any, right: Any, *, num_steps: int | None = None, check: bool = True) -> CrossMeasure:
    """Measure between two vectors: ⟨a|δ(λ − A)|b⟩, from one Lanczos run.

    The run starts at b and records one inner product with a per step. It holds four vectors. Real operators take
    complex vectors.

    Parameters
    ----------
    A : operator
        A real symmetric or complex Hermitian operator: anything that `as_operator` takes.
    left, right : array_like
        The vectors a and b, of shape (n,). They are not normalised: the integral of the measure is ⟨a|b⟩.
    num_steps : int, optional
        The number of products; by default 256, or the dimension if that is less.
    check : bool, default True
        Whether to check that the operator is deterministic and Hermitian, as in `fast_lanczos`.

    Returns
    -------
    CrossMeasure
        The measure, real or complex, without sampling error.

    Raises
    ------
    ValueError
        If a vector has another shape, is not finite or is zero, or if part of the operator's spectrum is deflated.

    Examples
    --------
    The current from site 3 to site 4 of a ring with a flux, per unit of energy:

    >>> import numpy as np, specdens as sd
    >>> hop = np.exp(0.5j) * np.roll(np.eye(40), 1, axis=0)
    >>> measure = sd.cross_measure(hop + hop.conj().T, np.eye(40)[3], np.eye(40)[4])
    >>> density = measure.density()
    >>> density.values.dtype, bool(abs(density.integral()) < 1e-12)
    (dtype('complex128'), True)
    """
    started = time.perf_counter()
    A = _whole(as_operator(A))
    A = with_vectors_of(with_vectors_of(A, left), right)
    a, b = (_column(A, name, x) for name, x in (("left", left), ("right", right)))
    norm = float(A.vectors.to_host(A.vectors.norm(b[:, 0])))
    steps = steps_within(A, num_steps, default=DEFAULT_STEPS)
    begin = partial(_begin_cross, A, a, b)
    return _run(
        A, begin, steps, 1, kind="given", seed=0, block_size=1, check=check, factor=norm, form="⟨a|δ(λ − A)|b⟩",
        started=started, monitor=None,
    )  # fmt: skip


def weighted_measure(
    A: Any,
    weight: Any,
    *,
    num_steps: int | None = None,
    num_probes: int = 8,
    seed: int = 0,
    block_size: int | None = None,
    probes: str = "gaussian",
    check: bool = True,
    monitor: Monitor | None = None,
) -> CrossMeasure:
    """Measure tr B δ(λ − A): the density of A weighted by a Hermitian operator B, such as a current or a projector.

    Every probe makes two products with B beforehand, then one product with A per step, and holds five vectors.

    Parameters
    ----------
    A : operator
        A real symmetric or complex Hermitian operator: anything that `as_operator` takes.
    weight : operator or vector
        B, real symmetric or complex Hermitian, of the same shape. A NumPy vector stands for a diagonal matrix.
    num_steps : int, optional
        The number of products per probe; by default 256, or the dimension if that is less.
    num_probes : int, default 8
        The number of random start vectors; the sampling error falls with its root.
    seed, block_size, probes, check
        As for `fast_lanczos`; probes are random.
    monitor : Monitor, optional
        Progress; checkpoints are not written.

    Returns
    -------
    CrossMeasure
        The measure, real and of either sign, with its sampling error.

    Raises
    ------
    ValueError
        If the shapes differ, B is not Hermitian, or part of the operator's spectrum is deflated.

    Examples
    --------
    The density of states on every second site of a chain with two kinds of atoms:

    >>> import numpy as np, specdens as sd
    >>> n = 400
    >>> A = np.diag(np.tile([-1.0, 1.0], n // 2)) + np.eye(n, k=1) + np.eye(n, k=-1)
    >>> measure = sd.weighted_measure(A, np.diag(np.tile([1.0, 0.0], n // 2)))
    >>> lower, upper = measure.weight(-3, 0), measure.weight(0, 3)
    >>> lower.value > 2 * upper.value, bool(abs(measure.total().value - 200) < 2 * measure.total().stderr)
    (True, True)
    """
    started = time.perf_counter()
    A = _whole(as_operator(A))
    if isinstance(weight, np.ndarray) and weight.ndim == 1:
        weight = scipy.sparse.diags_array(weight.astype(_precision(weight, A)), format="csr")
    B = as_operator(weight)
    if A.vectors.is_complex and not B.vectors.is_complex:
        B = Complexified(B)
    elif B.vectors.is_complex and not A.vectors.is_complex:
        A = Complexified(A)
    if B.shape != A.shape or B.vectors.name != A.vectors.name or B.vectors.xp is not A.vectors.xp:
        raise ValueError(f"`weight` must act on the vectors of A, which is {A!r}; got {B!r}")
    if monitor is not None and monitor.file is not None:
        raise ValueError("`monitor` must come without a checkpoint for weighted measures")
    if not isinstance(probes, str):
        raise TypeError("`probes` must be gaussian or rademacher; for given vectors see cross_measure")
    kind, num_probes = as_probes(A, probes, num_probes)
    seed = as_seed(seed)
    steps = steps_within(A, num_steps, default=DEFAULT_STEPS)
    return _run(
        A, partial(_begin_weighted, A, B, probes, seed), steps, num_probes, kind=kind, seed=seed,
        block_size=as_block_size(A, block_size), check=check, factor=float(A.dimension), form="tr B δ(λ − A)",
        started=started, monitor=monitor,
    )  # fmt: skip


def _run(
    A: Operator,
    begin: Callable[[tuple[int, ...]], CrossRecurrence],
    num_steps: int,
    num_probes: int,
    *,
    kind: str,
    seed: int,
    block_size: int,
    check: bool,
    factor: float,
    form: str,
    started: float,
    monitor: Monitor | None,
) -> CrossMeasure:
    """Run all probes, and collect their coefficients and inner products."""
    settings = {"num_steps": num_steps, "num_probes": num_probes, "seed": seed, "block_size": block_size}
    with (monitor or Monitor()).stage("cross_measure", A, settings, total=num_steps * num_probes) as stage:
        runner = BlockRunner(
            A, CrossRecurrence, begin, block_size=block_size, stage=stage, recurrences=(), check=check
        )  # fmt: skip
        runner.advance(num_steps, num_probes)
    recurrences = runner.recurrences
    run = SpectralMeasure.from_recurrences(
        A, recurrences, method="fast_lanczos", probes=kind, seed=seed, block_size=block_size,
        num_products=runner.num_products, seconds=time.perf_counter() - started, notes=stage.notes,
    )  # fmt: skip
    # per vector a, and per probe
    first, *second = (
        tuple(_as_row(A, row) for each in recurrences for row in each.overlaps[i])
        for i in range(len(recurrences[0].lefts))
    )
    return CrossMeasure(replace(run, recurrences=()), first, second[0] if second else (), factor, form)


def _as_row(A: Operator, row: list[complex]) -> Any:
    values = np.array(row, dtype=np.complex128)
    return values if A.vectors.is_complex else values.real.copy()


def _begin_cross(A: Operator, a: Array, b: Array, indices: tuple[int, ...]) -> CrossRecurrence:
    return CrossRecurrence.start(A, indices, A.vectors.copy(b)).attach([a[:, 0]])


def _begin_weighted(A: Operator, B: Operator, probes: str, seed: int, indices: tuple[int, ...]) -> CrossRecurrence:
    recurrence = CrossRecurrence.start(A, indices, start_block(A, probes, indices, seed))
    once = B @ recurrence.v
    twice = B @ A.vectors.copy(once)
    _check_hermitian(B, recurrence.v, once, twice)
    return recurrence.attach([once, twice])


def _check_hermitian(B: Operator, v: Array, once: Array, twice: Array) -> None:
    """Compare ⟨v, B²v⟩ with ‖Bv‖²: equal for a Hermitian B, and far apart at any n for others."""
    seen, expected = (np.atleast_1d(B.vectors.to_host(B.vectors.dot(*pair))) for pair in ((v, twice), (once, once)))
    if not np.all(np.isfinite(expected)):
        raise ValueError("`weight` must have finite products; got nan or inf")
    if np.any(np.abs(seen - expected) > np.sqrt(B.vectors.eps) * np.abs(expected)):
        raise ValueError(
            f"`weight` must be Hermitian: ⟨v, B²v⟩ = {seen[0]:.4g} but ‖Bv‖² = {expected[0].real:.4g}. "
            "Take (B + Bᴴ)/2, and (B − Bᴴ)/2i for the rest."
        )


def _whole(A: Operator) -> Operator:
    if A.bulk_dimension != A.dimension:
        raise ValueError(
            f"`A` must be the operator itself; of {A!r} a part of dimension {A.dimension - A.bulk_dimension} is known "
            "or deflated, without its vectors"
        )
    return A


def _column(A: Operator, name: str, x: Any) -> Array:
    """Return a given vector as a new column in the operator's dtype."""
    host = np.asarray(x) if not hasattr(x, "ndim") or isinstance(x, np.ndarray) else A.vectors.to_host(x)
    if host.shape != (A.shape[0],):
        raise ValueError(f"`{name}` must have shape ({A.shape[0]},); got {host.shape}")
    norm = float(np.linalg.norm(host))
    if not np.isfinite(norm) or norm == 0:
        raise ValueError(f"`{name}` must be finite and not zero; got a vector of norm {norm}")
    return A.vectors.from_host(host[:, None])


def _precision(weight: NDArray[Any], A: Operator) -> str:
    """Return the dtype of a diagonal weight: complex or real as it is, in the precision of A."""
    real = "float32" if A.vectors.name in ("float32", "complex64") else "float64"
    return np.result_type(real, "complex64").name if np.iscomplexobj(weight) else real
