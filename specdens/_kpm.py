"""The kernel polynomial method: Chebyshev moments, two per product [Papyan 2019, KPM; Weiße et al. 2006]."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._as_operator import as_operator
from specdens._bounds import Interval, as_interval
from specdens._cdf import Floats
from specdens._chebyshev import leaves_interval
from specdens._chebyshev_moments import ChebyshevMoments
from specdens._combine import Counted
from specdens._errors import as_count
from specdens._fast_lanczos import fast_lanczos
from specdens._lanczos import Recurrence, check_determinism
from specdens._operators import Operator
from specdens._probes import as_block_size, as_probes, start_block
from specdens._vectors import Array

# Automatic bounds: the products of the Lanczos run, twice as many at every new attempt, and the room on either side.
_BOUNDS_STEPS = (32, 64, 128)
_BOUNDS_MARGIN = 0.05
_FIRST_LOOK = 32  # moments after which to look for the first time whether the spectrum leaves the bounds
_ROUNDING_ROOM = 8.0  # eps beyond given bounds, so that an eigenvalue at their very end stays inside


class _LeftBounds(Exception):
    """The moments belong to no measure within the bounds."""


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
) -> ChebyshevMoments:
    """Compute Chebyshev moments of the spectral measure, two per product.

    Probes advance in lockstep, `block_size` at a time, and hold three vectors each, the product included.

    Parameters
    ----------
    A
        A real symmetric or complex Hermitian operator: anything that `as_operator` takes.
    num_moments
        The number of moments, μ_0 included; num_moments/2 products per probe.
    num_probes, seed, block_size, probes
        As for `fast_lanczos`; the same seed gives the same probes.
    bounds
        (lo, hi), which must contain the spectrum outside the known atoms. By default from 32 Lanczos steps, with a
        margin; where the moments show that an eigenvalue was missed, from more steps, and the moments are made anew.
    check
        Whether to check on the way that the operator is deterministic (one further product) and Hermitian (none).

    Raises
    ------
    ValueError
        If the spectrum leaves the given bounds, which shows within the run: the moments belong to no measure.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> moments = sd.kpm(np.diag(np.linspace(-1, 1, 1000)), num_moments=100, bounds=(-1, 1))
    >>> moments
    ChebyshevMoments(dimension=1000, probes=1 gaussian, moments=100 on [-1, 1], products=51, float64)
    >>> value, stderr = moments.trace(np.exp)
    >>> bool(abs(value - np.exp(np.linspace(-1, 1, 1000)).sum()) < 2 * stderr)
    True
    """
    started = time.perf_counter()
    A = Counted(as_operator(A))
    num_moments = as_count("num_moments", num_moments, minimum=2)
    given = None if bounds is None else _with_room(as_interval("bounds", bounds), A.vectors.eps)
    kind, num_probes = as_probes(A, probes, num_probes)
    block_size = as_block_size(A, block_size, num_probes)
    blocks = [tuple(range(j, min(j + block_size, num_probes))) for j in range(0, num_probes, block_size)]
    blocks = blocks if A.bulk_dimension else []

    def run(interval: Interval) -> Floats:
        rows = [
            _moments_of_block(
                A,
                Recurrence.start(A, indices, start_block(A, probes, indices, seed)).v,
                interval,
                num_moments,
                indices,
                check=check and given is not None and indices[0] == 0,
            )
            for indices in blocks
        ]
        return np.concatenate(rows) if rows else np.empty((0, num_moments))

    interval, mus = _run_within(given, run) if given else _run_automatic(A, run, seed, check=check)
    return ChebyshevMoments(
        mus=mus, interval=interval, dimension=A.dimension, bulk_dimension=A.bulk_dimension,
        known_atoms=A.known_atoms, dtype=A.vectors.name, probes=kind, seed=seed, block_size=block_size,
        num_products=A.num_products, seconds=time.perf_counter() - started,
    )  # fmt: skip


def _run_within(interval: Interval, run: Callable[[Interval], Floats]) -> tuple[Interval, Floats]:
    try:
        return interval, run(interval)
    except _LeftBounds as left:
        raise ValueError(
            f"`bounds` must contain the spectrum; got ({interval.lo:.6g}, {interval.hi:.6g}), but {left}. Leave "
            "them out, or take those of spectral_bounds."
        ) from None


def _run_automatic(
    A: Operator, run: Callable[[Interval], Floats], seed: int, *, check: bool
) -> tuple[Interval, Floats]:
    """Run within bounds from Lanczos steps, and again within wider ones as long as the moments leave them."""
    interval: Interval | None = None
    evidence = ""
    for num_steps in _BOUNDS_STEPS:
        steps = min(num_steps, A.bulk_dimension) or None  # nothing to do where all is known
        found = fast_lanczos(A, num_steps=steps, seed=seed, check=check).bounds(margin=_BOUNDS_MARGIN)
        if interval is not None:
            wider = interval.widened(2 * _BOUNDS_MARGIN)
            found = Interval(min(wider.lo, found.lo), max(wider.hi, found.hi))
        interval, check = found, False
        try:
            return interval, run(interval)
        except _LeftBounds as left:
            evidence = str(left)
    raise ValueError(
        f"no bounds were found that contain the spectrum: within {interval} of {_BOUNDS_STEPS[-1]} Lanczos steps "
        f"{evidence}. Give `bounds` that do."
    )


def _moments_of_block(
    A: Operator, v: Array, interval: Interval, num_moments: int, indices: tuple[int, ...], *, check: bool
) -> Floats:
    """Return the moments of a block of probes, of unit norm: one product and one wait for the device per step."""
    vectors = A.vectors
    # rounding in A − c is relative to A: it counts for more where the interval is far from zero
    eps = vectors.eps * max(abs(interval.lo), abs(interval.hi)) / (interval.width / 2)
    table = _Table(indices, num_moments, vectors.to_host(vectors.dot(v, v)), eps)
    v_prev = None
    for step in range(1, num_moments // 2 + 1):
        w = A.apply_within(v)
        if check and step == 1:
            w = check_determinism(A, v, w)
        w, odd = _next_vector(A, interval, v_prev, v, w)
        table.record(step, vectors.to_host(vectors.xp.stack([odd, vectors.dot(w, w)])), check=check)
        if check and step == 2:
            table.check_symmetry(vectors.to_host(vectors.dot(v_prev, w)))
        v_prev, v = v, w
    return table.finished()


def _next_vector(A: Operator, interval: Interval, v_prev: Array | None, v: Array, w: Array) -> tuple[Array, Array]:
    """Turn w = A v into (2/d)(A v − c v) − v_prev, in place, or into half of it at first; return it and ⟨v, it⟩."""
    vectors, half = A.vectors, interval.width / 2
    factor = (1.0 if v_prev is None else 2.0) / half
    w = vectors.scale(_number(A, factor), w)
    shift = _number(A, -factor * interval.center)
    if v_prev is None:
        w, odd = vectors.axpy_dot(shift, v, w, v)
    else:
        w = vectors.axpy(shift, v, w) if interval.center != 0 else w
        w, odd = vectors.axpy_dot(_number(A, -1.0), v_prev, w, v)
    if A.bulk_dimension < A.shape[0] and not interval.lo < 0 < interval.hi:
        # Rounding leaves traces in the deflated subspace, on which the operator acts as zero: where zero is outside
        # the interval, the recurrence would amplify them.
        w = A.project(w)
        odd = vectors.dot(v, w)
    return w, odd


class _Table:
    """The moments of a block of probes as they come in, watched."""

    def __init__(self, indices: tuple[int, ...], num_moments: int, squared_norms: NDArray[Any], eps: float) -> None:
        self.indices, self.num_moments, self.eps = indices, num_moments, eps
        self.tolerance = float(np.sqrt(eps))
        self.squared_norms = np.atleast_1d(squared_norms).real  # 1, to the rounding of the vectors
        self.mus = np.ones((len(indices), 2 * (num_moments // 2) + 1))
        self.next_look = _FIRST_LOOK

    def record(self, step: int, scalars: NDArray[Any], *, check: bool) -> None:
        """Take ⟨r_{j−1}, r_j⟩ and ⟨r_j, r_j⟩ of step j."""
        odd, even = (np.atleast_1d(row) / self.squared_norms for row in scalars)
        for j in np.flatnonzero(~(np.isfinite(odd) & np.isfinite(even))):
            raise ValueError(
                f"A @ x returned {'nan' if np.isnan(odd[j]) else 'inf'} at step {step} of probe {self.indices[j]}: the "
                "operator, or the model behind it, is not finite."
            )
        size = np.sqrt(1.0 + even.real)
        for j in np.flatnonzero(check & (np.abs(odd.imag) > self.tolerance * size)):
            raise ValueError(
                f"the operator is not Hermitian: ⟨v, Av⟩ = {odd[j]:.3g} is not real "
                f"(step {step} of probe {self.indices[j]})."
            )
        # T_m T_n = (T_{m+n} + T_{m−n}) / 2
        self.mus[:, 2 * step - 1] = odd.real if step == 1 else 2 * odd.real - self.mus[:, 1]
        self.mus[:, 2 * step] = 2 * even.real - 1
        self._look(2 * step + 1)

    def check_symmetry(self, seen: NDArray[Any]) -> None:
        """Compare μ_2 = ⟨r_0, r_2⟩ with 2⟨r_1, r_1⟩ − 1: far apart at any n unless the operator is symmetric."""
        seen = np.atleast_1d(seen) / self.squared_norms
        expected = self.mus[:, 2]
        for j in np.flatnonzero(np.abs(seen - expected) > self.tolerance * (2 + np.abs(expected))):
            raise ValueError(
                f"the operator is not symmetric: ⟨r₀, r₂⟩ = {seen[j]:.3g} but 2⟨r₁, r₁⟩ − 1 = {expected[j]:.3g} for "
                "the Chebyshev vectors r. Dropout or batch statistics make products random; put the model in eval mode."
            )

    def finished(self) -> Floats:
        """Return all moments, after a last look at them."""
        self._look(self.num_moments, last=True)
        return self.mus[:, : self.num_moments]

    def _look(self, known: int, *, last: bool = False) -> None:
        """Raise if the spectrum leaves the interval: at once in gross cases, else when the moments have doubled."""
        mus = self.mus[:, :known]
        gross = np.max(np.abs(mus[:, -2:]), axis=1)
        for j in np.flatnonzero(gross > 2):
            raise _LeftBounds(f"|μ| = {gross[j]:.3g} > 1 at moment {known - 1} of probe {self.indices[j]}")
        if known >= self.next_look or last:
            self.next_look = 2 * known
            for j in np.flatnonzero(leaves_interval(mus, eps=self.eps)):
                raise _LeftBounds(f"the first {known} moments of probe {self.indices[j]} belong to no measure on them")


def _with_room(interval: Interval, eps: float) -> Interval:
    room = _ROUNDING_ROOM * eps * max(abs(interval.lo), abs(interval.hi))
    return Interval(interval.lo - room, interval.hi + room)


def _number(A: Operator, value: float) -> Array:
    return A.vectors.from_host(np.asarray(value), A.vectors.wide)
