"""The engine: passes over the batches that compute products with curvature operators."""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from specdens_torch._autodiff.class_components import component_cotangent, single_batch_component, sums_of_differences
from specdens_torch._autodiff.determinism import check_modules, check_repeats, name_failure
from specdens_torch._autodiff.differentiability import refused_warnings
from specdens_torch._autodiff.gradient_buffer import GradientBuffer
from specdens_torch._autodiff.graph import Graph
from specdens_torch._autodiff.graph_cache import GraphCache
from specdens_torch._autodiff.independence import check_examples_independent
from specdens_torch._autodiff.jvp_route import DOUBLE_BACKWARD, faster_route
from specdens_torch._autodiff.low_precision import LowPrecision
from specdens_torch._autodiff.mean_check import SomeRows, verified_rows
from specdens_torch._autodiff.model_function import Forward
from specdens_torch._autodiff.product_task import Task
from specdens_torch._coefficients import ClassMeans, Coefficients, merged_sums
from specdens_torch._data.batches import Batch, Batches
from specdens_torch._data.rng import random_state_kept
from specdens_torch._loss.closed_forms import CrossEntropy, OutputLoss
from specdens_torch._loss.derivatives import State
from specdens_torch._loss.linear_losses import is_linear
from specdens_torch._loss.model_loss import ModelLoss
from specdens_torch._loss.plain_loss import PlainLoss
from specdens_torch._parameters import Subset
from specdens_torch._ranks import Ranks

_log = logging.getLogger("specdens")

# Words in torch's messages about derivatives that do not exist.
_DERIVATIVE_WORDS = (
    "differentiate twice", "second derivative", "derivative", "inplace", "jvp", "forward AD", "forward mode",
)  # fmt: skip


