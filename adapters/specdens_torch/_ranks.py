"""The processes that share a data set: sums over them, and agreement between them.

Every rank holds the whole model and a part of the data. Local sums over batches become sums over all data by one
all-reduce, so that results are the same on every rank.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DistributedSampler

T = TypeVar("T")


class LostRankError(ConnectionError):
    """A collective operation failed: another rank has ended, raised an error, or makes other calls than this one."""


class Ranks:
    """A single process: sums over ranks have one term, and there is nobody to agree with."""

    rank = 0
    size = 1

    def add_(self, x: Tensor) -> Tensor:
        """Replace x by its sum over the ranks, and return it."""
        return x

    def total(self, x: Any, like: Tensor) -> Any:
        """Return the sum over the ranks of a tensor of the shape and dtype of `like`; None on a rank without data."""
        return x

    def alike(self, work: Callable[[], T]) -> T:
        """Return work(), and raise on every rank if it raises on one."""
        return work()

    def all(self, condition: bool) -> bool:
        """Return whether a condition holds on every rank."""
        return condition

    def gather(self, x: Any) -> list[Any]:
        """Return the objects of all ranks."""
        return [x]

    def same(self, text: str) -> bool:
        """Return whether a text is the same on every rank."""
        return len(set(self.gather(text))) == 1


class GroupRanks(Ranks):
    """The ranks of a process group of torch.distributed.

    Parameters
    ----------
    group : ProcessGroup
        The group.
    """

    def __init__(self, group: Any) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.num_reduced: list[int] = []
        """The number of entries of every all-reduce so far."""

    def add_(self, x: Tensor) -> Tensor:
        self.num_reduced.append(x.numel())
        whole = x.contiguous()  # a column of a block is not
        self._call(lambda: dist.all_reduce(whole, group=self.group))
        return x if whole is x else x.copy_(whole)

    def total(self, x: Any, like: Tensor) -> Any:
        mine = torch.zeros_like(like) if x is None else torch.as_tensor(x, dtype=like.dtype, device=like.device)
        return self.add_(mine.expand_as(like).clone())

    def alike(self, work: Callable[[], T]) -> T:
        result, raised = None, None
        try:
            result = work()
        except Exception as error:
            raised = error
        words = [None if each is None else str(each) for each in self.gather(None if raised is None else str(raised))]
        if raised is not None:
            raise raised
        for rank, text in enumerate(words):
            if text is not None:
                raise ValueError(f"rank {rank} of {self.size}: {text}")
        return result  # type: ignore[return-value]

    def all(self, condition: bool) -> bool:
        return all(self.gather(condition))

    def gather(self, x: Any) -> list[Any]:
        gathered: list[Any] = [None] * self.size
        self._call(lambda: dist.all_gather_object(gathered, x, group=self.group))
        return gathered

    def _call(self, collective: Callable[[], Any]) -> None:
        try:
            collective()
        except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise LostRankError(
                f"rank {self.rank} of {self.size} has lost the others: one of them has ended, raised an error, or did "
                f"not make the same calls within the timeout of the process group ({first}). Run again; a checkpoint "
                "goes on where it was written."
            ) from error


def as_ranks(group: Any) -> Ranks:
    """Return the ranks of a process group: None for the default one where there is one, False for this process alone.

    Raises
    ------
    TypeError
        If it is no process group.
    """
    if group is False or not dist.is_available():
        return Ranks()
    if group is None:
        return GroupRanks(dist.group.WORLD) if dist.is_initialized() and dist.get_world_size() > 1 else Ranks()
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"`group` must be None, False or a process group of torch.distributed; got {group!r}")
    return GroupRanks(group) if dist.get_world_size(group) > 1 else Ranks()


def check_parameters(ranks: Ranks, selected: Mapping[str, Tensor]) -> None:
    """Refuse ranks whose parameters differ in their names, shapes, data types or values."""
    if ranks.size == 1:
        return
    described = {name: (tuple(p.shape), str(p.dtype).removeprefix("torch.")) for name, p in selected.items()}
    sums = {name: _summary(p) for name, p in selected.items()}
    first, values, *_ = (found := ranks.gather((described, sums)))[0]
    for rank, (other, other_values) in enumerate(found):
        where = f"on rank {rank} of {ranks.size}"
        for name in dict.fromkeys([*first, *other]):
            if first.get(name) != other.get(name):
                pair = (_in_words(first.get(name)), _in_words(other.get(name)))
                raise ValueError(
                    f"all ranks must have the same parameters; {name!r} is {pair[0]} on rank 0 and {pair[1]} {where}"
                )
            a, b = values[name], other_values[name]
            if any(abs(x - y) > 1e-6 * (abs(x) + abs(y)) for x, y in zip(a, b, strict=True)):
                raise ValueError(
                    f"all ranks must have the same parameters; {name!r} has other values {where} than on rank 0. Load "
                    "the same state, or set the same seed before the model is made."
                )


def _summary(p: Tensor) -> tuple[float, float]:
    """Return two numbers that tell the values of a tensor from others: its norm, and a weighted one."""
    flat = p.detach().reshape(-1)
    if flat.is_meta or not flat.numel():
        return (0.0, 0.0)
    first = flat[: max(1, flat.numel() // 3)]
    return tuple(float(torch.linalg.vector_norm(x, dtype=torch.float64)) for x in (flat, first))  # type: ignore[return-value]


def _in_words(described: tuple[Any, str] | None) -> str:
    return "missing" if described is None else f"{described[1]} of shape {described[0]}"


def check_sampler(data: Any, ranks: Ranks) -> None:
    """Refuse a DistributedSampler that repeats examples to give every rank the same number."""
    sampler = getattr(data, "sampler", None)
    if ranks.size == 1 or not isinstance(sampler, DistributedSampler):
        return
    length = len(sampler.dataset)
    if length % sampler.num_replicas:
        what = "leaves out" if sampler.drop_last else "repeats"
        raise ValueError(
            f"`data` has a DistributedSampler that {what} examples, as {length} is no multiple of "
            f"{sampler.num_replicas} ranks. Give every rank its own examples, such as "
            "torch.utils.data.Subset(dataset, range(rank, len(dataset), world_size)); numbers may differ."
        )
