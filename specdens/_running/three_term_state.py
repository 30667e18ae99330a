"""The vectors that a three-term recurrence holds between its steps: the last two, and memory for the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from numpy.typing import NDArray

from specdens._operators.base import Operator
from specdens._running.running_checks import WATCH_EVERY
from specdens._vectors.base import Array


@dataclass(kw_only=True)
class ThreeTermState:
    """The vectors of a recurrence for a block of probes: columns of (n, k) blocks, or of shape (n,) for one probe.

    An operator that fills given memory writes the next vector

    - over v_prev, if that is not needed any more: two vectors in all;
    - into the memory of the vector before v_prev, kept as a spare, if v_prev must last: three;
    - into new memory, as other operators always do, if another recurrence shares v_prev.
    """

    v: Array
    v_prev: Array | None = None
    num_steps: int = 0
    num_products: int = 0
    num_shared: int = 0
    """How many of v and v_prev another recurrence shares: these must not be overwritten."""
    preserve_inputs: bool = True
    """Whether a step must not overwrite the vectors from before it: a checkpoint needs them if it is interrupted."""
    watch_every: ClassVar[int] = WATCH_EVERY
    """Steps from one check of the recurrence to the next."""
    vector_names: ClassVar[Sequence[str]] = ("v", "v_prev")
    _spare: Array | None = None

    def reserve(self, A: Operator, num_steps: int) -> None:
        """Do nothing: two vectors are enough for any number of steps."""

    def output_buffer(self, A: Operator) -> Array | None:
        """Return memory for the next vector, of an operator that can use it: that of v_prev, unless it must last."""
        if not A.fills_given_memory or self.preserve_inputs or self.num_shared:
            return self._spare
        return self.v_prev

    def advance(self, A: Operator, w: Array) -> None:
        """Make w the current vector, and keep the memory that becomes free."""
        free = A.fills_given_memory and self.preserve_inputs and not self.num_shared
        self._spare = self.v_prev if free else None
        self.num_shared = max(0, self.num_shared - 1)
        self.v, self.v_prev = w, self.v

    @property
    def has_vectors(self) -> bool:
        """Whether the recurrence can go on."""
        return self.v is not None

    def forget_spare(self) -> None:
        """Free the memory beyond the two vectors."""
        self._spare = None

    def forget_vectors(self) -> None:
        """Drop the vectors, and keep the coefficients."""
        self.v = self.v_prev = self._spare = None

    def load_vectors(self, A: Operator, read: Callable[[str], NDArray[Any]]) -> None:
        """Restore the vectors from their saved arrays."""
        self.v = A.vectors.from_host(checked_vectors(A, read("v")))
        self.v_prev = A.vectors.from_host(checked_vectors(A, read("v_prev"))) if self.num_steps else None

    def saved_vectors(self, A: Operator) -> dict[str, Callable[[], NDArray[Any]]]:
        """Return the vectors as named arrays, each made when it is written; valid until the vectors are overwritten."""
        vectors = {"v": self.v, "v_prev": self.v_prev}
        return {name: partial(A.vectors.to_host, x) for name, x in vectors.items() if x is not None}


def checked_vectors(A: Operator, x: NDArray[Any]) -> NDArray[Any]:
    """Return saved vectors if they have the dtype and the length of the operator's."""
    if x.dtype != A.vectors.name or x.ndim not in (1, 2) or x.shape[0] != A.shape[0]:
        raise ValueError(f"vectors of dtype {x.dtype} and shape {x.shape}")
    return x
