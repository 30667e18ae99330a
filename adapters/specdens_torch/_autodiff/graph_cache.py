"""Graphs of batches, kept between products as far as a memory budget allows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from specdens_torch._autodiff.graph import Graph
from specdens_torch._data.batches import Batch, Batches
from specdens_torch._data.live_memory import LiveMemory
from specdens_torch._data.memory import Promise, available_bytes, format_bytes, shared_room

_log = logging.getLogger("specdens")

# Beside the kept graphs there is room for as many graphs as one product makes at its peak, and as many of its own.
_PRODUCTS = 2


class GraphCache:
    """One graph per batch: kept for the first batches, as many as fit in the budget, and made anew for the others.

    Parameters
    ----------
    batches : Batches
        The data.
    make_graph : callable
        ``make_graph(batch, check=...)`` returns the graph of a batch; `check` says whether to look for functions
        without a second derivative.
    budget : int, optional
        Bytes that the kept graphs may take. By default half of the free memory, which all kept graphs and data of the
        process share, and less where one product needs it.

    Attributes
    ----------
    num_kept : int
        The number of batches whose graphs are kept.
    current : Batch
        The batch that was evaluated last, for error messages.
    """

    def __init__(self, batches: Batches, make_graph: Callable[..., Graph], *, budget: int | None) -> None:
        self._batches, self.make_graph, self.given_budget = batches, make_graph, budget
        self._promise = Promise(batches.device)
        self.budget = 0 if budget is None else budget
        self.num_kept = 0
        self._bytes: list[int] = []
        self.clear()

    def clear(self) -> None:
        """Forget all graphs, and which batches were checked."""
        self._kept: list[Graph | None] = [None] * self.num_kept
        self._promise.held = 0
        self._checked: set[int] = set()
        self.current: Batch = self._batches.first

    # -- what is kept --------------------------------------------------------------------------------------------------

    def plan(self, num_vector_bytes: int) -> Graph:
        """Measure the graphs of the largest and the smallest batch and decide how many graphs are kept.

        Parameters
        ----------
        num_vector_bytes : int
            The size of one flat vector of parameters.

        Returns
        -------
        Graph
            The graph of the first batch.
        """
        first, size, peak = self._measured(self.current)
        measured = {self._batches.num_entries[0]: size}
        if self._batches.kept is not None and self.given_budget != 0:
            for entries in {max(self._batches.num_entries), min(self._batches.num_entries)} - measured.keys():
                batch = self._batches.kept[self._batches.num_entries.index(entries)]
                _, measured[entries], other = self._measured(batch)
                peak = max(peak, other)
        self._bytes = [_interpolated(measured, entries) for entries in self._batches.num_entries]
        self._reserve = _PRODUCTS * peak + 3 * num_vector_bytes
        self._decide()
        if self.num_kept:
            self._keep(0, first)
        return first

    def _measured(self, batch: Batch) -> tuple[Graph, int, int]:
        """Return the graph of a batch, the memory that it keeps, and the most that it took on the way."""
        self.current = batch
        graph = self.make_graph(batch, check=True)
        with LiveMemory() as live:
            graph.gradient()
        return graph, live.num_bytes(), live.peak

    def _decide(self) -> None:
        if self.given_budget is None:
            room = available_bytes(self._batches.device) - self._reserve
            self.budget = max(0, min(shared_room(self._promise), room))
        room, self.num_kept = self.budget, 0
        for size in self._bytes if self._batches.kept is not None and self.budget > 0 else ():
            room -= size
            if room < 0:
                break
            self.num_kept += 1
        self._kept = [None] * self.num_kept
        self._promise.num_bytes = self.num_bytes
        _log.info("%s", self.describe())

    @property
    def num_bytes(self) -> int:
        """What the kept graphs take, once they are all made."""
        return sum(self._bytes[: self.num_kept])

    @property
    def keeps_all(self) -> bool:
        """Whether the graphs of all batches are kept."""
        return self.num_kept == len(self._batches)

    def _keep(self, index: int, graph: Graph) -> bool:
        """Keep a new graph, unless memory has become short since the plan."""
        automatic = self.given_budget is None
        if automatic and available_bytes(self._batches.device) < self._bytes[index] + self._reserve:
            self.num_kept = index
            del self._kept[index:]
            self._promise.num_bytes = self.num_bytes
            _log.info("memory has become short: %s", self.describe())
            return False
        self._kept[index] = graph
        self._promise.held += self._bytes[index]
        return True

    def __iter__(self) -> Iterator[tuple[Graph, bool]]:
        """Yield the graph of every batch, and whether it is kept."""
        for i, batch in enumerate(self._batches):
            self.current = batch
            graph = self._kept[i] if i < self.num_kept else None
            kept = graph is not None
            if graph is None:
                graph = self.make_graph(batch, check=i not in self._checked)
                kept = i < self.num_kept and self._keep(i, graph)
            yield graph, kept
            if graph.has_gradient:
                self._checked.add(i)

    def describe(self) -> str:
        """Return which graphs are kept, and what they take."""
        taken = format_bytes(self.num_bytes)
        total = len(self._batches)
        return f"graphs of {self.num_kept} of {total} batches kept ({taken} of {format_bytes(self.budget)})"


def _interpolated(measured: dict[int, int], entries: int) -> int:
    """Return the memory of a graph whose batch has so many entries.

    It grows at least in proportion to the entries (attention: with their square), so that the line between the
    smallest and the largest batch lies above it.
    """
    low, high = min(measured), max(measured)
    if low == high:
        return measured[low]
    slope = (measured[high] - measured[low]) / (high - low)
    return int(measured[low] + max(0.0, slope) * (entries - low)) + 1
