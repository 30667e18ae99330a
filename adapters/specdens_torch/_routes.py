"""The ways to Jv: a double backward on the graph of the gradient, or forward mode; the faster is found by timing."""

from __future__ import annotations

import logging
import time

from specdens_torch._graphs import Graph
from specdens_torch._memory import synchronize
from specdens_torch._task import Task

_log = logging.getLogger("specdens")


def fastest_route(graph: Graph, task: Task, columns: int, *, kept: bool) -> str:
    """Return the faster way to Jv for as many columns on one graph, kept or made for them."""
    if task.x.is_meta:
        return "double backward"
    times = {}
    for route in ("forward", "double backward"):
        try:
            times[route] = min(_time(graph, task, route, columns, kept=kept) for _ in range(3))
        except (RuntimeError, NotImplementedError) as error:
            _log.info("Jv by %s is not possible: %s", route, str(error).splitlines()[0])
    if not times:
        return "double backward"
    best = min(times, key=lambda route: times[route])
    said = ", ".join(f"{route}: {1e3 * seconds:.3g} ms" for route, seconds in times.items())
    _log.info("Jv by %s for %d columns (%s)", best, columns, said)
    return best


def _time(graph: Graph, task: Task, route: str, columns: int, *, kept: bool) -> float:
    """Return the time of Jv as it will be done: on the kept graph, or with all that leads there."""
    if not kept:
        graph = graph.fresh()
    elif route == "double backward":
        _ = graph.g
    synchronize(task.x.device)
    started = time.perf_counter()
    for _ in range(min(columns, 4)):
        graph.jvp(task.subset, task.v, route, record=not kept)
    synchronize(task.x.device)
    return time.perf_counter() - started
