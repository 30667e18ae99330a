"""The runner: advances recurrences block after block, new ones or those of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from numpy.typing import NDArray

from specdens._operators.base import Operator
from specdens._running.executor import BlockTask, ExecutorLike, run_tasks
from specdens._running.monitor import Arrays, Snapshot, Stage
from specdens._running.running_checks import FEWEST_STEPS


class BlockRecurrence(Protocol):
    """The recurrence of a block of probes: that of Lanczos, with or without its basis, or that of Chebyshev."""

    indices: tuple[int, ...]
    num_steps: int
    num_products: int
    preserve_inputs: bool
    """Whether a step must not overwrite the vectors from before it."""
    watch_every: ClassVar[int]
    """Steps from one check of the recurrence to the next."""
    vector_names: ClassVar[Sequence[str]]
    """Which of its arrays are of the size of vectors."""

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return a recurrence from its saved arrays, without its vectors."""

    @property
    def is_active(self) -> bool:
        """Whether a probe goes on."""

    def reserve(self, A: Operator, num_steps: int) -> None:
        """Allocate memory for `num_steps` steps."""

    def step(self, A: Operator, *, check: bool, watch: bool = False) -> None:
        """Do one step of every probe: with the checks of a first block, and with those of a run (`running_checks`)."""

    def check_first(self, A: Operator, again: Self) -> None:
        """Compare the first coefficients with those of a recurrence that has just made its first step."""

    @property
    def has_vectors(self) -> bool:
        """Whether the recurrence can go on."""

    def forget_spare(self) -> None:
        """Free the memory beyond the vectors."""

    def forget_vectors(self) -> None:
        """Drop the vectors, and keep the coefficients."""

    def load_vectors(self, A: Operator, read: Callable[[str], NDArray[Any]]) -> None:
        """Restore the vectors from their saved arrays."""

    def state(self, A: Operator) -> Arrays:
        """Return the whole state as named arrays, each made when it is written."""

    def largest(self) -> float | None:
        """Return the eigenvalue of largest magnitude so far, where it is known."""


R = TypeVar("R", bound=BlockRecurrence)


@dataclass(frozen=True)
class BlockWork(Generic[R]):
    """What is done with one block of probes, in this process or in another: an operator, and how a block begins."""

    A: Operator
    begin: Callable[[tuple[int, ...]], R]

    def __call__(self, task: BlockTask[R], after_step: Callable[[R], None] = lambda recurrence: None) -> R:
        """Bring a block to the steps that the task asks for, and return its recurrence."""
        recurrence = self.begin(task.indices) if task.recurrence is None else task.recurrence
        recurrence.reserve(self.A, task.num_steps)
        recurrence.preserve_inputs = task.preserve_inputs
        while recurrence.num_steps < task.num_steps and recurrence.is_active:
            number = recurrence.num_steps + 1
            watch = task.watch and (number % recurrence.watch_every == 0 or number == task.num_steps)
            recurrence.step(self.A, check=task.check, watch=watch)
            after_step(recurrence)
        recurrence.forget_spare()
        if not task.keep_vectors:
            recurrence.forget_vectors()
        return recurrence


