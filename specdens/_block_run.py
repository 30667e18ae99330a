"""Recurrences block after block: begun, continued from a checkpoint, or extended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from specdens._monitor import Arrays, Stage
from specdens._operators import Operator


class BlockRecurrence(Protocol):
    """The recurrence of a block of probes: that of Lanczos, with or without its basis, or that of Chebyshev."""

    indices: tuple[int, ...]
    num_steps: int
    num_products: int
    must_last: bool
    """Whether a step leaves the vectors from before it alone."""
    vector_names: ClassVar[Sequence[str]]
    """Which of its arrays are of the size of vectors."""

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which probes go on."""

    def reserve(self, A: Operator, num_steps: int) -> None:
        """Make room for so many steps."""

    def step(self, A: Operator, *, check: bool) -> None:
        """Do one step of every probe."""

    @property
    def has_vectors(self) -> bool:
        """Whether the recurrence can go on."""

    def forget_spare(self) -> None:
        """Keep no memory beyond the vectors."""

    def forget_vectors(self) -> None:
        """Keep the coefficients alone."""

    def load_vectors(self, A: Operator, read: Callable[[str], NDArray[Any]]) -> None:
        """Take the vectors back from their saved arrays."""

    def state(self, A: Operator) -> Arrays:
        """Return everything as arrays, to be made when they are written."""

    def largest(self) -> float | None:
        """Return the eigenvalue of largest magnitude so far, where it is known."""


R = TypeVar("R", bound=BlockRecurrence)


class BlockRun(Generic[R]):
    """The recurrences of a run under the eyes of a monitor.

    Parameters
    ----------
    A
        The operator.
    begin
        Makes the recurrence of the probes with given indices.
    restore
        Makes a recurrence from its saved arrays, without its vectors.
    block_size
        How many probes run together.
    stage
        Where progress and state go; if it has a saved state, the run continues from that.
    runs
        Recurrences to continue from instead.
    check
        Whether to check the operator on the way, in the first block.
    keep_vectors
        Whether finished recurrences keep their vectors in memory.
    """

    def __init__(
        self,
        A: Operator,
        begin: Callable[[tuple[int, ...]], R],
        restore: Callable[[Mapping[str, NDArray[Any]]], R],
        *,
        block_size: int,
        stage: Stage,
        runs: Sequence[R] = (),
        check: bool = True,
        keep_vectors: bool = False,
    ) -> None:
        self.A, self.begin, self.block_size, self.stage = A, begin, block_size, stage
        self.check, self.keep_vectors = check, keep_vectors
        self.runs = list(runs)
        if stage.is_saved:
            self._restore(restore)

    @property
    def num_probes(self) -> int:
        """The number of probes that have begun."""
        return sum(len(run.indices) for run in self.runs)

    @property
    def num_products(self) -> int:
        """The products of all recurrences."""
        return sum(run.num_products for run in self.runs)

    def advance(self, num_steps: int, num_probes: int) -> None:
        """Bring `num_probes` probes to `num_steps` steps; those that are further stay as they are."""
        for block, run in enumerate(self.runs):
            if run.num_steps < num_steps and run.active.any() and run.indices[0] < num_probes:
                self._follow(block, num_steps)
        for first in range(self.num_probes, num_probes, self.block_size) if self.A.bulk_dimension else ():
            self.runs.append(self.begin(tuple(range(first, min(first + self.block_size, num_probes)))))
            self._follow(len(self.runs) - 1, num_steps)
        self.stage.save_now()

    def _follow(self, block: int, num_steps: int) -> None:
        run = self._with_vectors(block)
        run.reserve(self.A, num_steps)
        run.must_last = self.stage.monitor.file is not None
        while run.num_steps < num_steps and run.active.any():
            run.step(self.A, check=self.check and block == 0)
            self.stage.tick(self.num_products, self._snapshot, run.largest)
        run.forget_spare()
        if self.keep_vectors:
            return
        if self.stage.monitor.is_cheap() and self.stage.save_now():
            self.stage.keep |= self._vector_names(block)  # they stay on the disk, for more steps later
        run.forget_vectors()
        self.stage.replace_snapshot(self._snapshot)

    def forget_vectors(self) -> None:
        """Keep the coefficients alone, now and from now on."""
        self.keep_vectors = False
        for run in self.runs:
            run.forget_vectors()

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def _vector_names(self, block: int) -> set[str]:
        return {f"block{block}/{name}" for name in self.runs[block].vector_names}

    def _snapshot(self) -> Arrays:
        """Return the state as of now: references to vectors, which must last through the next step."""
        arrays: dict[str, Any] = {}
        for block, run in enumerate(self.runs):
            if run.has_vectors:
                self.stage.keep -= self._vector_names(block)
            arrays |= {f"block{block}/{name}": make for name, make in run.state(self.A).items()}
        return arrays

    def _restore(self, restore: Callable[[Mapping[str, NDArray[Any]]], R]) -> None:
        names = self.stage.names()
        for block in range(sum(name.endswith("/indices") for name in names)):
            prefix = f"block{block}/"
            mine = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
            small = {name: self.stage.read(prefix + name) for name in mine if name not in _VECTORS}
            self.runs.append(restore(small))
            self.stage.keep |= {prefix + name for name in mine & _VECTORS}

    def _with_vectors(self, block: int) -> R:
        """Return a recurrence that can go on: with its vectors from the file, or made anew where they were not kept."""
        run = self.runs[block]
        if run.has_vectors:
            return run
        if f"block{block}/v" in self.stage.keep:
            run.load_vectors(self.A, lambda name: self.stage.read(f"block{block}/{name}"))
        else:
            run = self.runs[block] = self.begin(run.indices)
        return run


_VECTORS = {"v", "v_prev", "basis"}
