"""The processes that share a data set, and sums over them.

Every rank holds the whole model and a part of the data. Local sums over batches become sums over all data by one
all-reduce, so that results are the same on every rank.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

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

    # -- passes over the data, which differ where parameters are shared by their rows --------------------------------

    shares_rows = False
    """Whether every rank holds some rows of the parameters, so that passes over the data are full of messages."""

    def add_product_(self, x: Tensor) -> Tensor:
        """Replace a product over the data of this rank by that over all data, and return it."""
        return self.add_(x)

    def alike_in_passes(self, work: Callable[[], T]) -> T:
        """Return work(), which evaluates the model, and raise on every rank if it raises on one."""
        return self.alike(work)

    def gather_rows(self, rows: Tensor, num_rows: int) -> Tensor:
        """Return a tensor of so many rows, of which every rank has some, in the order of the ranks."""
        return rows

    def sum_rows(self, x: Tensor) -> Tensor:
        """Return the rows of this rank of the sum of a tensor over the ranks."""
        return x


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
        """The number of entries of every all-reduce and reduce-scatter so far."""
        self.num_gathered: list[int] = []
        """The number of entries of every all-gather so far."""

    def add_(self, x: Tensor) -> Tensor:
        self.num_reduced.append(x.numel())
        whole = x.contiguous()  # a column of a block is not
        self._call(lambda: dist.all_reduce(whole, group=self.group))
        return x if whole is x else x.copy_(whole)

    def gather_rows(self, rows: Tensor, num_rows: int) -> Tensor:
        size = -(-num_rows // self.size)
        mine = rows.contiguous() if len(rows) == size else _padded(rows, size)
        out = rows.new_empty((size * self.size, *rows.shape[1:]))
        self.num_gathered.append(num_rows * mine[:1].numel())
        self._call(lambda: _all_gather(out, mine, group=self.group))
        return out[:num_rows]

    def sum_rows(self, x: Tensor) -> Tensor:
        size = -(-len(x) // self.size)
        whole = x.contiguous() if len(x) == size * self.size else _padded(x, size * self.size)
        out = x.new_empty((size, *x.shape[1:]))
        self.num_reduced.append(x.numel())
        self._call(lambda: _reduce_scatter(out, whole, group=self.group))
        return out[: max(0, min(size, len(x) - size * self.rank))]

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


def _padded(rows: Tensor, size: int) -> Tensor:
    out = rows.new_zeros((size, *rows.shape[1:]))
    out[: len(rows)] = rows
    return out


# Torch has renamed them; the old names warn.
_all_gather: Any = getattr(dist, "all_gather_single", None) or getattr(dist, "all_gather_into_tensor", None)
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or getattr(dist, "reduce_scatter_tensor", None)


class _SharedRows:
    """Ranks that hold some rows of every parameter. Gradients are summed layer by layer, within the passes.

    A rank that raises within a pass cannot tell the others, which wait for its part of a layer: they end when its
    process does.
    """

    shares_rows = True

    def add_product_(self, x: Tensor) -> Tensor:
        return x

    def alike_in_passes(self, work: Callable[[], T]) -> T:
        return work()


class OneRowSharingRank(_SharedRows, Ranks):
    """One process alone, which has all rows."""


class RowSharingRanks(_SharedRows, GroupRanks):
    """The ranks of a process group, each with some rows of every parameter."""


def sharing_rows(ranks: Ranks) -> Ranks:
    """Return ranks that share the rows of parameters too."""
    return RowSharingRanks(ranks.group) if isinstance(ranks, GroupRanks) else OneRowSharingRank()


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
