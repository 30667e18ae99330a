"""The basis of `top_eigenpairs`: vectors that are locked, and a Lanczos chain in their complement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from specdens._eigenpairs.result import Floats, check_finite
from specdens._operators.base import Operator
from specdens._operators.consistency import check_range, check_symmetry, tolerance
from specdens._operators.products import product_of_copy
from specdens._vectors.base import Array
from specdens._vectors.jax import JaxVectors
from specdens._vectors.probes import FIRST_EIGEN_PROBE, probe_block

_BREAKDOWN = 4.0  # units of rounding: with full reorthogonalisation it is harmless to go on past a small β
# Entries of a vector that are combined at a time: a piece of the basis stays in cache. Where there are few in all, the
# pieces are too small to be given to BLAS's threads, which go on spinning for a tenth of a second, beside the operator.
_PIECE = 2**14
_MANY, _TOO_FEW = 2**24, 2**18  # multiplications


class KrylovBasis:
    """An orthonormal basis [M, p] with A M = [M, p] H: M has been multiplied, the tail p not yet.

    Ritz pairs are those of MᴴAM, and their residuals are what H has outside M: they need no product. At a restart M
    shrinks to some Ritz vectors, and the tail couples to all of them [Wu & Simon 2000]. A chain ends when its tail is
    given up; what M had along it goes into G, of which only norms are known: ‖G y‖ belongs to the residual of M y.

    Parameters
    ----------
    A
        The operator.
    capacity
        The largest number of vectors.
    seed
        Chain j begins with the j-th probe of (seed) that is set aside for eigenvectors.
    """

    def __init__(self, A: Operator, capacity: int, seed: int) -> None:
        self.A, self.capacity, self.seed = A, capacity, seed
        self.V = A.vectors.zeros((capacity, A.shape[0]))  # vectors are rows, so that each one is contiguous
        # JAX compiles for every shape and copies whatever it writes: there, all rows take part, unused ones as zeros
        self._has_fixed_shape = isinstance(A.vectors, JaxVectors)
        self.H: NDArray[Any] = np.zeros((capacity, capacity), dtype="complex128" if A.vectors.is_complex else "float64")
        self.G: NDArray[Any] = np.zeros((0, 0), dtype=self.H.dtype)
        self.num_multiplied = 0
        self.has_tail = False
        self.scale = 0.0
        self.num_chains = 0
        self.num_products = 0

    @property
    def size(self) -> int:
        """The number of vectors."""
        return self.num_multiplied + self.has_tail

    @property
    def must_shrink(self) -> bool:
        """Whether there is no room for another vector although the space has more."""
        return self.size == self.capacity < self.A.bulk_dimension

    def begin_chain(self) -> None:
        """Take a random vector, orthogonal to those that are there, as the tail."""
        block = probe_block(self.A.vectors, self.A.shape[0], [FIRST_EIGEN_PROBE + self.num_chains], self.seed)
        self.num_chains += 1
        self._append(*self._orthogonalize(self.A.project(block[:, 0]))[::2])

    def extend(self) -> None:
        """Multiply the tail; what is new in the product is the next tail, unless the chain ends here."""
        m, g, eps = self.num_multiplied, self.G.shape[1], self.A.vectors.eps
        w = product_of_copy(self.A.apply_within, self.A.vectors, self.V[m, ...])
        self.num_products += 1
        if self.num_products == 1:
            check_range(self.A, w)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is reported below
            # the product has much in common with the vectors that it is coupled to, and with the others only rounding
            coupled = np.flatnonzero(self.H[m, :m])
            w, c, beta = self._orthogonalize(w, first=int(coupled[0]) if coupled.size else m)
        check_finite(math.isfinite(beta) and bool(np.isfinite(c).all()), self.num_products)
        self.scale = max(self.scale, float(np.hypot(np.linalg.norm(c), beta)))
        mirrored = np.append(self.H[m, g:m], c[m]).conj()
        check_symmetry(
            c[g:], mirrored, self.A, names=("⟨v, A w⟩", "⟨A v, w⟩"), scale=self.scale, rtol=tolerance(self.A)
        )
        self.H[m, :g] = c[:g].conj()  # columns with an unknown part: this much of it is now known
        self.H[: m + 1, m] = c
        self.num_multiplied, self.has_tail = m + 1, False
        # room for rounding; below it the subspace is invariant, and T exact
        if beta > _BREAKDOWN * eps * self.scale and self.size < self.A.bulk_dimension:
            self.H[m + 1, m] = beta
            self._append(w, beta)

    def ritz(self) -> tuple[Floats, NDArray[Any], Floats, Floats]:
        """Return Ritz values, ascending, their coefficients on M, and the known and unknown part of their residuals."""
        m = self.num_multiplied
        # SciPy's: with NumPy's eigh, from 26 rows on, a thread of OpenBLAS is left spinning for a tenth of a second and
        # takes a core from the operator
        theta, Y = scipy.linalg.eigh(self.H[:m, :m], lower=False, driver="evd", check_finite=False)
        R = self.H[: self.size, :m] @ Y
        R[:m] -= Y * theta
        return theta, Y, np.linalg.norm(R, axis=0), np.linalg.norm(self.G @ Y[: self.G.shape[1]], axis=0)

    def restart(self, theta: Floats, Z: NDArray[Any], *, keep_tail: bool) -> None:
        """Shrink M to the Ritz vectors M Z with the values `theta`, with or without the tail."""
        m, k = Z.shape
        couplings = self.H[m : self.size, :m] @ Z
        unknown = self.G @ Z[: self.G.shape[1]]
        if not keep_tail:
            unknown, couplings = np.concatenate([unknown, couplings]), couplings[:0]
        self.G = np.asarray(np.linalg.qr(unknown, mode="r")) if len(unknown) else self.G
        C = np.zeros((self.size, k + len(couplings)), dtype=self.H.dtype)
        C[:m, :k] = Z
        C[m:, k:] = 1.0
        self._rotate(C)
        self.num_multiplied, self.has_tail = k, len(couplings) > 0
        self.H[...] = 0.0
        self.H[: self.size, :k] = np.concatenate([np.diag(theta), couplings])

    def combine(self, Y: NDArray[Any]) -> Array:
        """Return M Y as the columns of a new array."""
        vectors, n, m = self.A.vectors, self.A.shape[0], self.num_multiplied
        if self._has_fixed_shape:
            return vectors.combine(self.V[:m, ...].T, vectors.from_host(Y, vectors.wide))
        out, Y = vectors.zeros((n, Y.shape[1])), vectors.from_host(Y)
        for piece in _pieces(n, m * Y.shape[1]):
            out = vectors.assign(out, (piece, ...), self.V[:m, piece].T @ Y)
        return out

    def state(self) -> dict[str, Callable[[], NDArray[Any]]]:
        """Return everything as arrays. V is shared: a write between two products finds it whole."""
        counts = np.array([self.num_multiplied, self.has_tail, self.num_chains, self.num_products])
        fixed = {"H": self.H.copy(), "G": self.G, "scale": np.array(self.scale), "basis_counts": counts}
        arrays: dict[str, Callable[[], NDArray[Any]]] = {name: partial(np.asarray, x) for name, x in fixed.items()}
        arrays["V"] = partial(self.A.vectors.to_host, self.V[: self.size, ...])
        return arrays

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take everything back from saved arrays."""
        multiplied, tail, self.num_chains, self.num_products = (int(count) for count in arrays["basis_counts"])
        self.num_multiplied, self.has_tail = multiplied, bool(tail)
        self.H, self.G, self.scale = arrays["H"].copy(), arrays["G"], float(arrays["scale"])
        vectors = self.A.vectors
        self.V = vectors.assign(self.V, (slice(0, self.size), ...), vectors.from_host(arrays["V"]))

    def _append(self, x: Array, norm: float) -> None:
        vectors, row = self.A.vectors, self.size
        x = vectors.scale(vectors.from_host(np.asarray(1.0 / norm), vectors.wide), x)
        self.V = vectors.assign(self.V, (row, ...), x)
        self.has_tail = True

    def _orthogonalize(self, x: Array, first: int | None = None) -> tuple[Array, NDArray[Any], float]:
        """Return x − V c, c and the norm of what is left.

        Classical Gram–Schmidt, again while cancellation is felt [Daniel et al. 1976]. Most of x is taken out beforehand
        where it is known to lie along the vectors from `first` on: then one pass over the basis is enough.
        """
        vectors, size = self.A.vectors, self.size
        c = np.zeros(size, dtype=self.H.dtype)
        if first is not None and not self._has_fixed_shape:
            V = self.V[first:size, ...].T
            part = vectors.coefficients(V, x)
            x = vectors.subtract(V, part, x)
            c[first:] = vectors.to_host(part)
        V = (self.V if self._has_fixed_shape else self.V[:size, ...]).T
        for _ in range(3):
            part = vectors.coefficients(V, x)
            x = vectors.subtract(V, part, x)
            after = math.sqrt(float(np.real(vectors.to_host(vectors.coefficients(x[:, None], x)[0]))))
            removed = vectors.to_host(part)[:size]
            c += removed
            if not after < 0.7 * np.hypot(np.linalg.norm(removed), after):  # also where it is nan
                break
        return x, c, after

    def _rotate(self, C: NDArray[Any]) -> None:
        """Replace the basis by its combinations C, without a second basis."""
        vectors, n, (m, k) = self.A.vectors, self.A.shape[0], C.shape
        if self._has_fixed_shape:
            padded = np.zeros_like(self.H)
            padded[:k, :m] = C.T
            self.V = vectors.from_host(padded) @ self.V
            return
        C_T = vectors.from_host(C.T)
        for piece in _pieces(n, m * k):
            self.V = vectors.assign(self.V, (slice(0, k), piece), C_T @ self.V[:m, piece])


def _pieces(n: int, cost: int) -> Iterator[slice]:
    """Return pieces of the vectors for a combination that takes `cost` multiplications per entry."""
    step = _PIECE if n * cost > _MANY else max(1, _TOO_FEW // cost)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
