"""Long runs: progress for those who watch, checkpoints for those who do not."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._checkpoint import CheckpointFile
from specdens._errors import SpecdensWarning
from specdens._lanczos import tolerance
from specdens._operators import Operator
from specdens._probes import gaussian_probe_block

_log = logging.getLogger("specdens")

_PAUSE = 50.0  # times the duration of a write pass without another one: writing takes 2 % of a run at most
_REFRESH = 0.1  # seconds between two updates of a progress bar
_GROWING = ("num_steps", "num_probes", "num_moments")  # settings of which more may be asked for than was saved

Arrays = Mapping[str, Callable[[], NDArray[Any]]]


@dataclass(frozen=True)
class Progress:
    """How far a stage of a run is, for a callback."""

    stage: str
    """What is being done: "top_eigenpairs", "fast_lanczos", …"""
    num_products: int
    """Products done."""
    total: int | None
    """Products to do, where that is known."""
    seconds: float
    """Since the stage began."""
    largest: float | None
    """The largest eigenvalue in magnitude so far."""


class Monitor:
    """What goes on beside a run: a progress bar or a callback, and checkpoints.

    Parameters
    ----------
    progress
        None: a bar on a terminal or in a notebook, nothing elsewhere. True or False: always or never. A function: it is
        called with a `Progress` after every step.
    checkpoint
        The file to write the state to. If it exists, the same call continues from it.
    checkpoint_interval
        Seconds between two writes, at least; and never less than 50 times the duration of the last one.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> seen = []
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
        self._ready = False

    @contextmanager
    def stage(self, name: str, A: Operator, settings: Mapping[str, Any], *, total: int | None) -> Iterator[Stage]:
        """Watch one algorithm: compare its settings with a checkpoint's, and save its state when it is interrupted."""
        settings = dict(settings)
        saved = None
        if self.file is not None:
            self._open(self.file, A)
            saved = self.settings["stages"].get(name)
            settings["operator"] = _fingerprint(A)
            if saved is not None:
                _check_operator(self.file, saved["operator"], settings["operator"], tolerance(A))
                settings["operator"] = saved["operator"]
                _check_same(self.file, saved, settings)
        stage = Stage(self, name, settings, is_saved=saved is not None, total=total)
        _log.info("%s begins: %s", name, ", ".join(f"{key}={value}" for key, value in settings.items()))
        try:
            yield stage
        except KeyboardInterrupt as interrupt:
            if stage.save_now() and self.file is not None:
                said = f"the run is saved in {self.file.path}: make the same call again to go on"
                interrupt.add_note(said)
                _log.warning("interrupted; %s", said)
            raise
        finally:
            stage.close()
        _log.info("%s ends after %d products", name, stage.num_products)

    def _open(self, file: CheckpointFile, A: Operator) -> None:
        """Read the file if it is there, and check that it can be written."""
        if self._ready:
            return
        file.check_writable()
        # three vectors, with the file before next to the new one
        file.check_room(6 * A.shape[0] * A.vectors.itemsize)
        self.settings = file.read_settings() or {"stages": {}}
        self._ready = True
        self._last_write = time.perf_counter()

    def is_due(self) -> bool:
        """Return whether it is time for a write."""
        return self.file is not None and self._since_write() >= max(self.interval, _PAUSE * self.file.seconds)

    def is_cheap(self) -> bool:
        """Return whether a write would take less than its share of the time."""
        return self.file is not None and self._since_write() >= _PAUSE * self.file.seconds

    def _since_write(self) -> float:
        return time.perf_counter() - self._last_write

    def write(self, stage: Stage, arrays: Arrays, keep: Collection[str]) -> bool:
        """Write a stage's state next to those of the others; a failure is reported and does not end the run."""
        assert self.file is not None
        others = self.file.names() if self.file.path.exists() else set()
        kept = [name for name in others if not name.startswith(f"{stage.name}/") or name in keep]
        settings = {**self.settings, "stages": {**self.settings["stages"], stage.name: stage.settings}}
        try:
            self.file.write(settings, arrays, kept)
        except OSError as error:
            self._last_write = time.perf_counter()
            warnings.warn(
                f"the checkpoint {self.file.path} could not be written ({error}); the one before is untouched, "
                "and the run goes on",
                SpecdensWarning,
                stacklevel=2,
            )
            return False
        self.settings = settings
        self._last_write = time.perf_counter()
        _log.debug("checkpoint %s written in %.3g s", self.file.path, self.file.seconds)
        return True


