"""The outermost eigenpairs of an operator, by a thick-restart Lanczos method that also finds multiple eigenvalues."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._eigenpairs.forecast import is_hopeless
from specdens._eigenpairs.krylov_basis import KrylovBasis
from specdens._eigenpairs.multiplicity_trial import shows_a_copy, trial_length
from specdens._eigenpairs.result import EigenPairs, Floats, denominators, preference, warn_unconverged
from specdens._operators.base import Operator
from specdens._operators.convert import as_operator
from specdens._running.monitor import Monitor, Snapshot, Stage
from specdens._validate import as_choice, as_count, as_positive, as_seed

_WHICH = ("magnitude", "largest", "smallest", "both")

# Of the room beside the wanted pairs, at a restart: from 0.3 to 0.6 all do as well (benchmarks/top_eigenpairs.py).
_KEPT = 0.4


def top_eigenpairs(
    A: Any,
    *,
    rank: int,
    which: str = "magnitude",
    tol: float | None = None,
    max_products: int | None = None,
    basis_size: int | None = None,
    trial: bool = True,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> EigenPairs:
    r"""Return the eigenpairs at the ends of the spectrum, with as few products as possible.

    Thick-restart Lanczos with full reorthogonalisation [Wu & Simon 2000], one product at a time, in the array library
    and on the device of A. Where `subspace_iteration` needs hundreds of products for ten outliers this needs about
    three per pair.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes; real symmetric or complex Hermitian.
    rank : int
        How many pairs.
    which : {"magnitude", "largest", "smallest", "both"}, default "magnitude"
        ``"magnitude"``: largest \|λ\|, in descending order of it. ``"largest"``: largest λ, descending.
        ``"smallest"``: smallest λ, ascending. ``"both"``: half from each end (one more of the largest when `rank` is
        odd), descending.
    tol : float, optional
        The relative residual at which a pair has converged: ‖Av − θv‖ ≤ tol · \|θ\|. By default 10⁻⁶, and √ε ≈ 3·10⁻⁴
        in single precision, which cannot do much better: rounding leaves ε \|θ\|max / \|θ\|.
    max_products : int, optional
        Stop here, with a warning if pairs have not converged. By default 1,000 + 100 · `rank`, or earlier where the
        wanted eigenvalues do not stand apart and their residuals fall too slowly to converge by then.
    basis_size : int, optional
        How many vectors the basis may hold before it is shortened. By default 2 · `rank` + 20; fewer save memory and
        cost products, `rank` + 4 at least. Memory in all: basis_size + rank + 2 vectors.
    trial : bool, default True
        Whether to look for further copies of multiple eigenvalues, as the notes say. Without, up to a third of the
        products is saved, and each may be found once only, as by ARPACK.
    seed : int, default 0
        The start vectors are a function of (seed, number).
    monitor : Monitor, optional
        Progress and checkpoints, as for `fast_lanczos`.

    Returns
    -------
    EigenPairs
        The residuals come from the recurrence, which knows A times every basis vector, with ε \|θ\|max for rounding.

    Raises
    ------
    ValueError
        If an argument is out of range, or a product is not finite.

    Notes
    -----
    A Krylov space holds one vector of every eigenspace, so a multiple eigenvalue would be found once. Therefore the
    answer is put to a trial before it is returned: a random vector orthogonal to the pairs begins a new
    chain. If anything turns up there that belongs among the wanted pairs, the search goes on until it
    has converged, too, and the next trial begins. A trial is long enough to show missing copies of
    all wanted values, judged by their gaps to the unwanted ones, if ten products or 0.4 of those made before are enough
    for that; else it is shorter, for those that stand out most. It goes on while it shows
    something that may still become a wanted value. So copies of eigenvalues that stand apart from the rest are found,
    with few exceptions (none to nine in a hundred in our experiments); a copy of an eigenvalue at the edge of a dense
    spectrum may be missed, and the next eigenvalue then stands in its place.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> bulk = np.linspace(-1.0, 1.0, 500)
    >>> pairs = sd.top_eigenpairs(np.diag(np.r_[-10.0, 5.0, 5.0, bulk]), rank=3)
    >>> pairs.values.round(6).tolist()
    [-10.0, 5.0, 5.0]
    """
    start = time.perf_counter()
    A = as_operator(A)
    seed = as_seed(seed)
    n = A.bulk_dimension
    rank = as_count("rank", rank, maximum=n)
    as_choice("which", which, _WHICH)
    tol = max(1e-6, math.sqrt(A.vectors.eps)) if tol is None else as_positive("tol", tol)
    may_give_up = max_products is None
    max_products = 1000 + 100 * rank if max_products is None else as_count("max_products", max_products, minimum=rank)
    basis_size = 2 * rank + 20 if basis_size is None else as_count("basis_size", basis_size, minimum=min(n, rank + 4))
    search = _Search(KrylovBasis(A, min(n, basis_size), seed), rank, which, tol, trial=trial, may_give_up=may_give_up)
    settings = {"rank": rank, "which": which, "tol": tol, "basis_size": basis_size, "trial": trial, "seed": seed}
    with (monitor or Monitor()).stage("top_eigenpairs", A, settings, total=None) as stage:
        if "values" in stage.saved:
            with stage.restoring():
                return replace(EigenPairs.from_state(A, stage.read), notes=stage.notes)
        search.run(max_products, stage)
        pairs = search.result(start)
        # the pairs are all that is needed later, unless more products may still improve them
        stage.replace_snapshot(lambda: Snapshot(pairs.state(A)) if pairs.converged.all() else search.snapshot())
        stage.save()
    pairs = replace(pairs, notes=stage.notes)
    warn_unconverged(pairs, tol=tol, remedy=_remedy(A, pairs, tol, gave_up=search.has_given_up))
    return pairs


def _remedy(A: Operator, pairs: EigenPairs, tol: float, *, gave_up: bool) -> str:
    largest = float(np.abs(pairs.values).max())
    least = denominators(pairs.values, largest, A.vectors.eps)[~pairs.converged].min(initial=math.inf)
    rounding = A.vectors.eps * largest / float(least)
    if tol < rounding:
        return f"Rounding in {A.vectors.name} alone leaves {rounding:.1e} of the least: raise `tol`, or use float64."
    if gave_up:
        return (
            "These eigenvalues do not stand apart from the rest, and the residuals fall too slowly: the search ended "
            "early. Lower `rank`, raise `tol` or `basis_size`, or give `max_products` to go on."
        )
    return "Raise `max_products`, `basis_size` or `tol`, or lower `rank`."


@dataclass(frozen=True, eq=False)
class _Ritz:
    """The Ritz pairs of a basis, the most wanted first, with ‖Av − θv‖ in two parts."""

    theta: Floats
    Y: NDArray[Any]
    known: Floats
    """What more products with this chain can reduce."""
    unknown: Floats
    """At most what earlier chains have left."""


class _Search:
    """The search: extend the basis, compute Ritz pairs, restart, and test the result with a new random vector."""

    def __init__(
        self, basis: KrylovBasis, rank: int, which: str, tol: float, *, trial: bool, may_give_up: bool
    ) -> None:
        self.basis, self.rank, self.which, self.tol, self.trial = basis, rank, which, tol, trial
        self.may_give_up, self.has_given_up = may_give_up, False
        self.looks: list[tuple[int, float]] = []  # number of products and excess, over the chain
        self.ritz = _Ritz(np.empty(0), np.empty((0, 0)), np.empty(0), np.empty(0))
        self.rest: Floats = np.empty(0)  # values that are not wanted
        self.found: Floats = np.empty(0)  # what the chains before have found
        self.largest = 0.0  # |θ|
        self.is_following = False  # whether a chain is under way
        self.end = 0  # products that it lasts at least
        self.pause = 0  # products until the next look at the Ritz pairs
        self.last_look = (0, math.inf)  # number of products, excess
        self.is_done = False

    def run(self, max_products: int, stage: Stage) -> None:
        """Follow one chain after the other, until one brings nothing new or products have run out."""
        if stage.saved:
            with stage.restoring():
                self._restore({name: stage.read(name) for name in stage.saved})
        while not self.is_done and (self.is_following or self._may_begin(max_products)):
            if not self.is_following:
                stage.drop_snapshot()  # a restart overwrites the basis
                self._begin()
            self._follow(max_products, stage)
            if self.has_given_up:
                return
            before, self.found = self.found, self.ritz.theta[: self.rank]
            self.rest = self.ritz.theta[self.rank :]
            self.is_following = False
            self.is_done = self._is_confirmed(before) if self.trial else self._excess() <= 1.0

    def _is_confirmed(self, before: Floats) -> bool:
        """Return whether the chain has found the same values as the chains before."""
        if len(before) != self.rank:
            return False
        # ±θ are equally wanted: which copies of them come first is chance, and says nothing new
        found, before = (np.abs(x) if self.which == "magnitude" else x for x in (self.found, before))
        return bool(np.all(np.abs(found - before) <= self.tol * self._denominators(before)))

    def _may_begin(self, max_products: int) -> bool:
        basis = self.basis
        return basis.num_products < max_products and basis.num_multiplied < basis.A.bulk_dimension

    def _begin(self) -> None:
        """Begin a chain: the first one, or one that puts what was found to a trial."""
        basis = self.basis
        # a chain without a tail has found an invariant subspace: all of it may stay where there is room
        if basis.has_tail or basis.num_multiplied + 4 > basis.capacity < basis.A.bulk_dimension:
            basis.restart(self.found, self.ritz.Y[:, : self.rank], keep_tail=False)
        basis.begin_chain()
        self.end, self.pause, self.is_following = basis.num_products + self._trial_length(), 0, True
        self.last_look, self.looks = (0, math.inf), []

    def result(self, start: float) -> EigenPairs:
        """Return the wanted pairs as they are now."""
        ritz, wanted = self.ritz, slice(0, self.rank)
        order = np.argsort(-ritz.theta[wanted]) if self.which == "both" else np.arange(self.rank)
        values = ritz.theta[order]
        rounding = self.basis.A.vectors.eps * self.largest  # which the recurrence does not see
        norms = np.sqrt(ritz.known[order] ** 2 + ritz.unknown[order] ** 2 + rounding**2)
        scales = self._denominators(values)
        residuals = norms / scales
        return EigenPairs(
            values=values, vectors=self.basis.combine(ritz.Y[:, order]), residuals=residuals,
            converged=residuals <= self.tol, num_products=self.basis.num_products,
            seconds=time.perf_counter() - start, scales=scales,
        )  # fmt: skip

    def _follow(self, max_products: int, stage: Stage) -> None:
        """Extend the chain up to its end at least, and until the wanted pairs have converged."""
        basis = self.basis
        while True:
            stage.after_step(basis.num_products, self.snapshot, lambda: self.largest or None)
            basis.extend()
            self.pause -= 1
            out = not basis.has_tail or basis.num_products >= max_products
            if self.pause > 0 and not out and not basis.must_shrink:
                continue
            self.ritz = self._update_ritz()
            excess = self._excess()
            if out or (excess <= 1.0 and basis.num_products >= self.end and not self._shows_a_copy()):
                return
            if excess < math.inf:
                self.looks.append((basis.num_products, excess))
            self.has_given_up = self.may_give_up and is_hopeless(self.looks, max_products)
            if self.has_given_up:
                return
            self.pause = self._next_look(excess)
            if basis.must_shrink:
                stage.drop_snapshot()
                num_kept = self.rank + max(0, int(_KEPT * (basis.capacity - 1 - self.rank)))
                basis.restart(self.ritz.theta[:num_kept], self.ritz.Y[:, :num_kept], keep_tail=True)

    def _next_look(self, excess: float) -> int:
        """Return after how many products to look again: a look costs m³, a product too many may cost far more.

        Nothing is decided before the end of a trial, nor before the residuals can have come down: to a quarter with
        every product, or twice as fast as since the last look.
        """
        m, now = self.basis.num_multiplied, self.basis.num_products
        (then, before), self.last_look = self.last_look, (now, excess)
        pause = 1
        if 1.0 < excess < math.inf:
            seen = math.log(before / excess) / (now - then) if 0.0 < before < math.inf else 0.0
            pause = min(int(math.log(excess) / max(math.log(4.0), 2.0 * seen)), m // 4)
        return max(1, pause, self.rank - m, self.end - now)

    def snapshot(self) -> Snapshot:
        """Return the state between two products."""
        ritz = self.ritz
        fixed: dict[str, Any] = {
            "counts": np.array([self.is_following, self.end, self.pause, self.is_done]),
            "theta": ritz.theta, "Y": ritz.Y, "known": ritz.known, "unknown": ritz.unknown,
            "rest": self.rest, "found": self.found, "largest": np.array(self.largest),
            "last_look": np.array(self.last_look), "looks": np.array(self.looks, dtype=np.float64).reshape(-1, 2),
        }  # fmt: skip
        return Snapshot({**{name: partial(np.asarray, x) for name, x in fixed.items()}, **self.basis.state()})

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        following, end, pause, done = (int(count) for count in arrays["counts"])
        self.is_following, self.end, self.pause, self.is_done = bool(following), end, pause, bool(done)
        self.ritz = _Ritz(arrays["theta"], arrays["Y"], arrays["known"], arrays["unknown"])
        self.rest, self.found, self.largest = arrays["rest"], arrays["found"], float(arrays["largest"])
        self.last_look = (int(arrays["last_look"][0]), float(arrays["last_look"][1]))
        self.looks = [(int(products), float(excess)) for products, excess in arrays.get("looks", ())]
        self.basis.load(arrays)

    def _update_ritz(self) -> _Ritz:
        theta, Y, known, unknown = self.basis.ritz()
        self.largest = max(self.largest, float(np.abs(theta).max()))
        order = preference(theta, self.which)
        return _Ritz(theta[order], Y[:, order], known[order], unknown[order])

    def _excess(self) -> float:
        """Return the largest residual of the wanted pairs, as a multiple of what it may be."""
        ritz, wanted = self.ritz, slice(0, self.rank)
        if len(ritz.theta) < self.rank:
            return math.inf
        tol = self.tol * self._denominators(ritz.theta[wanted])
        # what one chain leaves is unknown to the next: 0.9 and 0.4 at right angles are still less than 1
        limit = np.sqrt(np.maximum(0.9**2 - (ritz.unknown[wanted] / tol) ** 2, 0.4**2))
        return float(np.max(ritz.known[wanted] / (limit * tol)))

    def _denominators(self, theta: Floats) -> Floats:
        return denominators(theta, self.largest, self.basis.A.vectors.eps)

    def _trial_length(self) -> int:
        """Return how many products a chain lasts at least: the first one none."""
        n = self.basis.A.bulk_dimension
        if len(self.found) < self.rank:
            return 0
        if n <= self.basis.capacity:
            return n  # the basis has room for the whole space: go through all of it
        return trial_length(self.found, self.rest, self.which, n, self.basis.num_products)

    def _shows_a_copy(self) -> bool:
        ritz, rank = self.ritz, self.rank
        if len(self.found) < rank:
            return False
        wanted, least = ritz.theta[:rank], self.tol * float(self._denominators(ritz.theta[:rank]).min())
        first = slice(rank, rank + (2 if self.which == "both" else 1))  # of those that are not wanted, at every end
        return any(
            shows_a_copy(theta, residual, wanted, self.rest, self.which, least)
            for theta, residual in zip(ritz.theta[first], ritz.known[first], strict=True)
        )
