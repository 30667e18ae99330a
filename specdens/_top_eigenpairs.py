"""The outermost eigenpairs of an operator, by a thick-restart Lanczos method that also finds multiple eigenvalues."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._as_operator import as_operator
from specdens._eigenpairs import EigenPairs, Floats, denominators, warn_unconverged
from specdens._errors import as_choice, as_count, as_positive
from specdens._krylov_basis import KrylovBasis
from specdens._operators import Operator

_WHICH = ("magnitude", "largest", "smallest", "both")

# Measured on outliers, random matrices and Laplacians (benchmarks/top_eigenpairs.py):
_KEPT = 0.4  # of the room beside the wanted pairs is kept at a restart; anything from 0.3 to 0.6 does as well
_TRIAL_SHARE = 0.25  # of the products so far, at most, go into the attempt to falsify the answer
_NEAR = 100.0  # times the tolerance: closer than that, every product is followed by a look at the Ritz pairs


def top_eigenpairs(
    A: Any,
    *,
    rank: int,
    which: str = "magnitude",
    tol: float | None = None,
    max_products: int | None = None,
    basis_size: int | None = None,
    seed: int = 0,
) -> EigenPairs:
    r"""Return the eigenpairs at the ends of the spectrum, with as few products as possible.

    Thick-restart Lanczos with full reorthogonalisation [Wu & Simon 2000], one product at a time, in the array library
    and on the device of A. Where `subspace_iteration` needs hundreds of products for ten outliers this needs about
    three per pair.

    Parameters
    ----------
    A
        Anything that `as_operator` takes; real symmetric or complex Hermitian.
    rank
        How many pairs.
    which
        ``"magnitude"``: largest \|λ\|, in descending order of it. ``"largest"``: largest λ, descending.
        ``"smallest"``: smallest λ, ascending. ``"both"``: half from each end (one more of the largest when `rank` is
        odd), descending.
    tol
        A pair has converged when ‖Av − θv‖ ≤ tol · \|θ\|. By default 10⁻⁶, and √ε ≈ 3·10⁻⁴ in single precision,
        which cannot do much better: rounding leaves ε \|θ\|max / \|θ\|.
    max_products
        Stop here, with a warning if pairs have not converged. By default 1,000 + 100 · `rank`.
    basis_size
        How many vectors the basis may hold before it is shortened. By default 2 · `rank` + 20; fewer save memory and
        cost products, `rank` + 4 at least. Memory in all: basis_size + rank + 2 vectors.
    seed
        The start vectors are a function of (seed, number).

    Returns
    -------
    EigenPairs
        The residuals come from the recurrence, which knows A times every basis vector, with ε \|θ\|max for rounding.

    Notes
    -----
    A Krylov space holds one vector of every eigenspace, so a multiple eigenvalue would be found once. Therefore the
    answer is put to a trial before it is returned: a random vector orthogonal to the pairs begins a new
    chain. If anything turns up there that belongs among the wanted pairs, the search goes on until it
    has converged, too, and the next trial begins. A trial is long enough to show a missing copy of the last wanted
    value with about 90 % probability, judged by the gap to the unwanted ones, but takes no more than a quarter of
    the products made before. So copies of eigenvalues that stand apart from the rest are found; a copy of an
    eigenvalue at the edge of a dense spectrum may be missed, and the next eigenvalue then stands in its place.

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
    n = A.bulk_dimension
    rank = as_count("rank", rank, maximum=n)
    as_choice("which", which, _WHICH)
    tol = max(1e-6, math.sqrt(A.vectors.eps)) if tol is None else as_positive("tol", tol)
    max_products = 1000 + 100 * rank if max_products is None else as_count("max_products", max_products, minimum=rank)
    basis_size = 2 * rank + 20 if basis_size is None else as_count("basis_size", basis_size, minimum=min(n, rank + 4))
    search = _Search(KrylovBasis(A, min(n, basis_size), seed), rank, which, tol)
    search.run(max_products)
    pairs = search.result(start)
    warn_unconverged(pairs, tol=tol, remedy=_remedy(A, pairs, tol))
    return pairs


def _remedy(A: Operator, pairs: EigenPairs, tol: float) -> str:
    largest = float(np.abs(pairs.values).max())
    least = denominators(pairs.values, largest, A.vectors.eps)[~pairs.converged].min(initial=math.inf)
    rounding = A.vectors.eps * largest / float(least)
    if tol < rounding:
        return f"Rounding in {A.vectors.name} alone leaves {rounding:.1e} of the least: raise `tol`, or use float64."
    return "Raise `max_products`, `basis_size` or `tol`, or lower `rank`."


