"""Runs of several operators that share the passes over the data, whatever their parameters and methods.

Every run has a thread of its own and stops where it asks for a product; when all of them have asked, one pass over
the data computes all products. Only one thread works at a time, so that nothing else has to know of this, and they take
turns in the order of the runs: where several processes compute together, all send their messages in the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from specdens.adapters import Operator
from specdens_torch._autodiff.product_task import Task
from specdens_torch._operators.products import EngineOperator

T = TypeVar("T")

# Runs at a time: each holds three vectors of its own length.
_GROUP = 32


class _Abandoned(Exception):
    """Another run has failed."""


class _Rendezvous:
    """Where runs meet: products are computed when every run that is not done has asked for one."""

    def __init__(self, engine: Any, num_runs: int) -> None:
        self._engine = engine
        self.condition = threading.Condition()
        self._failed = False
        self._turns = list(range(num_runs))  # the runs that work, in their order; the first of them is at work
        self._waiting: dict[int, list[Task]] = {}

    def await_turn(self, number: int) -> None:
        """Wait until all runs before this one have asked for a product or are done."""
        self.condition.wait_for(lambda: self._failed or self._turns[0] == number)
        if self._failed:
            raise _Abandoned

    def compute(self, number: int, tasks: list[Task]) -> None:
        """Wait until the tasks are done; the thread holds the lock before and after."""
        self._waiting[number] = tasks
        self._end_turn()
        self.condition.wait_for(lambda: self._failed or number not in self._waiting)
        self.await_turn(number)

    def leave(self, *, failed: bool) -> None:
        """Say that a run is done."""
        if failed:
            self.abandon()
        else:
            self._end_turn()

    def abandon(self) -> None:
        """Let all runs end at their next product."""
        self._failed = True
        self.condition.notify_all()

    def _end_turn(self) -> None:
        """Let the next run work; after the last one, compute what they wait for."""
        del self._turns[0]
        if self._turns or not self._waiting or self._failed:
            self.condition.notify_all()
            return
        tasks = [task for number in sorted(self._waiting) for task in self._waiting[number]]
        try:
            self._engine.run(tasks)
        except BaseException:
            self.abandon()
            raise
        self._turns = sorted(self._waiting)
        self._waiting.clear()
        self.condition.notify_all()


class _Meeting(Operator):
    """An operator whose products are computed together with those of other runs."""

    def __init__(self, A: EngineOperator, rendezvous: _Rendezvous, number: int) -> None:
        super().__init__(A.shape[0], A.vectors)
        self.A, self._rendezvous, self._number = A, rendezvous, number

    def apply(self, x: Tensor) -> Tensor:
        x = x.detach()
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        columns = [(x, out)] if x.dim() == 1 else [(x[:, j], out[:, j]) for j in range(x.shape[1])]
        tasks = [Task(self.A.coefficients, self.A.subset, column, place) for column, place in columns]
        self._rendezvous.compute(self._number, tasks)
        return out


def in_lockstep(operators: Mapping[str, EngineOperator], run: Callable[[str, Operator], T]) -> dict[str, T]:
    """Return what ``run(name, operator)`` returns for every operator; all runs share passes over the data.

    Parameters
    ----------
    operators : mapping of str to EngineOperator
        Operators of one engine, on any sets of parameters.
    run : callable
        What to do with each: any algorithm that needs products only.
    """
    names = list(operators)
    results: dict[str, T] = {}
    for start in range(0, len(names), _GROUP):
        part = {name: operators[name] for name in names[start : start + _GROUP]}
        results |= _run_group(part, run)
    return results


def _run_group(operators: Mapping[str, EngineOperator], run: Callable[[str, Operator], T]) -> dict[str, T]:
    engine = next(iter(operators.values())).engine
    meeting = _Rendezvous(engine, len(operators))
    results: dict[str, T] = {}
    errors: list[BaseException] = []

    def work(number: int, name: str, A: EngineOperator) -> None:
        with meeting.condition:
            failed = True
            try:
                meeting.await_turn(number)
                results[name] = run(name, _Meeting(A, meeting, number))
                failed = False
            except _Abandoned:
                pass
            except BaseException as error:  # raised again by the caller's thread
                errors.append(error)
            try:
                meeting.leave(failed=failed)
            except BaseException as error:
                errors.append(error)

    threads = [
        threading.Thread(target=work, args=(number, name, A), daemon=True)
        for number, (name, A) in enumerate(operators.items())
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:  # an interrupt reaches this thread alone
        with meeting.condition:
            meeting.abandon()
        raise
    if errors:
        raise errors[0]
    return {name: results[name] for name in operators}
