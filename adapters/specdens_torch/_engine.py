"""The engine: passes over the batches that compute products of any members of the family."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from specdens_torch._batches import Batches
from specdens_torch._determinism import check_modules, check_repeats, name_failure
from specdens_torch._forward import Forward
from specdens_torch._graphs import Graph, graph_bytes
from specdens_torch._losses import OutputLoss, PlainLoss
from specdens_torch._memory import gib
from specdens_torch._mix import ClassMeans, Mix, class_sums
from specdens_torch._nests import tensors_in
from specdens_torch._params import Subset
from specdens_torch._random_state import random_state_kept
from specdens_torch._routes import fastest_route
from specdens_torch._states import State
from specdens_torch._task import Task
from specdens_torch._wanted import Sink

_log = logging.getLogger("specdens")

# What torch says where a function has no derivative of the kind that is asked for.
_SIGNS = ("differentiate twice", "second derivative", "derivative", "inplace", "jvp", "forward AD", "forward mode")


class Engine:
    """A model, a loss and batches; graphs are kept between products as far as the budget allows."""

    def __init__(self, forward: Forward, loss: OutputLoss, batches: Batches, *, budget: int, check: bool) -> None:
        self.forward, self.loss, self.batches, self.budget = forward, loss, batches, budget
        self.route: str | None = None
        self.block_route: str | None = None  # of several columns on a graph that is not kept
        if isinstance(loss, PlainLoss):
            loss.several = len(batches) > 1
        if check:
            check_modules(forward.model)
            self._check_first_batch()
        self._reset()

    def _check_first_batch(self) -> None:
        raw = self.batches.first.raw
        with random_state_kept(self.batches.device), torch.no_grad():
            check_repeats(lambda: self.forward(self.forward.leaves, raw), self.forward.model)

    def _reset(self) -> None:
        """Forget all that depends on the values of the parameters, and measure anew."""
        self._kept: list[Graph | None] = []
        self._checked: set[int] = set()
        self._at: Any = None
        self._means: ClassMeans | None = None
        self.divisor = self._divisor()
        self.bytes_per_example = self._measure()
        room, self.num_kept = self.budget, 0
        for size in self.batches.sizes if self.batches.kept is not None and self.budget > 0 else ():
            room -= self.bytes_per_example * size
            if room < 0:
                break
            self.num_kept += 1
        self._kept = [None] * self.num_kept
        _log.info("%s", self.memory())

    def memory(self) -> str:
        """Return in words which graphs are kept, and what they take."""
        taken = gib(self.bytes_per_example * sum(self.batches.sizes[: self.num_kept]))
        return f"graphs of {self.num_kept} of {len(self.batches)} batches kept ({taken} of {gib(self.budget)})"

    def _divisor(self) -> Tensor:
        total: Any = None
        with torch.no_grad():
            for batch in self.batches:
                output = self.forward(self.forward.leaves, batch.raw) if self.loss.needs_output else None
                count = self.loss.count(output, batch.target)
                total = count if total is None else total + count
        divisor = self.loss.divisor(total)
        if not divisor.is_meta and not float(divisor) > 0:
            raise ValueError(
                f"the targets must count: the loss divides by {float(divisor):g}. Are all of them ignored?"
            )
        return divisor

    def _measure(self) -> int:
        self._at = batch = self.batches.first
        shared = [*self.forward.leaves, *tensors_in(batch.raw)]
        with self._failures_named():
            return graph_bytes(self._graph(batch, check=True), shared) // max(1, batch.size) + 1

    @contextlib.contextmanager
    def _failures_named(self) -> Iterator[None]:
        """Name the module in which the batch of the moment cannot be differentiated as needed."""
        try:
            yield
        except RuntimeError as error:
            if not any(sign in str(error) for sign in _SIGNS):
                raise
            raw = self._at.raw
            raise name_failure(error, lambda: self.forward(self.forward.leaves, raw), self.forward.model) from error

    def value(self) -> float:
        """Return the value of the loss over the data."""
        self.refresh()
        total = 0.0
        with torch.no_grad():
            for batch in self.batches:
                total += float(self.loss.value(self.forward(self.forward.leaves, batch.raw), batch.target))
        return total / float(self.divisor)

    # -- graphs ----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Start anew if the model was changed since."""
        if self.forward.current_versions() != self.forward.versions:
            _log.info("the model has changed: graphs are made anew")
            self.forward.refresh()
            self._reset()

    def _graph(self, batch: Any, *, check: bool) -> Graph:
        return Graph(self.forward, batch, self._state, check=check)

    def _state(self, output: Tensor, target: Any) -> State:
        return self.loss.state(output, target, self.divisor)

    def graphs(self) -> Iterator[tuple[Graph, bool]]:
        """Yield the graph of every batch, and whether it is kept."""
        for i, batch in enumerate(self.batches):
            self._at = batch
            kept = i < self.num_kept
            graph = self._kept[i] if kept else None
            if graph is None:
                graph = self._graph(batch, check=i not in self._checked)
            if kept:
                self._kept[i] = graph
            yield graph, kept
            if graph.has_gradient:
                self._checked.add(i)

    @property
    def keeps_all(self) -> bool:
        return self.num_kept == len(self.batches)

    def states(self) -> Iterator[State]:
        """Yield the loss near the outputs of every batch."""
        self.refresh()
        for graph, _ in self.graphs():
            yield graph.state

    @property
    def means(self) -> ClassMeans:
        """The weights of the class means, which one pass over the outputs gives."""
        if self._means is None:
            total: Any = None
            for state in self.states():
                weights = class_sums(state.mass, state.labels, state.width)  # type: ignore[attr-defined]
                total = weights if total is None else total.add_(weights)
            self._means = ClassMeans(total)
        return self._means

    # -- products --------------------------------------------------------------------------------------------------

    def run(self, tasks: Sequence[Task]) -> None:
        """Do all products, in one pass over the batches, or two where class means are needed."""
        self.refresh()
        try:
            with self._failures_named():
                self._run(tasks)
        except ValueError:
            if "forward" not in (self.route, self.block_route):
                raise
            # a later batch may lead through operations that have no forward mode
            self.route = self.block_route = "double backward"
            _log.info("Jv by double backward: forward mode failed")
            for task in tasks:
                task.restart()
            with self._failures_named():
                self._run(tasks)

    def _run(self, tasks: Sequence[Task]) -> None:
        several, columns = len(self.batches) > 1, len(tasks)
        coupled = [task for task in tasks if task.mix.coupled and several]
        direct = [task for task in tasks if not (task.mix.coupled and several)]
        if coupled or any(task.mix.coupled for task in tasks):
            _ = self.means
        if coupled:
            for graph, kept in self.graphs():
                for task in coupled:
                    self._gather(graph, task, columns, kept=kept)
        tables = [self.means.table(task.sums, task.mix) for task in coupled]
        for number, (graph, kept) in enumerate(self.graphs() if tasks else ()):
            for task in direct:
                self._direct(graph, task, columns, kept=kept)
            for task, (table, beta) in zip(coupled, tables, strict=True):
                _ = graph.f  # brings the state along
                a = graph.state.differences(task.jvps[number]) if task.jvps else None  # type: ignore[attr-defined]
                graph.vjp(task.subset, self._back(graph.state, a, table, beta), task.sink)
        for task in tasks:
            task.sink.finish(task.factor)

    def _direct(self, graph: Graph, task: Task, columns: int, *, kept: bool) -> None:
        """Add the product with the batch, which needs no other batch."""

        def curve(u: Tensor) -> Tensor:  # the state is asked for late: outputs with a graph bring it along
            if task.mix.coupled:
                return self._within(graph.state, u, task.mix)
            factor, product = task.mix.parts[0], graph.state.curvature(u)
            return product if factor == 1.0 else factor * product

        if task.mix.h:
            graph.hessian(task.subset, task.v, task.sink, curve if task.mix.has_g else None, with_u=False)
        elif task.mix.has_g:
            u = graph.jvp(task.subset, task.v, self._route(graph, task, columns, kept=kept), record=not kept)
            graph.vjp(task.subset, curve(u), task.sink)

    def _gather(self, graph: Graph, task: Task, columns: int, *, kept: bool) -> None:
        """Add a batch to the class sums of Jv; with H, add its part of the product on the way."""
        if task.mix.h:
            u = graph.hessian(task.subset, task.v, task.sink, None, with_u=True)
        else:
            u = graph.jvp(task.subset, task.v, self._route(graph, task, columns, kept=kept))
        sums = self.sums(graph.state, u)
        task.sums = sums if task.sums is None else task.sums.add_(sums)
        if task.mix.has_b2:
            task.jvps.append(u)

    def sums(self, state: Any, u: Tensor) -> Tensor:
        """Return the sums Σ ω p a over the examples of every class."""
        return class_sums(state.mass * state.differences(u), state.labels, state.width)

    def _within(self, state: Any, u: Tensor, mix: Mix) -> Tensor:
        a = state.differences(u)
        table, beta = self.means.table(class_sums(state.mass * a, state.labels, state.width), mix)
        return self._back(state, a if mix.has_b2 else None, table, beta)

    def _back(self, state: Any, a: Tensor | None, table: Tensor, beta: Tensor) -> Tensor:
        q = table[state.labels]
        return state.back(state.mass * (q if a is None else q.addcmul_(beta[state.labels], a)))

    def together(self, subset: Subset, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return Hx and Gx: one double backward per batch gives Hx and Jx, one backward JᵀSJx."""
        self.refresh()
        H, G = (Task(mix, subset, x, torch.empty_like(x)) for mix in (Mix(1.0), Mix()))
        with self._failures_named():
            for graph, _ in self.graphs():
                u = graph.hessian(subset, H.v, H.sink, None, with_u=True)
                graph.vjp(subset, graph.state.curvature(u), G.sink)
        H.sink.finish(1.0)
        G.sink.finish(1.0)
        return H.out, G.out

    # -- the faster way to Jv ----------------------------------------------------------------------------------------

    def _route(self, graph: Graph, task: Task, columns: int, *, kept: bool) -> str:
        """Return the faster way to Jv, timed once: a double backward, or forward mode.

        Several columns share the graph of a batch by the former, and its outputs alone by the latter.
        """
        if columns > 1 and not kept:
            if self.block_route is None:
                self.block_route = fastest_route(graph, task, columns, kept=kept)
            return self.block_route
        if self.route is None:
            self.route = fastest_route(graph, task, 1, kept=kept)
        return self.route

    def differential(self, subset: Subset, x: Tensor) -> Iterator[tuple[State, Tensor]]:
        """Yield the state and Jx of every batch."""
        self.refresh()
        task = Task(Mix(), subset, x, torch.empty_like(x))
        for graph, kept in self.graphs():
            u = graph.jvp(subset, task.v, self._route(graph, task, 1, kept=kept))
            yield graph.state, u

    def transposed(self, subset: Subset, cotangents: Callable[[int, Any], Tensor], out: Tensor) -> Tensor:
        """Return Σ Jᵀq over the batches, q being what the function says for the batch of that number."""
        self.refresh()
        sink = Sink(subset, out)
        for number, (graph, _) in enumerate(self.graphs()):
            _ = graph.f
            graph.vjp(subset, cotangents(number, graph.state), sink)
        sink.finish(1.0)
        return out