def preference(theta: Floats, which: str) -> NDArray[np.intp]:
    """Return the order of eigenvalues by how much they are wanted."""
    if which == "magnitude":
        return np.argsort(-np.abs(theta), kind="stable")
    ascending = np.argsort(theta, kind="stable")
    if which == "smallest":
        return ascending
    if which == "largest":
        return ascending[::-1]
    return np.stack([ascending[::-1], ascending], axis=1).ravel()[: len(theta)]


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
    """The loop: extend, look, shorten, and try to falsify what was found with a fresh random vector."""

    def __init__(self, basis: KrylovBasis, rank: int, which: str, tol: float) -> None:
        self.basis, self.rank, self.which, self.tol = basis, rank, which, tol
        self.ritz = _Ritz(np.empty(0), np.empty((0, 0)), np.empty(0), np.empty(0))
        self.rest: Floats = np.empty(0)  # values that are not wanted
        self.largest = 0.0  # |θ|

    def run(self, max_products: int) -> None:
        """Follow one chain after the other, until one brings nothing new or products have run out."""
        basis, found = self.basis, np.empty(0)
        while basis.num_products < max_products and basis.num_multiplied < basis.A.bulk_dimension:
            # a chain without a tail has found an invariant subspace: all of it may stay where there is room
            if basis.has_tail or basis.num_multiplied + 4 > basis.capacity < basis.A.bulk_dimension:
                basis.restart(found, self.ritz.Y[:, : self.rank], keep_tail=False)
            basis.begin_chain()
            self._follow(self._trial_length(found) if len(found) == self.rank else 0, max_products)
            before, found = found, self.ritz.theta[: self.rank]
            self.rest = self.ritz.theta[self.rank :]
            if len(before) == self.rank and np.all(np.abs(found - before) <= self.tol * self._denominators(before)):
                return

    def result(self, start: float) -> EigenPairs:
        """Return the wanted pairs as they are now."""
        ritz, wanted = self.ritz, slice(0, self.rank)
        order = np.argsort(-ritz.theta[wanted]) if self.which == "both" else np.arange(self.rank)
        values = ritz.theta[order]
        rounding = self.basis.A.vectors.eps * self.largest  # which the recurrence does not see
        norms = np.sqrt(ritz.known[order] ** 2 + ritz.unknown[order] ** 2 + rounding**2)
        residuals = norms / self._denominators(values)
        vectors = self.basis.combine(ritz.Y[:, order])
        seconds = time.perf_counter() - start
        return EigenPairs(values, vectors, residuals, residuals <= self.tol, self.basis.num_products, seconds)

    def _follow(self, length: int, max_products: int) -> None:
        """Extend the chain by `length` products at least, and until the wanted pairs have converged."""
        basis, pause = self.basis, 0
        end = basis.num_products + length
        while True:
            basis.extend()
            pause -= 1
            out = not basis.has_tail or basis.num_products >= max_products
            if pause > 0 and not out and not basis.must_shrink:
                continue
            self.ritz = self._look()
            excess = self._excess()
            if out or (excess <= 1.0 and basis.num_products >= end):
                return
            # the small eigenproblem costs m³: while far from the goal, every tenth of m products is often enough
            pause = max(basis.num_multiplied // 10, self.rank - basis.num_multiplied) if excess > _NEAR else 1
            if basis.must_shrink:
                num_kept = self.rank + max(0, int(_KEPT * (basis.capacity - 1 - self.rank)))
                basis.restart(self.ritz.theta[:num_kept], self.ritz.Y[:, :num_kept], keep_tail=True)

    def _look(self) -> _Ritz:
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

    def _trial_length(self, found: Floats) -> int:
        """Return how many products show a missing copy of the last wanted value to a random vector.

        Its component along an eigenvector is 1/√n, less than an eighth of that in one case out of ten; k steps enlarge
        it by the Chebyshev polynomial T_k(1 + 2 gap / width) over what the unwanted spectrum gets.
        """
        a, b = (float(self.rest.min()), float(self.rest.max())) if self.rest.size else (0.0, 0.0)
        if self.which == "magnitude":
            gap = float(np.abs(found).min()) - max(b, -a)
        else:
            above, below = found[found >= b] - b, a - found[found <= a]
            gap = float(min(np.min(above, initial=math.inf), np.min(below, initial=math.inf)))
        gamma = 1.0 + 2.0 * max(gap / (b - a), 1e-6) if b > a else 3.0
        length = 1 + math.ceil(math.acosh(8.0 * math.sqrt(self.basis.A.bulk_dimension)) / math.acosh(gamma))
        return min(length, max(2, int(_TRIAL_SHARE * self.basis.num_products)))