class Stage:
    """One algorithm under a monitor."""

    def __init__(
        self, monitor: Monitor, name: str, settings: dict[str, Any], *, is_saved: bool, total: int | None
    ) -> None:
        self.monitor, self.name, self.settings, self.is_saved, self.total = monitor, name, settings, is_saved, total
        self.num_products = 0
        self.keep: set[str] = set()
        """Names of arrays that stay in the file as they are."""
        self._snapshot: Arrays | None = None
        self._began = self._shown = time.perf_counter()
        self._bar: Any = _make_bar(name, total) if _shows_bar(monitor.progress) else None

    @property
    def has_checkpoint(self) -> bool:
        """Whether states are saved at all."""
        return self.monitor.file is not None

    def names(self) -> set[str]:
        """Return the names of the saved arrays."""
        file, prefix = self.monitor.file, f"{self.name}/"
        return {name.removeprefix(prefix) for name in file.names() if name.startswith(prefix)} if file else set()

    def read(self, name: str) -> NDArray[Any]:
        """Return a saved array."""
        assert self.monitor.file is not None
        return self.monitor.file.read(f"{self.name}/{name}")

    def tick(
        self,
        num_products: int,
        snapshot: Callable[[], Arrays],
        largest: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Take note of a step: show it, and save the state if it is time."""
        self.num_products = num_products
        if self.has_checkpoint:
            self._snapshot = snapshot()
            if self.monitor.is_due():
                self.save_now()
        if callable(self.monitor.progress):
            self.monitor.progress(self._describe(largest))
        elif self._bar is not None and time.perf_counter() - self._shown > _REFRESH:
            self._show(largest)

    def save_now(self) -> bool:
        """Write the state as of the last step, if there is one; return whether that was done."""
        if self._snapshot is None:
            return False
        arrays = {f"{self.name}/{name}": make for name, make in self._snapshot.items()}
        return self.monitor.write(self, arrays, {f"{self.name}/{name}" for name in self.keep})

    def replace_snapshot(self, snapshot: Callable[[], Arrays]) -> None:
        """Let this be the state that the next write saves."""
        if self.has_checkpoint:
            self._snapshot = snapshot()

    def forget_snapshot(self) -> None:
        """Save nothing before the next step: what the last one left is about to be overwritten."""
        self._snapshot = None

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.update(self.num_products - self._bar.n)
            self._bar.close()

    def _describe(self, largest: Callable[[], float | None]) -> Progress:
        return Progress(self.name, self.num_products, self.total, time.perf_counter() - self._began, largest())

    def _show(self, largest: Callable[[], float | None]) -> None:
        self._shown = time.perf_counter()
        value = largest()
        if value is not None:
            self._bar.set_postfix_str(f"largest |λ| = {abs(value):.4g}", refresh=False)
        self._bar.update(self.num_products - self._bar.n)


def _shows_bar(progress: bool | Callable[[Progress], None] | None) -> bool:
    if progress is None:
        return sys.stderr.isatty() or "ipykernel" in sys.modules
    return progress is True


def _make_bar(name: str, total: int | None) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, desc=name, unit="product", dynamic_ncols=True)


def _fingerprint(A: Operator) -> dict[str, Any]:
    """Return what tells one operator from another: shape, dtype, and a projection of one product."""
    vectors = A.vectors
    v = A.project(vectors.copy(gaussian_probe_block(vectors, A.shape[0], (0,), seed=0)[:, 0]))
    w = A.apply_within(v)
    projection = complex(vectors.to_host(vectors.dot(v, w)))
    size = float(vectors.to_host(vectors.norm(w)))
    return {"n": A.shape[0], "dtype": vectors.name, "projection": [projection.real, projection.imag], "size": size}


def _check_operator(file: CheckpointFile, saved: Mapping[str, Any], now: Mapping[str, Any], accuracy: float) -> None:
    for key in ("n", "dtype"):
        if saved[key] != now[key]:
            raise ValueError(
                f"cannot resume from {file.path}: it was made with {key}={saved[key]}; the operator has {now[key]}."
            )
    difference = np.abs(np.subtract([*saved["projection"], saved["size"]], [*now["projection"], now["size"]])).max()
    if not difference <= accuracy * max(saved["size"], now["size"]):
        raise ValueError(
            f"cannot resume from {file.path}: it belongs to another operator (a product that had the norm "
            f"{saved['size']:.6g} has {now['size']:.6g} now, and its projection {saved['projection'][0]:.6g} is "
            f"{now['projection'][0]:.6g})."
        )


def _check_same(file: CheckpointFile | None, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    fixed = [key for key in now if key not in _GROWING]
    if any(saved.get(key) != now[key] for key in fixed):
        differing = [key for key in fixed if saved.get(key) != now[key]]
        raise ValueError(
            f"cannot resume from {file.path if file else ''}: it was made with "
            f"{', '.join(f'{key}={saved.get(key)}' for key in differing)}; asked for "
            f"{', '.join(f'{key}={now[key]}' for key in differing)}. More steps or probes are fine; "
            f"another {differing[0]} is another run."
        )
