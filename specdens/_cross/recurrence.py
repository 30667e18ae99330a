"""The Lanczos recurrence of a block of probes that also records inner products with given vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from specdens._lanczos.recurrence import Recurrence
from specdens._operators.base import Operator
from specdens._vectors.base import Array


@dataclass(kw_only=True)
class CrossRecurrence(Recurrence):
    """A recurrence that keeps ⟨a|v_j⟩ of every Lanczos vector v_j with one or more vectors a per probe."""

    lefts: Sequence[Array] = ()
    """Blocks of the shape of v: the vectors a of all probes."""
    overlaps: list[list[list[complex]]] = field(default_factory=list)
    """Per block of vectors and per probe ⟨a|v₁⟩, ⟨a|v₂⟩, …, as many as α."""

    def attach(self, lefts: Sequence[Array]) -> CrossRecurrence:
        """Take the vectors whose inner products are wanted, before the first step, and return the recurrence."""
        self.lefts = lefts
        self.overlaps = [[[] for _ in self.indices] for _ in lefts]
        return self

    def step(self, A: Operator, *, check: bool, watch: bool = False) -> None:
        """Record ⟨a|v_j⟩ and do one step of every probe."""
        for left, rows in zip(self.lefts, self.overlaps, strict=True):
            (found,) = A.vectors.numbers(A.vectors.dot(left, self.v))
            for probe, row, overlap in zip(self.probes, rows, found, strict=True):
                if probe.is_active:
                    row.append(complex(overlap / probe.length))
        super().step(A, check=check, watch=watch)
