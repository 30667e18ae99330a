"""Operators for tests with workers in other processes, which must be able to import them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np

import specdens as sd


class Diagonal(sd.Operator):
    """A diagonal matrix that leaves a file for every probe that it begins with."""

    def __init__(self, entries: np.ndarray, folder: Path | None = None) -> None:
        super().__init__(len(entries), sd.as_operator(np.eye(1)).vectors)
        self.entries, self.folder = entries, folder

    def apply(self, x):
        self.log(x)
        return (self.entries * x.T).T

    def log(self, x) -> None:
        if self.folder is not None:
            (self.folder / f"{os.getpid()}-{time.perf_counter_ns()}").touch()


class DiesOnce(Diagonal):
    """A diagonal matrix whose worker is killed in the middle of one probe, the first time."""

    def __init__(self, entries: np.ndarray, folder: Path) -> None:
        super().__init__(entries, folder)
        self.parent, self.count = os.getpid(), 0

    def apply(self, x):
        self.count += 1
        if os.getpid() != self.parent and self.count == 40:
            try:
                os.close(os.open(self.folder / "died", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), 9)
        return super().apply(x)


class DiesAlways(Diagonal):
    """A diagonal matrix that can be multiplied in the process that made it only."""

    def __init__(self, entries: np.ndarray) -> None:
        super().__init__(entries)
        self.parent = os.getpid()

    def apply(self, x):
        if os.getpid() != self.parent:
            os.kill(os.getpid(), 9)
        return super().apply(x)


class NotFinite(Diagonal):
    """A diagonal matrix that returns nan after a few products."""

    count = 0

    def apply(self, x):
        self.count += 1
        return super().apply(x) * (np.nan if self.count > 5 else 1.0)


class Locked(Diagonal):
    """A diagonal matrix with a lock, which cannot be pickled."""

    def __init__(self, entries: np.ndarray) -> None:
        super().__init__(entries)
        self.lock = threading.Lock()
