"""Progress reporting and checkpointing of long runs."""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from specdens._exceptions import SpecdensWarning
from specdens._operators.base import Operator
from specdens._running.agreement import check_same_call
from specdens._running.checkpoint import CheckpointFile
from specdens._running.identity import (
    AnotherRunError,
    compare_environments,
    compare_operators,
    compare_settings,
    describe_operator,
    environment,
    first_product,
)
from specdens._running.part_checkpoint import PartFile
from specdens._running.progress import Progress, Reporter
from specdens._storage.npz import DamagedFileError

_log = logging.getLogger("specdens")

_PAUSE = 50.0  # a pause of this many times the duration of a write follows it: writing takes 2 % of a run at most
_PRODUCT = "first_product"

Arrays: TypeAlias = Mapping[str, Callable[[], NDArray[Any]]]
"""Arrays by name, made when they are written."""


class Snapshot(NamedTuple):
    """The state of a stage after a step. Valid until the vectors that it shares are overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> from specdens.typing import Snapshot
    >>> state = Snapshot({"v": lambda: np.ones(3), "v_prev": lambda: np.zeros(3)}, unchanged=frozenset({"v_prev"}))
    >>> {name: make().tolist() for name, make in state.arrays.items() if name not in state.unchanged}
    {'v': [1.0, 1.0, 1.0]}
    """

    arrays: Arrays
    unchanged: frozenset[str] = frozenset()
    """Names of arrays that the file holds already."""


