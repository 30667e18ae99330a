"""Progress of a stage: a callback, a bar on a terminal, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_REFRESH = 0.1  # seconds between two updates of a bar


@dataclass(frozen=True)
class Progress:
    """How far a stage of a run is, for a callback.

    Attributes
    ----------
    stage : str
        The algorithm that runs: "top_eigenpairs", "fast_lanczos", …
    num_products : int
        The products made so far.
    total : int or None
        The products to make, where that is known.
    seconds : float
        The time since the stage began.
    largest : float or None
        The eigenvalue of largest magnitude so far.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> seen: list[tuple[str, int]] = []
    >>> def callback(progress: sd.Progress) -> None:
    ...     seen.append((progress.stage, progress.num_products))
    >>> _ = sd.fast_lanczos(np.diag(np.arange(500.0)), num_steps=10, monitor=sd.Monitor(progress=callback))
    >>> seen[-1][0]
    'fast_lanczos'
    """

    stage: str
    num_products: int
    total: int | None
    seconds: float
    largest: float | None


class Reporter:
    """Tells the user how far a stage is.

    Parameters
    ----------
    progress
        As for `Monitor`.
    stage
        The name of the stage.
    total
        How many products it will make, where that is known.
    """

    def __init__(self, progress: bool | Callable[[Progress], None] | None, stage: str, total: int | None) -> None:
        self.stage, self.total, self.num_products = stage, total, 0
        self._callback = progress if callable(progress) else None
        self._began = self._shown = time.perf_counter()
        self._bar: Any = _make_bar(stage, total) if _shows_bar(progress) else None

    def report(self, num_products: int, largest: Callable[[], float | None]) -> None:
        """Take note of the products done."""
        self.num_products = num_products
        if self._callback is not None:
            seconds = time.perf_counter() - self._began
            self._callback(Progress(self.stage, num_products, self.total, seconds, largest()))
        elif self._bar is not None and time.perf_counter() - self._shown > _REFRESH:
            self._shown = time.perf_counter()
            self._update_bar(largest())

    def close(self) -> None:
        """Draw the bar a last time."""
        if self._bar is not None:
            self._update_bar(None)
        if self._bar is not None:
            self._bar.close()

    def _update_bar(self, largest: float | None) -> None:
        try:
            if largest is not None:
                self._bar.set_postfix_str(f"largest |λ| = {abs(largest):.4g}", refresh=False)
            self._bar.update(self.num_products - self._bar.n)
        except (OSError, ValueError):  # the terminal is gone; the run goes on without a bar
            self._bar.disable = True
            self._bar = None


def _shows_bar(progress: bool | Callable[[Progress], None] | None) -> bool:
    if callable(progress) or progress is False or sys.stderr is None:
        return False
    try:
        is_terminal = sys.stderr.isatty()
    except (OSError, ValueError):  # closed
        return False
    return progress is True or is_terminal or "ipykernel" in sys.modules


def _make_bar(stage: str, total: int | None) -> Any:
    from tqdm.auto import tqdm  # it warns at import in a notebook without ipywidgets

    return tqdm(total=total, desc=stage, unit="product", dynamic_ncols=True)
