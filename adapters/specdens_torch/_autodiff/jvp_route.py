"""The ways to Jv: a double backward on the graph of the gradient, or forward mode.

Both give the same numbers up to rounding. The faster is found by timing, so two runs on a busy machine may choose
differently and differ in their last digits; ``Curvature(..., jvp_route=...)`` settles it.
"""

from __future__ import annotations

import logging
import time

from specdens_torch._autodiff.graph import Graph
from specdens_torch._autodiff.product_task import Task
from specdens_torch._data.memory import synchronize

_log = logging.getLogger("specdens")

FORWARD, DOUBLE_BACKWARD = "forward", "double backward"
ROUTES = (FORWARD, DOUBLE_BACKWARD)

# Forward mode is taken only where it is clearly faster, so that timings that differ little do not decide.
_MARGIN = 0.9


def faster_route(graph: Graph, task: Task, columns: int, *, kept: bool) -> str:
    """Return the faster way to Jv for `columns` vectors on one graph.

    Parameters
    ----------
    graph : Graph
        The graph of a batch.
    task : Task
        The product that is asked for; its vector is used for the timing.
    columns : int
        The number of vectors that share the graph.
    kept : bool
        Whether the graph is kept between products; otherwise the time to make it counts.
    """
    if task.x.is_meta:
        return DOUBLE_BACKWARD
    times = {}
    for route in ROUTES:
        try:
            times[route] = min(_time(graph, task, route, columns, kept=kept) for _ in range(3))
        except (RuntimeError, NotImplementedError) as error:
            _log.info("Jv by %s is not possible: %s", route, str(error).splitlines()[0])
    if FORWARD not in times:
        return DOUBLE_BACKWARD
    forward_wins = times[FORWARD] < _MARGIN * times.get(DOUBLE_BACKWARD, float("inf"))
    best = FORWARD if forward_wins else DOUBLE_BACKWARD
    message = ", ".join(f"{route}: {1e3 * seconds:.3g} ms" for route, seconds in times.items())
    _log.info("Jv by %s for %d columns (%s)", best, columns, message)
    return best


def _time(graph: Graph, task: Task, route: str, columns: int, *, kept: bool) -> float:
    """Return the time of Jv: on the kept graph, or with all that leads there."""
    if not kept:
        graph = graph.fresh()
    elif route == DOUBLE_BACKWARD:
        graph.gradient()
    synchronize(task.x.device)
    started = time.perf_counter()
    for _ in range(min(columns, 4)):
        graph.jvp(task.subset, task.v, route, record=not kept)
    synchronize(task.x.device)
    return time.perf_counter() - started
