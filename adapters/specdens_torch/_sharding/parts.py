"""Parameters of which every rank holds some rows: where these lie, gathering them, and summing gradients into them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from specdens_torch._parameters import Subset, vector_dtype
from specdens_torch._ranks import Ranks

_LAYOUT = "Shard(0) or Replicate() on a one-dimensional mesh of the ranks that share the data"


def is_sharded(p: Tensor) -> bool:
    """Return whether a parameter is a DTensor, of which this process has some rows."""
    module = sys.modules.get("torch.distributed.tensor")  # there is none where that was not imported
    return module is not None and isinstance(p, module.DTensor)


def local_part(p: Tensor) -> Tensor:
    """Return what this process has of a parameter: the same tensor every time, without a graph."""
    with torch.no_grad():
        return p.to_local() if is_sharded(p) else p


def check_sharding(model: nn.Module, selected: Mapping[str, Tensor], ranks: Ranks, shard_vectors: bool | None) -> bool:
    """Return whether ranks share the rows of vectors; refuse DTensors whose rows are not distributed as theirs are."""
    if shard_vectors not in (None, True, False):
        raise TypeError(f"`shard_vectors` must be None, True or False; got {shard_vectors!r}")
    divided = {name: p for name, p in model.named_parameters() if is_sharded(p)}
    if type(model).__name__.startswith("FSDP") or any(type(m).__name__.startswith("FSDP") for m in model.modules()):
        raise ValueError(
            "`model` is sharded by FSDP, whose hooks have no second derivatives. Use specdens_torch.shard_parameters "
            "instead of fully_shard, or specdens.FiniteDifference."
        )
    if divided and shard_vectors is False:
        raise ValueError("`shard_vectors` must not be False for a model with DTensors: vectors are shared as they are")
    for name, p in divided.items():
        mesh, (placement, *others) = p.device_mesh, p.placements
        fits = not others and mesh.size() == ranks.size and mesh.get_local_rank() == ranks.rank
        if not fits or not (placement.is_shard(dim=0) or placement.is_replicate()):
            raise ValueError(
                f"`model` must have DTensors with {_LAYOUT}; {name!r} has {p.placements} on {mesh}, and {ranks.size} "
                "ranks share the data"
            )
    sharded = bool(divided) or bool(shard_vectors)
    if sharded:
        sharded_subset(selected, ranks)
    return sharded


def rows_of(num_rows: int, ranks: Ranks) -> range:
    """Return the rows of this rank: equal parts but for the last ones, as `Shard(0)` has them."""
    size = -(-num_rows // ranks.size)
    return range(min(size * ranks.rank, num_rows), min(size * (ranks.rank + 1), num_rows))


def sharded_subset(parameters: Mapping[str, Tensor], ranks: Ranks) -> Subset:
    """Return all of the given parameters as a subset of which this rank has some rows."""
    wholes = tuple(_with_rows(p.shape) for p in parameters.values())
    rows = tuple(rows_of(shape[0], ranks) for shape in wholes)
    if not sum(len(each) * torch.Size(shape[1:]).numel() for each, shape in zip(rows, wholes, strict=True)):
        raise ValueError(
            f"rank {ranks.rank} of {ranks.size} has no row of any parameter: there are more ranks than rows. Use fewer "
            "ranks."
        )
    return Subset(
        indices=tuple(range(len(parameters))),
        names=tuple(parameters),
        shapes=tuple((len(each), *shape[1:]) for each, shape in zip(rows, wholes, strict=True)),
        dtypes=tuple(p.dtype for p in parameters.values()),
        whole_shapes=wholes,
        first_rows=tuple(each.start for each in rows),
    )


def _with_rows(shape: Any) -> tuple[int, ...]:
    return tuple(shape) if len(shape) else (1,)


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of one parameter that this rank has.

    Attributes
    ----------
    leaf : Tensor
        The rows, which gradients are taken of.
    shape : tuple of int
        The shape of the whole parameter.
    whole : Tensor or None
        The whole parameter, where every rank has it.
    ranks : Ranks
        The ranks that have the other rows.
    placeholder : Tensor
        What stands for the parameter within the model: its shape, dtype and device, all entries nan, without memory.
    """

    leaf: Tensor
    shape: tuple[int, ...]
    whole: Tensor | None
    ranks: Ranks
    placeholder: Tensor

    def gather(self) -> Tensor:
        """Return the whole parameter."""
        return self.gathered(self.leaf) if self.whole is None else self.whole

    def gathered(self, rows: Tensor) -> Tensor:
        """Return a whole tensor of the parameter's shape from the rows that every rank has of it."""
        return self.ranks.gather_rows(rows.detach(), _with_rows(self.shape)[0]).view(self.shape)

    def summed(self, gradient: Tensor) -> Tensor:
        """Return the rows of this rank of the sum over the ranks, which is computed in the dtype of vectors."""
        wide = vector_dtype([gradient.dtype])
        return self.ranks.sum_rows(gradient.detach().reshape(_with_rows(self.shape)).to(wide)).to(gradient.dtype)


def part_of(p: Tensor, ranks: Ranks, *, differentiated: bool) -> Part:
    """Return the part of a parameter that this rank has: of its memory, not a copy."""
    local, shape, whole = local_part(p).detach(), tuple(p.shape), None
    if not is_sharded(p) or p.placements[0].is_replicate():
        whole = local
        rows = rows_of(_with_rows(shape)[0], ranks)
        local = local.view(_with_rows(shape))[rows.start : rows.stop]
    leaf = local.detach().requires_grad_(differentiated)
    number = torch.full((1,), torch.nan, dtype=p.dtype, device=p.device)
    return Part(leaf, shape, whole, ranks, number.expand(shape) if shape else number[0])
