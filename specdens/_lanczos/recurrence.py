"""The Lanczos recurrence for a block of probes in lockstep [Papyan 2019, FastLanczos]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from specdens._lanczos.leakage import Leakage
from specdens._operators.base import Operator
from specdens._operators.consistency import check_determinism, check_real, check_symmetry, tolerance
from specdens._running.running_checks import check_input_kept, check_recurrence, check_repeated
from specdens._running.three_term_state import ThreeTermState
from specdens._vectors.base import Array, Terms

# Rounding floor, relative to the largest deflated eigenvalue: products carry its rounding even if nothing else is left.
_KNOWN_SHARE = 0.03
_SMALLEST = 1e-140  # of entries, so that squares stay in the range of float64
_EPS64 = float(np.finfo(np.float64).eps)


@dataclass(kw_only=True)
class Recurrence(ThreeTermState):
    """The state of a block of probes: the last two vectors, and the coefficients α and β so far.

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
    leakage: Leakage | None = None
    """Estimated rounding in the known subspace; None where there is no such subspace, and before the first step."""
    log2_range: ClassVar[float] = 1.0
    """Vectors whose length is outside this range are rescaled to length 1."""

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

    def step(self, A: Operator, *, check: bool, watch: bool = False) -> None:
        """Do one step of every probe: one product, one wait for the device.

        The lines of FastLanczos [Papyan 2019], and where they are here::

            1–3    sample v, v ← v/‖v‖                `start`
            4, 6   v_next ← A v − β_{m−1} v_prev      `three_term` of the operator, with the coefficient c
            7      α_m ← ⟨v_next, v⟩                  in the same pass
            8      v_next ← v_next − α_m v            `_next_vector`
            9      β_m ← ‖v_next‖                     in the same pass; appended by `_record`
            10     v_next ← v_next/β_m                approximately, in the same pass as line 8; see below
            11–12  v_prev ← v, v ← v_next             `advance`

        β_m is not known before its pass, so the vectors are only about unit, and their lengths n_v and n_prev are
        kept: w = A v − β (n_v/n_prev) v_prev, α = ⟨v, w⟩/n_v², and the next vector is g (w − α v). Any g > 0 is right,
        as the length is measured: β = ‖g (w − α v)‖/(g n_v). `_settle` rescales vectors that are far from unit.
        """
        v, v_prev, beta = self.v, self.v_prev, self._last_betas()
        c = None if v_prev is None else _coefficients(A, -beta * self.active * self.norms[0] / self.norms[1])
        if check and self.num_steps < 2:
            w = self._checked_product(A, v, v_prev)  # lines 4 and 6
            w, vw, _ = A.vectors.three_term(w, v, v_prev, Terms(c=c), squares=False)  # lines 6 and 7
        else:
            w, vw, _ = A.three_term(v, v_prev, Terms(c=c), squares=False, out=self.output_buffer(A))  # lines 4 to 7
        self.num_products += len(self.indices)
        if watch and v_prev is not None and w is not v_prev:
            self._watch(A, v_prev, v, w)
        g = self._likely_scale(A, beta)
        w, scalars = self._next_vector(A, v, w, vw, g)  # lines 8 to 10
        w, scalars = self._within_subspace(A, w, A.vectors.to_host(scalars), g)
        lengths = self._record(A, scalars, g, check=check)
        self.advance(A, self._settle(A, w, lengths))  # lines 11 and 12

    def _watch(self, A: Operator, v_prev: Array, v: Array, w: Array) -> None:
        """Check that v is what it was, and that w = A v − β v_prev is orthogonal to v_prev, as for a Hermitian A."""
        step = self.num_steps + 1
        check_input_kept(A, v, np.where(self.active, self.norms[0], 0.0), step)
        found = np.atleast_1d(A.vectors.to_host(A.vectors.dot(v_prev, w))) / (self.norms[0] * self.norms[1])
        # after a small β the vectors are made of rounding, which the recurrence does not hold for
        smallest = np.array([min(row) for row in self.betas])
        usable = self.active & (smallest > A.vectors.eps**0.25 * self.scale)
        found = np.where(usable, found, 0.0)
        check_recurrence(found, np.zeros(found.shape), scale=self.scale, rtol=tolerance(A), step=step)

    def check_first(self, A: Operator, again: Self) -> None:
        """Compare the first coefficients with those of a recurrence that has just made its first step."""
        allowed = tolerance(A) * float(self.scale[0])
        check_repeated("α₁", self.alphas[0][0], again.alphas[0][0], allowed)
        check_repeated("β₁", self.betas[0][0], again.betas[0][0], allowed)

    def _last_betas(self) -> NDArray[np.float64]:
        return np.array([row[-1] if row else 0.0 for row in self.betas])

    def _likely_scale(self, A: Operator, beta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a g that makes the next vectors about unit if β changes little, rounded to the vectors' dtype."""
        g = 1.0 / np.where(beta > 0, beta * self.norms[0], 1.0)
        smallest, largest, narrow = A.vectors.range
        return np.minimum(np.maximum(g, smallest), largest).astype(narrow).astype(np.float64)

    def _next_vector(self, A: Operator, v: Array, w: Array, vw: Array, g: NDArray[np.float64]) -> tuple[Array, Array]:
        """Turn w into g (w − α v); return it, and α and its squared length as one array on the device."""
        with A.vectors.float64_enabled():
            alpha = vw * _coefficients(A, 1.0 / np.square(self.norms[0]))
            terms = Terms(a=_coefficients(A, g), b=-alpha)
            w, _, length = A.vectors.three_term(w, v, None, terms, dots=False)
            return w, A.vectors.xp.stack([alpha, length])

    def _within_subspace(
        self, A: Operator, w: Array, scalars: NDArray[Any], g: NDArray[np.float64]
    ) -> tuple[Array, NDArray[Any]]:
        """Project the new vectors where rounding may have grown in the known subspace.

        Returns them, and α and the squared lengths. After a small β the part that is removed may be large, so the
        lengths are measured again.
        """
        if A.bulk_dimension == A.vectors.whole_length(A.shape[0]):
            return w, scalars
        eps = A.vectors.eps
        leakage = Leakage.at_start(len(self.indices), eps=eps) if self.leakage is None else self.leakage
        alpha, squared_length = (np.atleast_1d(row) for row in scalars)
        beta = np.where(self.active, np.sqrt(np.maximum(squared_length.real, 0.0)) / (g * self.norms[0]), 0.0)
        self.leakage = leakage.after_step(alpha.real, beta, self._last_betas(), eps=eps)
        if not self.leakage.projects:
            return w, scalars
        w = A.project(w)
        lengths = A.vectors.to_host(A.vectors.dot(w, w))
        return w, np.stack([scalars[0], lengths])

    def _settle(self, A: Operator, w: Array, lengths: NDArray[np.float64]) -> Array:
        """Zero the vectors of probes that have ended, make those unit that are far from it, and keep the lengths."""
        far = np.abs(np.log2(np.where(self.active, lengths, 1.0))) > self.log2_range
        far = self.active & (far | (self.num_steps == 1))  # before the first β nothing was known
        factors = np.where(self.active, np.where(far, 1.0 / np.where(far, lengths, 1.0), 1.0), 0.0)
        self.norms = np.stack([np.where(self.active & ~far, lengths, 1.0), self.norms[0]])
        return w if np.all(factors == 1.0) else A.vectors.scale(_coefficients(A, factors), w)

    def _checked_product(self, A: Operator, v: Array, v_prev: Array | None) -> Array:
        """Return the first or the second product, checked."""
        w = A.apply_within(v)
        if v_prev is None:
            w = check_determinism(A, v, w)
            check_range(A, w)
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
        """Return the whole state as named arrays, each made when it is written."""
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
        if self.leakage is not None:
            arrays["leakage"] = self.leakage.as_array
        arrays["alphas"] = lambda: np.concatenate([row[:m] for row, m in zip(self.alphas, lengths, strict=True)])
        arrays["betas"] = lambda: np.concatenate([row[:m] for row, m in zip(self.betas, lengths, strict=True)])
        return arrays | self.saved_vectors(A)

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return a recurrence from its saved arrays, without its vectors."""
        num_steps, num_products = (int(count) for count in arrays["counts"])
        indices, lengths = (tuple(int(x) for x in arrays[name]) for name in ("indices", "lengths"))
        k, total = len(indices), sum(lengths)
        shapes = {"alphas": (total,), "betas": (total,), "scale": (k,), "active": (k,), "norms": (2, k)}
        shapes |= {"leakage": (3, k)} if "leakage" in arrays else {}
        if len(lengths) != k or min(lengths) < 0 or any(arrays[name].shape != shape for name, shape in shapes.items()):
            raise ValueError("arrays of lengths that do not belong together")
        ends = np.cumsum(lengths)[:-1]
        return cls(
            indices=indices,
            v=None,
            alphas=[row.tolist() for row in np.split(arrays["alphas"], ends)],
            betas=[row.tolist() for row in np.split(arrays["betas"], ends)],
            scale=arrays["scale"],
            active=arrays["active"].astype(bool),
            norms=arrays["norms"],
            leakage=Leakage.from_array(arrays["leakage"]) if "leakage" in arrays else None,
            num_steps=num_steps,
            num_products=num_products,
        )

    def _record(
        self, A: Operator, scalars: NDArray[np.generic], g: NDArray[np.float64], *, check: bool
    ) -> NDArray[np.float64]:
        """Append α and β of the active probes; return the lengths of the new vectors."""
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
        if check:
            check_real(alpha, scale=self.scale, rtol=tolerance(A), step=self.num_steps, probes=self.indices)
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
        seen = np.where(self.active, seen, beta)
        check_symmetry(seen, beta, A, names=("⟨v₁, Av₂⟩", "β₁"), scale=self.scale, rtol=tolerance(A))


def breakdown(A: Operator) -> float:
    """Return what rounding leaves of β where it should be zero, relative to the product.

    A few units of the vectors, whose coefficients are exact; in float64 also what the accumulation of inner products
    leaves (39 ε was seen on a Kneser graph, with room for more).
    """
    return 5 * A.vectors.eps + 100 * _EPS64


def _known_size(A: Operator) -> float:
    """Return the size below which a product may be the rounding of known eigenvalues that were projected out."""
    return _KNOWN_SHARE * float(np.max(np.abs(A.known_atoms.positions), initial=0.0))


def check_range(A: Operator, w: Array) -> None:
    """Refuse a first product whose squares leave the range of float64."""
    largest = float(A.vectors.to_host(A.vectors.largest(w)).real)
    if np.isfinite(largest) and largest != 0 and not _SMALLEST < largest < 1 / _SMALLEST:
        raise ValueError(
            f"the operator's products have entries of size {largest:.0e}, whose squares leave the range of float64. "
            f"Scale it, for instance {1 / largest:.0e} * sd.as_operator(A)."
        )


def _coefficients(A: Operator, values: NDArray[np.float64]) -> Array:
    """Return one number per probe on the device, as an array of shape () for a single probe."""
    return A.vectors.from_host(values if values.size > 1 else values[0], A.vectors.wide)
