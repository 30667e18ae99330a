"""The part of a data set that belongs to one rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, SequentialSampler, Subset


def shard(data: Any, *, rank: int | None = None, num_ranks: int | None = None) -> Any:
    """Return the part of a data set that belongs to this rank, for `Curvature`: every example on one rank, none twice.

    Parameters
    ----------
    data : DataLoader, iterable of batches or one batch
        All of the data, the same on every rank. A `DataLoader` that reads a data set by index is made anew on every
        `num_ranks`-th example, without shuffling; one with a `DistributedSampler` is returned as it is. Of other
        iterables every `num_ranks`-th batch is taken, and of one batch (x, y) every `num_ranks`-th example.
    rank, num_ranks : int, optional
        By default those of the default process group of torch.distributed; without one, all of the data.

    Returns
    -------
    DataLoader, iterable of batches or one batch
        The part of this rank, which may be empty.

    Raises
    ------
    ValueError
        If a loader shuffles and leaves examples out (``drop_last=True``): ranks would not agree on them.

    Examples
    --------
    >>> import torch, specdens_torch as sdt
    >>> data = [(torch.ones(4, 2), torch.ones(4)) for _ in range(5)]
    >>> [len(list(sdt.shard(data, rank=rank, num_ranks=2))) for rank in (0, 1)]
    [3, 2]
    """
    initialized = dist.is_available() and dist.is_initialized()
    rank = (dist.get_rank() if initialized else 0) if rank is None else rank
    size = (dist.get_world_size() if initialized else 1) if num_ranks is None else num_ranks
    if size == 1:
        return data
    if isinstance(data, DataLoader):
        return _loader_part(data, rank, size)
    if isinstance(data, tuple | list) and len(data) == 2 and all(isinstance(part, Tensor) for part in data):
        part = tuple(tensor[rank::size] for tensor in data)
        return part if len(part[0]) else []
    if isinstance(data, Mapping):
        return data if rank == 0 else []
    if isinstance(data, Iterator):
        return list(islice(data, rank, None, size))
    return _EveryBatch(data, rank, size)


class _EveryBatch:
    """Every `size`-th batch of an iterable, from the `rank`-th on."""

    def __init__(self, data: Iterable[Any], rank: int, size: int) -> None:
        self.data, self.rank, self.size = data, rank, size

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self.data), self.rank, None, self.size)


def _loader_part(loader: DataLoader[Any], rank: int, size: int) -> Any:
    sampler = loader.sampler
    if isinstance(sampler, DistributedSampler):
        return loader
    is_plain = type(loader.batch_sampler) is BatchSampler and type(sampler) in (RandomSampler, SequentialSampler)
    if isinstance(sampler, RandomSampler) and (loader.drop_last or not is_plain or sampler.replacement):
        raise ValueError(
            "`data` must not be a DataLoader that shuffles and leaves examples out or draws them anew: ranks would not "
            "agree on them. Make it with shuffle=False."
        )
    if not is_plain or loader.drop_last or not hasattr(loader.dataset, "__len__"):
        return _EveryBatch(loader, rank, size)
    indices = range(rank, len(loader.dataset), size)
    return DataLoader(
        Subset(loader.dataset, indices),
        batch_size=loader.batch_size,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
    )
