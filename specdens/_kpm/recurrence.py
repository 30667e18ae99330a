"""The Chebyshev recurrence for a block of probes in lockstep: two moments per product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from specdens._chebyshev.moments import leaves_interval
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._lanczos.recurrence import Recurrence
from specdens._operators.base import Operator
from specdens._operators.consistency import check_determinism, check_real, check_symmetry
from specdens._running.running_checks import check_input_kept, check_recurrence, check_repeated
from specdens._running.three_term_state import ThreeTermState
from specdens._vectors.base import Array, Terms

_FIRST_CHECK = 32  # moments after which to look for the first time whether the spectrum leaves the bounds


class LeftBounds(Exception):
    """The moments belong to no measure within the bounds."""


@dataclass(kw_only=True)
class ChebyshevRecurrence(ThreeTermState):
    """The state of a block of probes: r_{j−1} and r_j of r_j = T_j((A − c)/d) r_0, and the moments so far.

    Examples
    --------
    A start vector with all its weight at λ = 1, the middle of the interval, where T_j is 1, 0, −1, 0, …

    >>> import numpy as np, specdens as sd
    >>> from specdens.typing import ChebyshevRecurrence
    >>> A = sd.as_operator(np.diag([0.0, 1.0, 2.0]))
    >>> start = np.array([[0.0], [1.0], [0.0]])
    >>> state = ChebyshevRecurrence.start(A, (0,), start, sd.Interval(-1.0, 3.0))
    >>> state.step(A, check=False)
    >>> (state.mus + 0.0).tolist()
    [[1.0, 0.0, -1.0]]
    """

    indices: tuple[int, ...]
    interval: Interval
    squared_norms: Floats
    """Of the start vectors: 1, to the rounding of the vectors."""
    mus: Floats
    """Per probe μ_0, μ_1, …, so many as are known."""
    next_check: int = _FIRST_CHECK

    @classmethod
    def start(cls, A: Operator, indices: tuple[int, ...], block: Array, interval: Interval) -> Self:
        """Project a block of start vectors onto the operator's subspace and normalise it, in place."""
        v = Recurrence.start(A, indices, block).v
        squared_norms = np.atleast_1d(A.vectors.to_host(A.vectors.dot(v, v))).real
        mus = np.ones((len(indices), 1))
        return cls(indices=indices, interval=interval, squared_norms=squared_norms, mus=mus, v=v)

    @property
    def is_active(self) -> bool:
        """Whether a probe goes on: all do, as an invariant subspace does not end this recurrence."""
        return True

    def step(self, A: Operator, *, check: bool, watch: bool = False) -> None:
        """Do one step of every probe: one product, one wait for the device, two moments.

        With B = (A − c)/d, in the numbering of [Weiße et al. 2006, section II.D]::

            (28)      r_1 = B r_0                     the first step, with a = 1/d, b = −c
            (29)      r_{j+1} = 2 B r_j − r_{j−1}     the others, with a = 2/d, b = −c and −1 for v_prev; see `_terms`
            (36), (37) μ_{2j−1} = 2 ⟨r_{j−1}, r_j⟩ − μ_1 and μ_{2j} = 2 ⟨r_j, r_j⟩ − μ_0   `_new_moments`
        """
        vectors, v, v_prev, step = A.vectors, self.v, self.v_prev, self.num_steps + 1
        num_products = self.num_products + len(self.indices)
        if check and step == 1:
            w = check_determinism(A, v, A.apply_within(v))
            num_products += 1
            w, odd, even = vectors.three_term(w, v, None, self._terms(A))
        else:
            out = None if check and step == 2 else self.output_buffer(A)  # v_prev is needed once more
            w, odd, even = A.three_term(v, v_prev, self._terms(A), out=out)
        if A.bulk_dimension < A.vectors.whole_length(A.shape[0]) and not self.interval.lo < 0 < self.interval.hi:
            # Rounding leaves traces in the deflated subspace, on which the operator acts as zero: where zero is outside
            # the interval, the recurrence would amplify them.
            w = A.project(w)
            odd, even = vectors.dot(v, w), vectors.dot(w, w)
        pair = self._new_moments(A, step, vectors.to_host(vectors.xp.stack([odd, even])), check=check)
        if check and step == 2:
            self._check_symmetry(A, vectors.to_host(vectors.dot(v_prev, w)), pair)
        elif watch and v_prev is not None and w is not v_prev:
            self._watch(A, v_prev, v, w, step)
        self._check_interval(A, np.concatenate([self.mus, pair], axis=1))
        self.mus = np.concatenate([self.mus, pair], axis=1)
        self.num_steps, self.num_products = step, num_products
        self.advance(A, w)

    def _watch(self, A: Operator, v_prev: Array, v: Array, w: Array, step: int) -> None:
        """Check that v is what it was, and ⟨r_{j−1}, r_{j+1}⟩ = (μ_{2j} + μ_2)/2, as it is for a Hermitian A."""
        last, rtol = self.mus[:, -1], np.sqrt(self._rounding(A))
        check_input_kept(A, v, np.sqrt(np.maximum((1 + last) / 2, 0.0) * self.squared_norms), step)
        found = np.atleast_1d(A.vectors.to_host(A.vectors.dot(v_prev, w))) / self.squared_norms
        check_recurrence(found, (last + self.mus[:, 2]) / 2, scale=2 + np.abs(last), rtol=rtol, step=step)

    def check_first(self, A: Operator, again: Self) -> None:
        """Compare the first moments with those of a recurrence that has just made its first step."""
        allowed = 2 * float(np.sqrt(self._rounding(A)))
        for i in (1, 2):
            check_repeated(f"μ_{i}", float(self.mus[0, i]), float(again.mus[0, i]), allowed)

    def _terms(self, A: Operator) -> Terms:
        """Return the coefficients of (2/d) (A v − c v) − v_prev, or of (1/d) (A v − c v) at first."""
        center, radius, is_first = self.interval.center, self.interval.width / 2, self.v_prev is None
        return Terms(
            a=_number(A, (1.0 if is_first else 2.0) / radius),
            b=None if center == 0 else _number(A, -center),
            c=None if is_first else _number(A, -1.0),
        )

    def _new_moments(self, A: Operator, step: int, scalars: NDArray[Any], *, check: bool) -> Floats:
        """Return μ_{2j−1} and μ_{2j} from ⟨r_{j−1}, r_j⟩ and ⟨r_j, r_j⟩."""
        odd, even = (np.atleast_1d(row) / self.squared_norms for row in scalars)
        for j in np.flatnonzero(~(np.isfinite(odd) & np.isfinite(even))):
            raise ValueError(
                f"A @ x returned {'nan' if np.isnan(odd[j]) else 'inf'} at step {step} of probe {self.indices[j]}: the "
                "operator, or the model behind it, is not finite."
            )
        size = np.sqrt(1.0 + even.real)
        if check:
            rtol = np.sqrt(self._rounding(A))
            check_real(odd, scale=size, rtol=rtol, step=step, probes=self.indices)
        # T_m T_n = (T_{m+n} + T_{m−n}) / 2
        first = odd.real if step == 1 else 2 * odd.real - self.mus[:, 1]
        return np.stack([first, 2 * even.real - 1], axis=1)

    def _rounding(self, A: Operator) -> float:
        """Return ε relative to the interval: rounding counts for more where A, or what was deflated, is much larger."""
        known = float(np.max(np.abs(A.known_atoms.positions), initial=0.0))
        return A.vectors.eps * max(abs(self.interval.lo), abs(self.interval.hi), known) / (self.interval.width / 2)

    def _check_symmetry(self, A: Operator, seen: NDArray[Any], pair: Floats) -> None:
        """Compare ⟨r_0, r_2⟩ with μ_2 = 2⟨r_1, r_1⟩ − 1: far apart at any n unless the operator is symmetric."""
        seen = np.atleast_1d(seen) / self.squared_norms
        expected = self.mus[:, 2]
        rtol = np.sqrt(self._rounding(A))
        check_symmetry(seen, expected, A, names=("⟨r₀, r₂⟩", "2⟨r₁, r₁⟩ − 1"), scale=2 + np.abs(expected), rtol=rtol)

    def checked_moments(self, A: Operator, num_moments: int) -> Floats:
        """Return the first moments, checked a last time."""
        self.next_check = 0
        self._check_interval(A, self.mus[:, :num_moments])
        return self.mus[:, :num_moments]

    def _check_interval(self, A: Operator, mus: Floats) -> None:
        """Raise if the spectrum leaves the interval: at once in gross cases, else when the moments have doubled."""
        known = mus.shape[1]
        gross = np.max(np.abs(mus[:, -2:]), axis=1)
        for j in np.flatnonzero(gross > 2):
            raise LeftBounds(f"|μ| = {gross[j]:.3g} > 1 at moment {known - 1} of probe {self.indices[j]}")
        if known >= self.next_check:
            self.next_check = 2 * known
            for j in np.flatnonzero(leaves_interval(mus, eps=self._rounding(A))):
                raise LeftBounds(f"the first {known} moments of probe {self.indices[j]} belong to no measure on them")

    def copy(self) -> Self:
        """Return a recurrence that can go on without changing this one; the vectors are shared."""
        return replace(self, num_shared=2, _spare=None)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def largest(self) -> float | None:
        """Return nothing: moments do not tell the largest eigenvalue."""
        return None

    def state(self, A: Operator) -> dict[str, Callable[[], NDArray[Any]]]:
        """Return the whole state as named arrays, each made when it is written."""
        fixed = {
            "indices": np.array(self.indices),
            "interval": np.array(self.interval),
            "squared_norms": self.squared_norms,
            "mus": self.mus,
            "counts": np.array([self.num_steps, self.num_products, self.next_check]),
        }
        arrays: dict[str, Callable[[], NDArray[Any]]] = {name: partial(np.asarray, x) for name, x in fixed.items()}
        return arrays | self.saved_vectors(A)

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return a recurrence from its saved arrays, without its vectors."""
        num_steps, num_products, next_check = (int(count) for count in arrays["counts"])
        indices = tuple(int(index) for index in arrays["indices"])
        if arrays["mus"].shape != (len(indices), 2 * num_steps + 1) or arrays["squared_norms"].shape != (len(indices),):
            raise ValueError("moments of lengths that do not belong together")
        return cls(
            indices=indices,
            interval=Interval(*(float(end) for end in arrays["interval"])),
            squared_norms=arrays["squared_norms"],
            mus=arrays["mus"],
            v=None,
            num_steps=num_steps,
            num_products=num_products,
            next_check=next_check,
        )


def _number(A: Operator, value: float) -> Array:
    return A.vectors.from_host(np.asarray(value), A.vectors.wide)