class BlockRunner(Generic[R]):
    """Advances the recurrences of a stage.

    Parameters
    ----------
    A
        The operator.
    kind
        The class of the recurrences.
    begin
        Makes the recurrence of the probes with given indices.
    block_size
        How many probes advance together.
    stage
        Where progress and snapshots go.
    recurrences
        Recurrences to continue from. By default those that the stage has saved.
    check
        Whether to check the operator on the way, in the first block.
    keep_vectors
        Whether finished recurrences keep their vectors in memory.
    executor
        Where to run the blocks; by default in this process, one after the other.
    """

    def __init__(
        self,
        A: Operator,
        kind: type[R],
        begin: Callable[[tuple[int, ...]], R],
        *,
        block_size: int,
        stage: Stage,
        recurrences: Sequence[R] | None = None,
        check: bool = True,
        keep_vectors: bool = False,
        executor: ExecutorLike | None = None,
    ) -> None:
        self.A, self.kind, self.begin, self.block_size, self.stage = A, kind, begin, block_size, stage
        self.check, self.keep_vectors, self.executor = check, keep_vectors, executor
        self._on_disk: dict[int, frozenset[str]] = {}  # per block: which of its vectors the file holds
        # in the order in which they were begun or came back: a block keeps its place, which names it in the file
        self._blocks = self._restore() if recurrences is None else list(recurrences)

    @property
    def recurrences(self) -> list[R]:
        """The recurrences in the order of their probes."""
        return sorted(self._blocks, key=lambda recurrence: recurrence.indices)

    @property
    def num_products(self) -> int:
        """The products of all recurrences."""
        return sum(recurrence.num_products for recurrence in self._blocks)

    def advance(self, num_steps: int, num_probes: int, *, repeat_first: bool = True) -> None:
        """Bring `num_probes` probes to `num_steps` steps; those that are further stay as they are.

        After a long run the first product is repeated, unless `repeat_first` is false.
        """
        before = self.num_products
        unfinished = [
            block
            for block, each in enumerate(self._blocks)
            if each.num_steps < num_steps and each.is_active and each.indices[0] < num_probes
        ]
        missing = list(self._missing(num_probes)) if self.A.bulk_dimension else []
        if self.executor is None:
            self._advance_here(unfinished, missing, num_steps)
        else:
            self._advance_elsewhere(self.executor, unfinished, missing, num_steps)
        if repeat_first and self.num_products > before:
            self.repeat_first_product()
        self.stage.save()

    def repeat_first_product(self) -> None:
        """Compare the first product of a long run with the same one now."""
        first = next((each for each in self._blocks if each.indices[0] == 0), None)
        if not self.check or first is None or first.num_steps < FEWEST_STEPS:
            return
        again = self.begin(first.indices[:1])
        again.reserve(self.A, 1)
        again.step(self.A, check=False)
        first.check_first(self.A, again)
        first.num_products += 1
        self.stage.after_step(self.num_products, self._snapshot, first.largest)

    def _missing(self, num_probes: int) -> Iterator[tuple[int, ...]]:
        """Yield the blocks of probes that have not begun; workers may have left gaps between those that have."""
        begun = {index for recurrence in self._blocks for index in recurrence.indices}
        block: list[int] = []
        for index in range(num_probes):
            if block and (index in begun or len(block) == self.block_size):
                yield tuple(block)
                block = []
            if index not in begun:
                block.append(index)
        if block:
            yield tuple(block)

    def _advance_here(self, unfinished: list[int], missing: list[tuple[int, ...]], num_steps: int) -> None:
        for block in unfinished:
            self._advance_block(block, num_steps)
        for indices in missing:
            self._blocks.append(self.begin(indices))
            self._advance_block(len(self._blocks) - 1, num_steps)

    def _advance_elsewhere(
        self, executor: ExecutorLike, unfinished: list[int], missing: list[tuple[int, ...]], num_steps: int
    ) -> None:
        """Send blocks to the workers; take back, report and save each of them when it is finished."""
        places = {self._blocks[block].indices: block for block in unfinished}
        # copies, as threads would advance the blocks of the last snapshot
        tasks = [self._task(each, num_steps, deepcopy(self._with_vectors(block))) for each, block in places.items()]
        tasks += [self._task(indices, num_steps) for indices in missing]

        def accept(task: BlockTask[R], recurrence: R) -> None:
            block = places.get(task.indices)
            if block is None:
                self._blocks.append(recurrence)
            else:
                self._blocks[block] = recurrence
                self._on_disk.pop(block, None)
            self.stage.after_step(self.num_products, self._snapshot, recurrence.largest)

        if tasks:
            for note in run_tasks(executor, BlockWork(self.A, self.begin), tasks, accept=accept):
                self.stage.add_note(note)

    def _task(self, indices: tuple[int, ...], num_steps: int, recurrence: R | None = None) -> BlockTask[R]:
        check = self.check and indices[0] == 0
        return BlockTask(indices, num_steps, check, self.keep_vectors, watch=self.check, recurrence=recurrence)

    def _advance_block(self, block: int, num_steps: int) -> None:
        recurrence = self._with_vectors(block)
        task = self._task(recurrence.indices, num_steps, recurrence)
        task = replace(task, keep_vectors=True, preserve_inputs=self.stage.has_checkpoint)
        BlockWork(self.A, self.begin)(
            task, lambda each: self.stage.after_step(self.num_products, self._snapshot, each.largest)
        )
        if self.keep_vectors:
            return
        if self.stage.can_write_cheaply and self.stage.save():  # they stay on the disk, for more steps later
            names = recurrence.state(self.A).keys() & set(recurrence.vector_names)
            self._on_disk[block] = frozenset(f"block{block}/{name}" for name in names)
        recurrence.forget_vectors()
        self.stage.replace_snapshot(self._snapshot)

    def forget_vectors(self) -> None:
        """Drop the vectors of all recurrences, now and after every later step."""
        self.keep_vectors = False
        for recurrence in self._blocks:
            recurrence.forget_vectors()

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        """Return the state as of now: references to vectors, which must last through the next step."""
        arrays: dict[str, Callable[[], NDArray[Any]]] = {}
        unchanged: frozenset[str] = frozenset()
        for block, recurrence in enumerate(self._blocks):
            arrays |= {f"block{block}/{name}": make for name, make in recurrence.state(self.A).items()}
            if not recurrence.has_vectors:
                unchanged |= self._on_disk.get(block, frozenset())
        return Snapshot(arrays, unchanged)

    def _restore(self) -> list[R]:
        """Return the recurrences that the stage has saved; their vectors stay in the file."""
        recurrences, names = [], self.stage.saved
        for block in range(sum(name.endswith("/indices") for name in names)):
            prefix = f"block{block}/"
            vectors = {prefix + name for name in self.kind.vector_names}
            mine = {name for name in names if name.startswith(prefix)}
            with self.stage.restoring():
                small = {name.removeprefix(prefix): self.stage.read(name) for name in mine - vectors}
                recurrences.append(self.kind.from_state(small))
            self._on_disk[block] = frozenset(mine & vectors)
        return recurrences

    def _with_vectors(self, block: int) -> R:
        """Return a recurrence that can go on: with its vectors from the file, or made anew where they were not kept."""
        recurrence = self._blocks[block]
        if recurrence.has_vectors:
            return recurrence
        if self._on_disk.get(block):
            with self.stage.restoring():
                recurrence.load_vectors(self.A, lambda name: self.stage.read(f"block{block}/{name}"))
        else:
            recurrence = self._blocks[block] = self.begin(recurrence.indices)
        return recurrence