class Engine:
    """Products of a model, a loss and batches.

    Parameters
    ----------
    forward : Forward
        The model as a function of its leaves.
    loss : OutputLoss
        The loss as a function of the outputs.
    batches : Batches
        The data.
    budget : int, optional
        Bytes that kept graphs may take; None leaves it to the memory that there is.
    check : bool
        Whether to check that the model is deterministic.
    route : str, optional
        The way to Jv, "forward" or "double backward"; by default the faster is found by timing.
    ranks : Ranks, optional
        The processes that hold the other parts of the data. Jv is then by double backward unless `route` names
        another way: a way that fails on one rank alone cannot be changed there.
    user_loss, user_forward : callable, optional
        The functions as the user gave them, whose settings are compared before every product.
    """

    def __init__(
        self,
        forward: Forward,
        loss: OutputLoss,
        batches: Batches,
        *,
        budget: int | None,
        check: bool,
        route: str | None = None,
        ranks: Ranks | None = None,
        user_loss: Any = None,
        user_forward: Any = None,
    ) -> None:
        self.forward, self.loss, self.batches = forward, loss, batches
        self.ranks = Ranks() if ranks is None else ranks
        self._lock = threading.RLock()
        self._several = len(batches) > 1 or self.ranks.size > 1
        if forward.is_sharded and route not in (None, DOUBLE_BACKWARD):
            raise ValueError('`jvp_route` must be "double backward" where ranks share the rows of parameters')
        if (self.ranks.size > 1 or forward.is_sharded) and route is None:
            route = DOUBLE_BACKWARD
        self.route = self.block_route = route  # the latter for several columns on a graph that is not kept
        if isinstance(loss, PlainLoss | ModelLoss):
            loss.several = self._several
        if isinstance(loss, CrossEntropy):
            loss.find_axis = self._find_class_axis
        self._check = check
        forward.watched, forward.user_loss, forward.user_forward = loss.tensors(), user_loss, user_forward
        forward.note_state()
        self.ranks.alike_in_passes(self._check_model)
        self.cache = GraphCache(batches, self._make_graph, budget=budget)
        self._prepare()

    def _check_model(self) -> None:
        """Refuse a model whose products would be random or depend on the order of the data."""
        if not self._check:
            return
        check_modules(self.forward.model)
        batch, device = self.batches.first, self.batches.device
        with random_state_kept(device), refused_warnings():
            check_repeats(
                lambda: self.forward.values(batch.raw), self.forward.model, device, self.forward.written_buffers
            )
            if self.forward.written_parameters():
                raise ValueError(
                    f"the model writes to its parameter `{self.forward.written_parameters()[0]}` in its forward, so "
                    "that it is no free parameter. Write to it outside of the forward, or compute a copy there."
                )
            if self.batches.is_shuffled and len(self.batches) > 1:
                check_examples_independent(self.forward.values, batch, self.loss)

    def _prepare(self) -> None:
        """Compute what depends on the values of the parameters: divisor, memory of graphs, class means."""
        self.cache.clear()
        self._means: ClassMeans | None = None
        self.divisor = self._divisor()
        with LowPrecision() as seen:
            graph = self.ranks.alike_in_passes(self._plan)
        # an operator has one tolerance, that of the rank with the lowest precision
        self.half_dtypes = frozenset().union(*self.ranks.gather(frozenset(seen.dtypes)))
        self.loss_is_linear = is_linear(graph.state)
        self.keeps_all_graphs = self.ranks.all(self.cache.keeps_all)
        self.forward.note_state()  # with what the first pass may have set

    def _plan(self) -> Graph:
        """Decide which graphs are kept, and return that of the first batch."""
        if not len(self.batches):
            return self._make_graph(self.batches.first, check=False)
        with self._failures_named():
            return self.cache.plan(sum(4 * leaf.numel() for leaf in self.forward.leaves))

    def _find_class_axis(self) -> None:
        """Evaluate batches until one tells which axis of the outputs holds the classes."""
        for batch in self.batches:
            if isinstance(self.loss, CrossEntropy) and self.loss.note_axis(
                self.forward.values(batch.raw), batch.target
            ):
                return

    def for_batch(self, batch: Batch) -> Engine:
        """Return an engine with one batch as its data, and the divisor of that batch."""
        if self.forward.is_sharded:
            raise ValueError("batches have no products of their own where ranks share the rows of parameters")
        other = copy.copy(self)
        other.batches = self.batches.only(batch)
        other.ranks, other._several = Ranks(), False
        other._check = False
        other.cache = GraphCache(other.batches, other._make_graph, budget=self.cache.given_budget)
        other._prepare()
        return other

    def _make_graph(self, batch: Any, *, check: bool) -> Graph:
        make_state = self._state if batch.counts else self._state_of_nothing
        return Graph(self.forward, batch, make_state, check=check)

    def _state(self, output: Tensor, target: Any) -> State:
        state = self.loss.state(output, target, self.divisor)
        self.forward.forget_counters()
        return state

    def _state_of_nothing(self, output: Tensor, target: Any) -> State:
        """Return the state of a batch that does not count: all derivatives are zero."""
        return self.loss.state(output, target, torch.full_like(self.divisor, torch.inf))

    def _local_count(self) -> tuple[Any, SomeRows | None]:
        """Return the sum of the counts of the batches, and examples with which other ranks compare their mean."""
        total, rows = None, None
        if getattr(self.batches.count, "__self__", None) is self.loss:  # counted while the data was read
            total = self.batches.total
        for batch in self.batches if total is None else ():
            output = self.forward.values(batch.raw) if self.loss.needs_output else None
            if not batch.counts:
                continue
            with torch.no_grad():
                count = self.loss.count(output, batch.target)
                rows = self._verified_rows(output, batch.target, rows)
            self.forward.forget_counters()
            total = count if total is None else total + count
        return None if total is None else total.to(self.batches.device), rows

    def _verified_rows(self, output: Any, target: Any, rows: SomeRows | None) -> SomeRows | None:
        """Refuse a mean of unknown count over several batches."""
        if not (isinstance(self.loss, PlainLoss) and self._several and self.loss.needs_verified_mean):
            return None
        return verified_rows(self.loss, output, target, rows)

    def _divisor(self) -> Tensor:
        number = torch.zeros((), dtype=torch.float64, device=self.batches.device)
        local, rows = self.ranks.alike_in_passes(self._local_count)
        total = self.ranks.total(local, number)
        if self.ranks.size > 1 and isinstance(self.loss, PlainLoss) and self.loss.needs_verified_mean:
            found = [each for each in self.ranks.gather(None if rows is None else rows.on_host()) if each is not None]
            for other in found[1:]:
                verified_rows(self.loss, found[0].output, found[0].target, other)
        divisor = self.loss.divisor(total)
        if not divisor.is_meta and not float(divisor) > 0:
            why = "Are all of them ignored?" if any(self.batches.sizes) else "The batches of `data` are empty."
            raise ValueError(f"the targets must count: the loss divides by {float(divisor):g}. {why}")
        return divisor

    @contextlib.contextmanager
    def _failures_named(self) -> Iterator[None]:
        """Name the module in which the current batch cannot be differentiated as needed."""
        try:
            yield
        except RuntimeError as error:
            if not any(words in str(error) for words in _DERIVATIVE_WORDS):
                raise
            if self.forward.is_sharded:  # one rank alone cannot evaluate the model to find out where
                raise ValueError(f"the model cannot be differentiated twice: {str(error).splitlines()[0]}") from error
            raw = self.cache.current.raw
            raise name_failure(error, lambda: self.forward.values(raw), self.forward.model) from error

    def refresh(self) -> None:
        """Start anew if the model has changed since the last product; refuse data that has."""
        self.batches.check_unchanged()
        has_other_attributes = self.forward.has_other_attributes
        has_changed = has_other_attributes or self.forward.has_other_values
        if self.forward.is_sharded:  # all ranks start anew, or none
            flag = torch.tensor(float(has_changed), dtype=torch.float64, device=self.batches.device)
            has_changed = bool(self.ranks.add_(flag))
        if has_changed:
            _log.info("the model has changed: graphs are made anew")
            if self.forward.has_other_loss and not isinstance(self.loss, PlainLoss):
                raise ValueError(
                    "`loss` has other settings than when the Curvature was made, which took them. Make a new Curvature."
                )
            try:
                self.forward.refresh()
                if has_other_attributes:
                    self._check_model()
                self.batches.total = None  # class weights may be others
                self._prepare()
            except Exception:
                self.forward.forget_state()  # refused now, and refused the next time
                raise

    # -- the loss --------------------------------------------------------------------------------------------------

    def value(self) -> float:
        """Return the value of the loss over the data."""
        self.refresh()
        total = 0.0
        for batch in self.batches:
            with torch.no_grad():
                value = self.loss.value(self.forward.values(batch.raw), batch.target)
            self.forward.forget_counters()
            total += float(value) if batch.counts else 0.0
        whole = self.ranks.total(total, torch.zeros((), dtype=torch.float64, device=self.batches.device))
        return float(whole) / float(self.divisor)

    def states(self) -> Iterator[State]:
        """Yield the derivatives of the loss at the outputs of every batch."""
        self.refresh()
        for graph, _ in self.cache:
            yield graph.state

    def class_means(self) -> ClassMeans:
        """Return the weights of the class means, from one pass over the outputs when first asked for."""
        if self._means is None:
            self._means = ClassMeans(*self._class_weights())
        return self._means

    def _class_weights(self) -> tuple[Tensor, Tensor]:
        """Return the classes that occur on any rank, and the sums of their weights."""
        states: Iterator[Any] = self.states()
        local = merged_sums((state.labels, state.mass) for state in states) if len(self.batches) else None
        if self.ranks.size == 1 and local is not None:
            return local
        found = self.ranks.gather(None if local is None else tuple(x.cpu() for x in local))
        device = self.batches.device
        return merged_sums((part[0].to(device), part[1].to(device)) for part in found if part is not None)

    # -- products --------------------------------------------------------------------------------------------------

    def run(self, tasks: Sequence[Task]) -> None:
        """Compute all products in one pass over the batches, or two where class means are needed.

        One call at a time: threads that share the operator wait for each other.
        """
        with self._lock:
            self._run_or_restart(tasks)

    def _run_or_restart(self, tasks: Sequence[Task]) -> None:
        self.refresh()
        try:
            with self._failures_named():
                self._run(tasks)
        except ValueError:
            if "forward" not in (self.route, self.block_route) or self.ranks.size > 1:
                raise
            # a later batch may lead through operations that have no forward mode
            self.route = self.block_route = DOUBLE_BACKWARD
            _log.info("Jv by double backward: forward mode failed")
            for task in tasks:
                task.restart()
            with self._failures_named():
                self._run(tasks)

    def _run(self, tasks: Sequence[Task]) -> None:
        if not tasks:
            return
        several, columns = self._several, len(tasks)
        means = self.class_means() if any(task.coefficients.coupled for task in tasks) else None
        coupled = [task for task in tasks if task.coefficients.coupled and several]
        direct = [task for task in tasks if not (task.coefficients.coupled and several)]
        tables: list[tuple[Tensor, Tensor]] = []
        if coupled and means is not None:
            for graph, kept in self.cache:
                for task in coupled:
                    self._gather(graph, task, columns, means, kept=kept)
            for task in coupled:
                task.sums = self.ranks.total(task.sums, means.weights)
            tables = [means.table(task.sums, task.coefficients) for task in coupled]
        for number, (graph, kept) in enumerate(self.cache):
            for task in direct:
                self._add_product(graph, task, columns, means, kept=kept)
            for task, (table, beta) in zip(coupled, tables, strict=True):
                state: Any = graph.evaluate()
                a = state.differences(task.jvps[number]) if task.jvps else None
                graph.vjp(task.subset, component_cotangent(state, a, table, beta, self.class_means()), task.buffer)
        for task in tasks:
            task.buffer.finish(task.factor)
            self.ranks.add_product_(task.out)

    def _add_product(self, graph: Graph, task: Task, columns: int, means: ClassMeans | None, *, kept: bool) -> None:
        """Add the product with one batch, which needs no other batch."""
        coefficients = task.coefficients

        def output_hessian(u: Tensor) -> Tensor:  # evaluated late: outputs with a graph also give the state
            if coefficients.coupled and means is not None:
                return single_batch_component(graph.state, u, coefficients, means)
            factor, product = coefficients.parts[0], graph.state.curvature(u)
            return product if factor == 1.0 else factor * product

        if coefficients.h:
            chosen = output_hessian if coefficients.has_g else None
            graph.hessian(task.subset, task.v, task.buffer, chosen)
        elif coefficients.has_g:
            u = graph.jvp(task.subset, task.v, self._route(graph, task, columns, kept=kept), record=not kept)
            graph.vjp(task.subset, output_hessian(u), task.buffer)

    def _gather(self, graph: Graph, task: Task, columns: int, means: ClassMeans, *, kept: bool) -> None:
        """Add a batch to the class sums of Jv and, where H is asked for, to the product."""
        if task.coefficients.h:
            u = graph.hessian_and_jvp(task.subset, task.v, task.buffer, None)
        else:
            u = graph.jvp(task.subset, task.v, self._route(graph, task, columns, kept=kept))
        sums = sums_of_differences(graph.state, u, means)
        task.sums = sums if task.sums is None else task.sums.add_(sums)
        if task.coefficients.has_b2:
            task.jvps.append(u)

    def together(self, subset: Subset, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return Hx and Gx: one double backward per batch gives Hx and Jx, one backward JᵀSJx."""
        self.refresh()
        H, G = (Task(part, subset, x, torch.empty_like(x)) for part in (Coefficients(1.0), Coefficients()))
        with self._failures_named():
            for graph, _ in self.cache:
                u = graph.hessian_and_jvp(subset, H.v, H.buffer, None)
                graph.vjp(subset, graph.state.curvature(u), G.buffer)
        H.buffer.finish(1.0)
        G.buffer.finish(1.0)
        return self.ranks.add_product_(H.out), self.ranks.add_product_(G.out)

    def differential(self, subset: Subset, x: Tensor) -> Iterator[tuple[State, Tensor]]:
        """Yield the state and Jx of every batch."""
        self.refresh()
        task = Task(Coefficients(), subset, x, torch.empty_like(x))
        for graph, kept in self.cache:
            u = graph.jvp(subset, task.v, self._route(graph, task, 1, kept=kept))
            yield graph.state, u

    def transposed(self, subset: Subset, cotangents: Callable[[int, Any], Tensor], out: Tensor) -> Tensor:
        """Return Σ Jᵀq over the batches; ``cotangents(number, state)`` gives the q of a batch."""
        self.refresh()
        buffer = GradientBuffer(subset, out)
        for number, (graph, _) in enumerate(self.cache):
            graph.vjp(subset, cotangents(number, graph.evaluate()), buffer)
        buffer.finish(1.0)
        return out

    def _route(self, graph: Graph, task: Task, columns: int, *, kept: bool) -> str:
        """Return the way to Jv, found by timing when first asked for.

        Several columns share the graph of a batch by double backward, and only its outputs in forward mode.
        """
        if self.forward.differentiates or self.forward.recomputes:
            return DOUBLE_BACKWARD  # forward mode leads neither through gradients in the model nor through checkpoints
        if columns > 1 and not kept:
            if self.block_route is None:
                self.block_route = faster_route(graph, task, columns, kept=kept)
            return self.block_route
        if self.route is None:
            self.route = faster_route(graph, task, 1, kept=kept)
        return self.route
