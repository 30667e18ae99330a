"""Checkpoints of vectors whose rows are distributed: one part per process, and a manifest that says which parts count.

Every process writes its part under a new name. When all have done so, the first one replaces the manifest, and the
parts before are removed: a kill at any moment leaves a manifest whose parts are all of the same step.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from specdens._running.checkpoint import CheckpointFile
from specdens._running.file_lock import FileLock
from specdens._storage.npz import open_npz, write_npz
from specdens._vectors.base import Vectors

T = TypeVar("T")

FORMAT = "specdens checkpoint in parts"
VERSION = 1


class PartFile(CheckpointFile):
    """The part of one process, found by the manifest. All processes call `locked` and `write` together.

    Parameters
    ----------
    manifest : Path
        The file that the user has named.
    vectors : Vectors
        The vectors of this process.
    length : int
        The number of rows of this process.
    """

    def __init__(self, manifest: Path, vectors: Vectors, length: int) -> None:
        self.manifest, self._vectors = manifest, vectors
        self._first_row = vectors.row_ranges(length)[0].start
        self._generation = 0
        super().__init__(self._part(0))
        self._lock = FileLock(manifest)

    def _part(self, generation: int) -> Path:
        return self.manifest.with_name(f"{self.manifest.stem}.rows{self._first_row}.{generation}{self.manifest.suffix}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the manifest in the first process, and let all of them look which parts count."""
        is_outermost, self._num_users = self._num_users == 0, self._num_users + 1
        try:
            if is_outermost:
                self.alike(self._acquire if self._vectors.is_first else lambda: None)
                self.alike(self._read_manifest)
            yield
        finally:
            self._num_users -= 1
            if is_outermost and self._vectors.is_first:
                self._lock.release()

    def alike(self, work: Callable[[], T]) -> T:
        """Return work(), and raise on every process if it raises on one."""
        result: T | None = None
        raised: Exception | None = None
        try:
            result = work()
        except Exception as error:
            raised = error
        if self._vectors.all_true(raised is None):
            return result  # type: ignore[return-value]
        raise raised or ValueError(f"cannot resume from {self.manifest}: another process has refused its part")

    def _read_manifest(self) -> None:
        """Find the part that counts, and remove what a killed run has left."""
        self._generation = 0
        if self.manifest.exists():
            try:
                with open_npz(self.manifest) as file:
                    header = json.loads(str(file.read("header")))
                found = (header["format"], header["version"])
                self._generation = int(header.get("generation", 0))
            except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
                raise ValueError(
                    f"cannot resume from {self.manifest}: it is not the manifest of a checkpoint in parts ({error}). "
                    "Delete it or choose another name."
                ) from None
            if found != (FORMAT, VERSION):
                raise ValueError(
                    f"cannot resume from {self.manifest}: it is {found[0]!r}, version {found[1]}; a run with "
                    f"distributed rows reads {FORMAT!r}, version {VERSION}. Delete it or choose another name."
                )
        self.path = self._part(self._generation)
        if self._generation and not self.path.exists():
            raise ValueError(
                f"cannot resume from {self.manifest}: the part {self.path.name} is missing. The run was divided "
                "otherwise among its processes, or a part was removed."
            )
        for other in (self._generation - 1, self._generation + 1):
            self._part(other).unlink(missing_ok=True)

    def write(
        self,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Callable[[], NDArray[Any]]],
        unchanged: Collection[str] = (),
        *,
        source: Path | None = None,
    ) -> None:
        """Write the parts of all processes, and then the manifest; raise OSError everywhere if one fails."""
        before, self.path = source or self.path, self._part(self._generation + 1)
        try:
            self._all_done(lambda: super(PartFile, self).write(settings, arrays, unchanged, source=before))
            header = json.dumps({"format": FORMAT, "version": VERSION, "generation": self._generation + 1})
            write = write_npz if self._vectors.is_first else lambda *args, **kwargs: None
            self._all_done(lambda: write(self.manifest, {"header": np.array(header)}, ending="checkpoint"))
        except OSError:
            self._part(self._generation + 1).unlink(missing_ok=True)
            self.path = before
            raise
        self._generation += 1
        with contextlib.suppress(OSError):
            before.unlink(missing_ok=True)

    def _all_done(self, work: Callable[[], None]) -> None:
        failed: Exception | None = None
        try:
            work()
        except (OSError, ValueError) as error:
            failed = error
        if not self._vectors.all_true(failed is None):
            raise OSError("another process could not write its part" if failed is None else str(failed)) from failed
