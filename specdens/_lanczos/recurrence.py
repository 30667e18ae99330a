"""The Lanczos recurrence for a block of probes in lockstep [Papyan 2019, FastLanczos]."""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from specdens._lanczos.coefficients import ProbeCoefficients
from specdens._lanczos.leakage import Leakage
from specdens._operators.base import Operator
from specdens._operators.consistency import check_determinism, check_range, check_real, check_symmetry, tolerance
from specdens._running.running_checks import check_input_kept, check_recurrence, check_repeated
from specdens._running.three_term_state import ThreeTermState
from specdens._vectors.base import Array, Terms

# Rounding floor, relative to the largest deflated eigenvalue: products carry its rounding even if nothing else is left.
_KNOWN_SHARE = 0.03


@dataclass(kw_only=True)
class Recurrence(ThreeTermState):
    """The state of a block of probes: the last two vectors, and the coefficients α and β so far.

    Every probe has its own recurrence and its own end, after which its column of v is zero.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> from specdens.typing import Recurrence
    >>> A = sd.as_operator(np.diag([1.0, 3.0]))
    >>> state = Recurrence.start(A, (0,), np.array([[1.0], [1.0]]))
    >>> state.step(A, check=False)
    >>> np.round(state.alphas, 12).tolist(), np.round(state.betas, 12).tolist()
    ([[2.0]], [[1.0]])
    """

    indices: tuple[int, ...]
    """The numbers of the probes."""
    probes: list[ProbeCoefficients] = field(default_factory=list)
    """The coefficients of every probe, and the lengths of its vectors."""
    leakage: Leakage | None = None
    """Estimated rounding in the known subspace; None where there is no such subspace, and before the first step."""
    log2_range: ClassVar[float] = 1.0
    """Vectors whose length is outside this range are rescaled to length 1."""

    @classmethod
    def start(cls, A: Operator, indices: tuple[int, ...], block: Array) -> Self:
        """Project a block of start vectors onto the operator's subspace and normalise it, in place."""
        k = block.shape[1]
        v = block[:, 0] if k == 1 else block
        before = norms = np.atleast_1d(A.vectors.to_host(A.vectors.norm(v)))
        if _projects(A):
            v = A.project(v)
            norms = np.atleast_1d(A.vectors.to_host(A.vectors.norm(v)))
        if not np.all(np.isfinite(norms) & (norms > 100 * A.vectors.eps * before)):
            raise ValueError(f"`probes` must be finite and not within the deflated subspace; got norms {norms}")
        v = A.vectors.scale(_coefficients(A, (1.0 / norms).tolist()), v)
        return cls(indices=indices, v=v, probes=[ProbeCoefficients(scale=_known_size(A)) for _ in range(k)])

    @property
    def alphas(self) -> list[list[float]]:
        """α₁, …, α_m of every probe."""
        return [probe.alphas for probe in self.probes]

    @property
    def betas(self) -> list[list[float]]:
        """β₁, …, β_m of every probe."""
        return [probe.betas for probe in self.probes]

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which probes go on."""
        return np.array([probe.is_active for probe in self.probes])

    @property
    def is_active(self) -> bool:
        """Whether a probe goes on."""
        return any(probe.is_active for probe in self.probes)

    @property
    def scale(self) -> NDArray[np.float64]:
        """The largest ‖A v‖ of every probe so far, or what is known of it beforehand."""
        return np.array([probe.scale for probe in self.probes])

    @property
    def norms(self) -> NDArray[np.float64]:
        """The lengths of the columns of v and of v_prev, as measured."""
        return np.array([[x.length for x in self.probes], [x.length_prev for x in self.probes]])

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
        as the length is measured: β = ‖g (w − α v)‖/(g n_v). Vectors that are far from unit are rescaled.
        """
        v, v_prev = self.v, self.v_prev
        c = None if v_prev is None else _coefficients(A, [probe.weight_of_previous() for probe in self.probes])
        if check and self.num_steps < 2:
            w = self._checked_product(A, v, v_prev)  # lines 4 and 6
            w, vw, _ = A.vectors.three_term(w, v, v_prev, Terms(c=c), squares=False)  # lines 6 and 7
        else:
            w, vw, _ = A.three_term(v, v_prev, Terms(c=c), squares=False, out=self.output_buffer(A))  # lines 4 to 7
        self.num_products += len(self.indices)
        if watch and v_prev is not None and w is not v_prev:
            self._watch(A, v_prev, v, w)
        g = [probe.likely_scale(A.vectors.range) for probe in self.probes]
        w, *scalars = self._next_vector(A, v, w, vw, g)  # lines 8 to 10
        minus_alphas, squared_lengths = A.vectors.numbers(*scalars)
        alphas = [-alpha for alpha in minus_alphas]
        w, squared_lengths = self._within_subspace(A, w, alphas, squared_lengths, g)
        factors = self._record(A, alphas, squared_lengths, g, check=check)
        if any(factor != 1.0 for factor in factors):  # a vector that is far from unit, or of a probe that has ended
            w = A.vectors.scale(_coefficients(A, factors), w)
        self.advance(A, w)  # lines 11 and 12

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

    def _next_vector(self, A: Operator, v: Array, w: Array, vw: Array, g: list[float]) -> tuple[Array, Array, Array]:
        """Turn w into g (w − α v); return it, and −α and its squared length on the device."""
        minus_alpha = A.vectors.times(vw, _each([-1.0 / (probe.length * probe.length) for probe in self.probes]))
        w, _, squared_length = A.vectors.three_term(w, v, None, Terms(_coefficients(A, g), minus_alpha), dots=False)
        return w, minus_alpha, squared_length

    def _within_subspace(
        self, A: Operator, w: Array, alphas: list[complex], squared_lengths: list[complex], g: list[float]
    ) -> tuple[Array, list[complex]]:
        """Project the new vectors where rounding may have grown in the known subspace.

        Returns them, and their squared lengths. After a small β the part that is removed may be large, so the lengths
        are measured again.
        """
        if not _projects(A):
            return w, squared_lengths
        eps = A.vectors.eps
        leakage = Leakage.at_start(len(self.indices), eps=eps) if self.leakage is None else self.leakage
        columns = zip(self.probes, squared_lengths, g, strict=True)
        betas = [probe.next_beta(squared_length, scale) for probe, squared_length, scale in columns]
        last_betas = np.array([probe.last_beta for probe in self.probes])
        self.leakage = leakage.after_step(np.real(alphas), np.array(betas), last_betas, eps=eps)
        if not self.leakage.projects:
            return w, squared_lengths
        w = A.project(w)
        return w, *A.vectors.numbers(A.vectors.dot(w, w))

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
            probes=[probe.copy() for probe in self.probes],
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
        for name, rows in (("alphas", self.alphas), ("betas", self.betas)):
            arrays[name] = partial(_first_of_each, rows, lengths)
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
        rows = [[row.tolist() for row in np.split(arrays[name], ends)] for name in ("alphas", "betas")]
        others = [arrays["scale"].tolist(), arrays["active"].astype(bool).tolist(), *arrays["norms"].tolist()]
        return cls(
            indices=indices,
            v=None,
            probes=[
                ProbeCoefficients(alphas=a, betas=b, scale=scale, is_active=is_active, length=n_v, length_prev=n_prev)
                for a, b, scale, is_active, n_v, n_prev in zip(*rows, *others, strict=True)
            ],
            leakage=Leakage.from_array(arrays["leakage"]) if "leakage" in arrays else None,
            num_steps=num_steps,
            num_products=num_products,
        )

    def _record(
        self, A: Operator, alphas: list[complex], squared_lengths: list[complex], g: list[float], *, check: bool
    ) -> list[float]:
        """Append α and β of the active probes; return by what to multiply the new vectors."""
        self.num_steps += 1
        factors, known_size = [0.0] * len(g), _known_size(A)
        for j, (probe, alpha, squared_length) in enumerate(zip(self.probes, alphas, squared_lengths, strict=True)):
            if not probe.is_active:
                continue
            if not (cmath.isfinite(alpha) and cmath.isfinite(squared_length)):
                raise ValueError(
                    f"A @ x returned {'nan' if cmath.isnan(alpha) else 'inf'} at step {self.num_steps} of probe "
                    f"{self.indices[j]}: the operator, or the model behind it, is not finite."
                )
            probe.record(alpha, squared_length, g[j], eps=A.vectors.eps, known_size=known_size)
            factors[j] = probe.settle(self.log2_range)
        if check and A.vectors.is_complex:
            check_real(alphas, scale=self.scale, rtol=tolerance(A), step=self.num_steps, probes=self.indices)
        return factors

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


def _projects(A: Operator) -> bool:
    """Return whether the operator knows a part of its spectrum, whose subspace vectors are kept out of."""
    return A.bulk_dimension != A.vectors.whole_length(A.shape[0])


def _known_size(A: Operator) -> float:
    """Return the size below which a product may be the rounding of known eigenvalues that were projected out."""
    positions = A.known_atoms.positions
    return _KNOWN_SHARE * float(np.max(np.abs(positions))) if positions.size else 0.0


def _coefficients(A: Operator, values: Sequence[float]) -> Array:
    """Return one number per probe on the device, as an array of shape () for a single probe."""
    return A.vectors.from_host(_each(values), A.vectors.wide)


def _each(values: Sequence[float]) -> Sequence[float] | float:
    """Return one number per probe, or the number itself for a single probe."""
    return values if len(values) > 1 else values[0]


def _first_of_each(rows: list[list[float]], counts: list[int]) -> NDArray[np.float64]:
    """Return the first numbers of every row, which may have grown since."""
    return np.concatenate([row[:count] for row, count in zip(rows, counts, strict=True)])