class Monitor:
    """What the user chooses for a run beside its algorithm: a progress bar or a callback, and checkpoints.

    Parameters
    ----------
    progress : bool or callable, optional
        None: a bar on a terminal or in a notebook, nothing elsewhere. True or False: always or never. A function: it is
        called with a `Progress` after every step.
    checkpoint : str or path, optional
        The file to write the state to. If it exists, the same call continues from it. It is locked while a run uses
        it, and holds the last vectors, the coefficients, and one product by which the operator is known again.
    checkpoint_interval : float
        Seconds between two writes, at least; and never less than 50 times the duration of the last one.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> seen: list[sd.Progress] = []
    >>> _ = sd.fast_lanczos(np.diag(np.arange(9.0)), num_steps=3, monitor=sd.Monitor(progress=seen.append))
    >>> [(each.stage, each.num_products, each.total) for each in seen][-1]
    ('fast_lanczos', 4, 4)
    """

    def __init__(
        self,
        *,
        progress: bool | Callable[[Progress], None] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_interval: float = 60.0,
    ) -> None:
        if not checkpoint_interval >= 0:
            raise ValueError(
                f"`checkpoint_interval` must be a number of seconds, 0 or more; got {checkpoint_interval!r}"
            )
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise TypeError(f"`progress` must be None, True, False or a function; got {progress!r}")
        self.progress = progress
        self.interval = checkpoint_interval
        self.file = None if checkpoint is None else CheckpointFile(checkpoint)
        self.settings: dict[str, Any] = {}
        self._last_write = time.perf_counter()
        self._all_true: Callable[[bool], bool] = bool

    def attach(self, A: Operator) -> None:
        """Let one process write the checkpoint where several compute together, and the others only read it.

        Processes that have some rows of the vectors write a part each.
        """
        if self.file is None or isinstance(self.file, PartFile):
            return
        if A.vectors.whole_length(A.shape[0]) != A.shape[0]:
            self.file = PartFile(self.file.path, A.vectors, A.shape[0])
            self._all_true = A.vectors.all_true
        else:
            self.file.is_read_only = not A.vectors.is_first

    @contextmanager
    def run(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Keep the checkpoint locked through several stages, and compare what shaped the run as a whole."""
        with ExitStack() as stack:
            if self.file is not None:
                stack.enter_context(self.file.locked())
                self.settings = self.file.read_settings() or {"stages": {}}
                with _resuming(self.file):
                    compare_settings(self.settings.get("run", settings), settings)
                self.settings["run"] = dict(settings)
            yield

    @contextmanager
    def stage(self, name: str, A: Operator, settings: Mapping[str, Any], *, total: int | None) -> Iterator[Stage]:
        """Watch one algorithm: compare its settings with a checkpoint's, and save its state when it is interrupted."""
        self.attach(A)
        check_same_call(A, name, {**settings, "checkpoint": self.file is not None})
        _log.info("%s begins: %s", name, ", ".join(f"{key}={value}" for key, value in settings.items()))
        with ExitStack() as stack:
            progress = self.progress if callable(self.progress) or A.vectors.is_first else False
            stage = Stage(self, name, dict(settings), total=total, progress=progress)
            if self.file is not None:
                stack.enter_context(self.file.locked())
                self._open(self.file, stage, A)
            for note in A.notes:
                stage.add_note(note)
            stack.callback(stage.close)
            try:
                yield stage
            except (KeyboardInterrupt, ConnectionError) as interrupt:  # the user, or processes that are gone
                # parts are written by all processes together, which an interrupted one cannot wait for
                if not isinstance(self.file, PartFile) and stage.save() and self.file is not None:
                    message = f"the run is saved in {self.file.path}: make the same call again to go on"
                    interrupt.add_note(message)
                    _log.warning("interrupted; %s", message)
                raise
        _log.info("%s ends after %d products", name, stage.num_products)

    def _open(self, file: CheckpointFile, stage: Stage, A: Operator) -> None:
        """Continue a stage from the file if it is there; else begin the file with the first product."""

        def read() -> dict[str, Any]:
            # three vectors and the first product, with the file before next to the new one
            file.check_room(8 * A.shape[0] * A.vectors.itemsize)
            return file.read_settings() or {"stages": {}}

        found = file.alike(read)
        self.settings = {**found, **{key: self.settings[key] for key in ("run",) if key in self.settings}}
        product = first_product(A)
        described = describe_operator(A, product)
        saved = self.settings["stages"].get(stage.name)
        # parts differ in what they say of the operator: every process knows its rows
        compared = saved is None if isinstance(file, PartFile) else saved
        if not A.vectors.is_same(json.dumps(compared, sort_keys=True)):
            raise ValueError(
                f"`checkpoint` must be one file that all processes can read; {file.path} is not the same for all of "
                "them. Put it on a file system that they share."
            )
        if saved is None:
            stage.settings |= {"operator": described, "environment": environment(), "notes": []}
            self.write(stage, Snapshot({_PRODUCT: lambda: product}))
            return
        names = file.names()
        stored = file.chunks(f"{stage.name}/{_PRODUCT}") if f"{stage.name}/{_PRODUCT}" in names else ()

        def compare() -> str | None:
            with _resuming(file):
                note = compare_operators(saved["operator"], described, stored, product, A)
                compare_settings(saved, stage.settings)
            return note

        note = file.alike(compare)
        changes = compare_environments(saved["environment"], environment()) + ([note] if note else [])
        notes = list(saved["notes"])
        if changes:
            notes.append(f"{stage.name} was resumed with {'; '.join(changes)}: not bit for bit as without interruption")
        stage.settings |= {"operator": saved["operator"], "environment": environment(), "notes": notes}
        prefix = f"{stage.name}/"
        stage.saved = frozenset(name.removeprefix(prefix) for name in names if name.startswith(prefix)) - {_PRODUCT}

    def is_due(self) -> bool:
        """Return whether it is time for a write."""
        return self.file is not None and self._is_over(max(self.interval, _PAUSE * self.file.seconds))

    def is_cheap(self) -> bool:
        """Return whether a write would take less than its share of the time."""
        return self.file is not None and self._is_over(_PAUSE * self.file.seconds)

    def _is_over(self, pause: float) -> bool:
        """Return whether so many seconds have passed since the last write, for all processes alike."""
        return self._all_true(time.perf_counter() - self._last_write >= pause)

    def write(self, stage: Stage, snapshot: Snapshot) -> bool:
        """Write a stage's snapshot next to those of the others; a failure is reported and does not end the run."""
        if self.file is None or self.file.is_read_only:
            return False
        prefix = f"{stage.name}/"
        arrays = {prefix + name: make for name, make in snapshot.arrays.items()}
        mine = {prefix + name for name in {*snapshot.unchanged, _PRODUCT}} - arrays.keys()
        try:
            try:
                names = self.file.names() if self.file.path.exists() else frozenset()
                kept = {name for name in names if not name.startswith(prefix) or name in mine}
                settings = self._settings_with(stage, kept)
                self.file.write(settings, arrays, sorted(kept))
            except ValueError as damage:  # of the file before, whose other stages are lost
                self._warn(f"the checkpoint {self.file.path} was damaged by others ({damage}); it is written anew")
                settings = self._settings_with(stage, set())
                self.file.write(settings, arrays)
        except OSError as error:
            self._last_write = time.perf_counter()
            self._warn(
                f"the checkpoint {self.file.path} could not be written ({error}); the one before is untouched, and the "
                "run goes on"
            )
            return False
        self.settings = settings
        self._last_write = time.perf_counter()
        _log.debug("checkpoint %s written in %.3g s", self.file.path, self.file.seconds)
        return True

    def _settings_with(self, stage: Stage, kept: set[str]) -> dict[str, Any]:
        """Return the settings of the file: of this stage, and of the others whose arrays it holds."""
        others = {name: each for name, each in self.settings["stages"].items() if f"{name}/{_PRODUCT}" in kept}
        return {**self.settings, "stages": {**others, stage.name: stage.settings}}

    @staticmethod
    def _warn(message: str) -> None:
        warnings.warn(message, SpecdensWarning, stacklevel=4)


class Stage:
    """One algorithm of a run: the object to which the algorithm reports progress and hands snapshots.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> from specdens.typing import Snapshot
    >>> A = sd.as_operator(np.eye(3))
    >>> seen: list[sd.Progress] = []
    >>> with sd.Monitor(progress=seen.append).stage("power", A, {"seed": 0}, total=2) as stage:
    ...     for step in (1, 2):
    ...         stage.after_step(step, lambda: Snapshot({"x": lambda: np.ones(3)}))
    >>> [each.num_products for each in seen], stage.has_checkpoint
    ([1, 2], False)
    """

    def __init__(
        self,
        monitor: Monitor,
        name: str,
        settings: dict[str, Any],
        *,
        total: int | None,
        progress: bool | Callable[[Progress], None] | None,
    ) -> None:
        self.name, self.settings = name, settings
        self.saved: frozenset[str] = frozenset()
        """The names of the arrays to continue from; empty where the stage begins anew."""
        self._monitor = monitor
        self._snapshot: Snapshot | None = None
        self._reporter = Reporter(progress, name, total)

    @property
    def has_checkpoint(self) -> bool:
        """Whether states are saved at all."""
        return self._monitor.file is not None

    @property
    def can_write_cheaply(self) -> bool:
        """Whether a write would take less than its share of the time."""
        return self._monitor.is_cheap()

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the notes of the result."""
        return tuple(self.settings.get("notes", ()))

    def add_note(self, note: str) -> None:
        """Add a remark to the notes of the result."""
        self.settings["notes"] = list(dict.fromkeys([*self.settings.get("notes", ()), note]))

    @property
    def num_products(self) -> int:
        """The products reported."""
        return self._reporter.num_products

    def read(self, name: str) -> NDArray[Any]:
        """Return a saved array."""
        if self._monitor.file is None:
            raise LookupError(f"there is no checkpoint to read {name} from")
        return self._monitor.file.read(f"{self.name}/{name}")

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Say that a checkpoint is damaged where its arrays are missing or do not fit together."""
        try:
            yield
        except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError) as error:
            if str(error).startswith("cannot resume") or self._monitor.file is None:
                raise
            raise ValueError(
                f"cannot resume from {self._monitor.file.path}: the arrays of {self.name} are damaged ({error}). "
                "Delete it or choose another name."
            ) from None

    def after_step(
        self,
        num_products: int,
        snapshot: Callable[[], Snapshot],
        largest: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Report a step, and save the state if it is time."""
        if self.has_checkpoint:
            self._snapshot = snapshot()
            if self._monitor.is_due():
                self.save()
        self._reporter.report(num_products, largest)

    def save(self) -> bool:
        """Write the last snapshot, if there is one; return whether that was done."""
        return self._snapshot is not None and self._monitor.write(self, self._snapshot)

    def replace_snapshot(self, snapshot: Callable[[], Snapshot]) -> None:
        """Make this the state that the next write saves."""
        if self.has_checkpoint:
            self._snapshot = snapshot()

    def drop_snapshot(self) -> None:
        """Drop the last snapshot, because its vectors are about to be overwritten."""
        self._snapshot = None

    def close(self) -> None:
        """Draw the progress bar a last time."""
        self._reporter.close()


@contextmanager
def _resuming(file: CheckpointFile) -> Iterator[None]:
    """Name the file from which a run cannot be resumed."""
    try:
        yield
    except AnotherRunError as error:
        raise ValueError(f"cannot resume from {file.path}: {error}.") from None
    except DamagedFileError as error:
        raise ValueError(f"cannot resume from {file.path}: {error}. Delete it or choose another name.") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"cannot resume from {file.path}: its header is damaged ({error!r}). Delete it.") from None
