"""The Lanczos recurrence for a block of probes in lockstep [Papyan 2019, Algorithm 3]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from specdens._operators import Operator, ReusedMemoryError
from specdens._two_vectors import TwoVectors
from specdens._vectors import Array, Terms

# Of the largest eigenvalue known beforehand: products outside its space carry its rounding, even where nothing is left.
_KNOWN_SHARE = 0.03
_SMALLEST = 1e-140
_EPS64 = float(np.finfo(np.float64).eps)


@dataclass(kw_only=True)
class Recurrence(TwoVectors):
    """The state of a block of probes: all that is needed to go on, and all that is left behind.

    Every probe has its own recurrence and its own end, after which its column of v is zero.
    """

    indices: tuple[int, ...]
    """The numbers of the probes."""
    norms: NDArray[np.float64] = field(default_factory=lambda: np.empty((2, 0)))
    """The lengths of the columns of v and of v_prev, as measured: about 1, so that no pass is spent on scaling."""
    alphas: list[list[float]] = field(default_factory=list)
    betas: list[list[float]] = field(default_factory=list)
    """Per probe β₁, …, β_m; the last one couples to the next vector."""
    scale: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """The largest ‖A v‖ so far, per probe, or what is known of it beforehand."""
    active: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    """Whether the probe goes on: false once T is exact."""
    log2_range: ClassVar[float] = 1.0
    """How far from unit vectors may be: from half to double."""

    @classmethod
    def start(cls, A: Operator, indices: tuple[int, ...], block: Array) -> Self:
        """Project a block of start vectors onto the operator's subspace and normalise it, in place."""
        k = block.shape[1]
        v = block[:, 0] if k == 1 else block
        before = np.atleast_1d(A.vectors.to_host(A.vectors.norm(v)))
        v = A.project(v)
        norms = np.atleast_1d(A.vectors.to_host(A.vectors.norm(v)))
        if not np.all(np.isfinite(norms) & (norms > 100 * A.vectors.eps * before)):
            raise ValueError(f"`probes` must be finite and not within the deflated subspace; got norms {norms}")
        v = A.vectors.scale(_coefficients(A, 1.0 / norms), v)
        return cls(
            indices=indices,
            v=v,
            alphas=[[] for _ in range(k)],
            betas=[[] for _ in range(k)],
            norms=np.ones((2, k)),
            scale=np.full(k, _known_size(A)),
            active=np.ones(k, dtype=bool),
        )

    def step(self, A: Operator, *, check: bool) -> None:
        """Do one step of every probe: one product, one wait for the device.

        With vectors of lengths n_v and n_prev, w = A v − β (n_v/n_prev) v_prev and α = ⟨v, w⟩/n_v² the next vector is
        g (w − α v). Any g > 0 will do, as its length is measured: β = ‖g (w − α v)‖/(g n_v).
        """
        v, v_prev, beta = self.v, self.v_prev, self._last_betas()
        c = None if v_prev is None else _coefficients(A, -beta * self.active * self.norms[0] / self.norms[1])
        if check and self.num_steps < 2:
            w = self._checked_product(A, v, v_prev)
            w, vw, _ = A.vectors.three_term(w, v, v_prev, Terms(c=c), squares=False)
        else:
            w, vw, _ = A.three_term(v, v_prev, Terms(c=c), squares=False, out=self.memory(A))
        self.num_products += len(self.indices)
        g = self._likely_scale(A, beta)
        w, scalars = self._next_vector(A, v, w, vw, g)
        lengths = self._record(A, A.vectors.to_host(scalars), g, check=check)
        self.turn(A, self._settle(A, w, lengths))

    def _last_betas(self) -> NDArray[np.float64]:
        return np.array([row[-1] if row else 0.0 for row in self.betas])

    def _likely_scale(self, A: Operator, beta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a g that makes the next vectors about unit, if β changes little: as the vectors' dtype has it."""
        g = 1.0 / np.where(beta > 0, beta * self.norms[0], 1.0)
        smallest, largest, narrow = A.vectors.range
        return np.minimum(np.maximum(g, smallest), largest).astype(narrow).astype(np.float64)

    def _next_vector(self, A: Operator, v: Array, w: Array, vw: Array, g: NDArray[np.float64]) -> tuple[Array, Array]:
        """Turn w into g (w − α v); return it, and α and its squared length as one array on the device."""
        with A.vectors.precisely():
            alpha = vw * _coefficients(A, 1.0 / np.square(self.norms[0]))
            terms = Terms(a=_coefficients(A, g), b=-alpha)
            w, _, length = A.vectors.three_term(w, v, None, terms, dots=False)
            return w, A.vectors.xp.stack([alpha, length])

    def _settle(self, A: Operator, w: Array, lengths: NDArray[np.float64]) -> Array:
        """Zero the vectors of probes that have ended, make those unit that are far from it, and keep the lengths."""
        far = np.abs(np.log2(np.where(self.active, lengths, 1.0))) > self.log2_range
        far = self.active & (far | (self.num_steps == 1))  # before the first β nothing was known
        factors = np.where(self.active, np.where(far, 1.0 / np.where(far, lengths, 1.0), 1.0), 0.0)
        self.norms = np.stack([np.where(self.active & ~far, lengths, 1.0), self.norms[0]])
        return w if np.all(factors == 1.0) else A.vectors.scale(_coefficients(A, factors), w)

    def _checked_product(self, A: Operator, v: Array, v_prev: Array | None) -> Array:
        """Return the first or the second product, after a look at it."""
        w = A.apply_within(v)
        if v_prev is None:
            w = check_determinism(A, v, w)
            _check_range(A, w)
            self.num_products += 1
        else:
            self._check_symmetry(A, v_prev, v, w)
        return w

    def copy(self) -> Self:
        """Return a recurrence that can go on without changing this one; the vectors are shared."""
        return replace(
            self,
            num_shared=2,
            _spare=None,
            alphas=[list(row) for row in self.alphas],
            betas=[list(row) for row in self.betas],
            active=self.active.copy(),
        )

    def largest(self) -> float | None:
        """Return the Ritz value of largest magnitude of the first probe."""
        alphas, betas = np.array(self.alphas[0]), np.array(self.betas[0][:-1])
        if alphas.size < 2:
            return float(alphas[0]) if alphas.size else None
        ends = [
            float(scipy.linalg.eigvalsh_tridiagonal(alphas, betas, select="i", select_range=(i, i))[0])
            for i in (0, alphas.size - 1)
        ]
        return max(ends, key=abs)

    def state(self, A: Operator) -> dict[str, Callable[[], NDArray[Any]]]:
        """Return everything as arrays, to be made when they are written."""
        lengths = [len(row) for row in self.alphas]
        fixed = {
            "indices": np.array(self.indices),
            "lengths": np.array(lengths),
            "scale": self.scale,
            "active": self.active,
            "norms": self.norms,
            "counts": np.array([self.num_steps, self.num_products]),
        }
        arrays: dict[str, Callable[[], NDArray[Any]]] = {
            name: partial(np.asarray, array) for name, array in fixed.items()
        }
        arrays["alphas"] = lambda: np.concatenate([row[:m] for row, m in zip(self.alphas, lengths, strict=True)])
        arrays["betas"] = lambda: np.concatenate([row[:m] for row, m in zip(self.betas, lengths, strict=True)])
        return arrays | self.saved_vectors(A)

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return a recurrence from its saved arrays, without its vectors."""
        ends = np.cumsum(arrays["lengths"])[:-1]
        num_steps, num_products = (int(count) for count in arrays["counts"])
        return cls(
            indices=tuple(int(index) for index in arrays["indices"]),
            v=None,
            alphas=[row.tolist() for row in np.split(arrays["alphas"], ends)],
            betas=[row.tolist() for row in np.split(arrays["betas"], ends)],
            scale=arrays["scale"],
            active=arrays["active"],
            norms=arrays["norms"],
            num_steps=num_steps,
            num_products=num_products,
        )

    def _record(
        self, A: Operator, scalars: NDArray[np.generic], g: NDArray[np.float64], *, check: bool
    ) -> NDArray[np.float64]:
        """Append α and β of the probes that are still active; return the lengths of the new vectors."""
        alpha, squared_length = (np.atleast_1d(row) for row in scalars)
        self.num_steps += 1
        for j in np.flatnonzero(self.active & ~(np.isfinite(alpha) & np.isfinite(squared_length))):
            raise ValueError(
                f"A @ x returned {'nan' if np.isnan(alpha[j]) else 'inf'} at step {self.num_steps} of probe "
                f"{self.indices[j]}: the operator, or the model behind it, is not finite."
            )
        length: NDArray[np.float64] = np.sqrt(np.maximum(squared_length.real, 0.0))
        beta, beta_prev = length / (g * self.norms[0]), self._last_betas()
        size = np.sqrt(np.abs(alpha) ** 2 + beta**2 + beta_prev**2)
        self.scale = np.maximum(self.scale, size)
        for j in np.flatnonzero(check & (np.abs(alpha.imag) > tolerance(A) * self.scale)):
            raise ValueError(
                f"the operator is not Hermitian: ⟨v, Av⟩ = {alpha[j]:.3g} is not real "
                f"(step {self.num_steps} of probe {self.indices[j]})."
            )
        for j in np.flatnonzero(self.active):
            self.alphas[j].append(float(alpha[j].real))
            self.betas[j].append(float(beta[j]))
        # an invariant subspace; relative to this product, so that outliers do not hide a bulk far below them
        self.active = self.active & (beta > breakdown(A) * np.maximum(size, _known_size(A)))
        return length

    def _check_symmetry(self, A: Operator, v_prev: Array, v: Array, w: Array) -> None:
        """Compare ⟨v₁, A v₂⟩ with β₁: far apart at any n unless the operator is symmetric, and no further product."""
        lengths = self.norms[0] * self.norms[1]
        seen = np.atleast_1d(A.vectors.to_host(A.vectors.dot(v_prev, w))) / lengths
        # where β₁ is small, rounding has left a part of v₁ in v₂, which A multiplies by α₁
        overlap = np.atleast_1d(A.vectors.to_host(A.vectors.dot(v_prev, v))) / lengths
        seen = seen - np.array([row[0] for row in self.alphas]) * overlap
        beta = np.array([row[0] for row in self.betas])
        # what is not finite is another fault, which the record of this step will name
        wrong = self.active & np.isfinite(seen) & (np.abs(seen - beta) > tolerance(A) * self.scale)
        for j in np.flatnonzero(wrong):
            raise ValueError(
                f"the operator is not symmetric: ⟨v₁, Av₂⟩ = {seen[j]:.3g} but β₁ = {beta[j]:.3g}. "
                "Dropout or batch statistics make products random; put the model in eval mode."
            )


def breakdown(A: Operator) -> float:
    """Return what rounding leaves of β where it should be zero, relative to the product.

    A few units of the vectors, whose coefficients are exact; in float64 also what the accumulation of inner products
    leaves (39 ε was seen on a Kneser graph, with room for more).
    """
    return 5 * A.vectors.eps + 100 * _EPS64


def _known_size(A: Operator) -> float:
    """Return the size below which a product may be the rounding of known eigenvalues that were projected out."""
    return _KNOWN_SHARE * float(np.max(np.abs(A.known_atoms.positions), initial=0.0))


def _check_range(A: Operator, w: Array) -> None:
    """Refuse a first product whose squares leave the range of float64."""
    xp = A.vectors.xp
    largest = float(A.vectors.to_host(xp.max(xp.abs(w))))
    if np.isfinite(largest) and largest != 0 and not _SMALLEST < largest < 1 / _SMALLEST:
        raise ValueError(
            f"the operator's products have entries of size {largest:.0e}, whose squares leave the range of float64. "
            f"Scale it, for instance {1 / largest:.0e} * sd.as_operator(A)."
        )


def tolerance(A: Operator) -> float:
    """Return the relative difference beyond which two numbers that should agree do not: half the digits."""
    return float(np.sqrt(A.vectors.eps))


def _coefficients(A: Operator, values: NDArray[np.float64]) -> Array:
    """Return one number per probe on the device, as an array of shape () for a single probe."""
    return A.vectors.from_host(values if values.size > 1 else values[0], A.vectors.wide)


def check_determinism(A: Operator, v: Array, w: Array) -> Array:
    """Repeat the product with one vector and compare; return the product, in memory of its own."""
    vectors = A.vectors
    first = v if v.ndim == 1 else vectors.copy(v[:, 0])
    try:
        again = A.apply_within(first)
    except ReusedMemoryError:  # seen in time: both products are made again, as copies
        w, again = A.apply_within(v), A.apply_within(first)
    kept = float(vectors.to_host(vectors.norm(first)))
    if abs(kept - 1.0) > tolerance(A):
        raise ValueError(
            f"A @ x overwrites x: the norm of a unit vector is {kept:.3g} after the product. Work on a copy of x."
        )
    product = w if w.ndim == 1 else w[:, 0]
    again = vectors.axpy(vectors.from_host(np.asarray(-1.0)), product, again)
    difference, size = (float(vectors.to_host(vectors.norm(x))) for x in (again, product))
    if difference > tolerance(A) * size:
        raise ValueError(
            f"the operator is not deterministic: two products with the same vector differ by {difference / size:.2g} "
            "of their size. Dropout, batch statistics or a shuffling loader make products random; switch them off."
        )
    return w
