"""Dividing the parameters of a model among ranks."""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

import torch.distributed as dist
from torch import nn

from specdens_torch._sharding.parts import is_sharded

M = TypeVar("M", bound=nn.Module)


def shard_parameters(model: M, *, group: Any = None) -> M:
    """Replace every parameter of a model by its rows on this rank, so that whole parameters take no memory.

    Parameters become DTensors of torch.distributed with ``Shard(0)``: rank r of R has the r-th part of the rows of
    each. `Curvature` then shares its vectors in the same way. To divide a model that is too large for one device, call
    this on a model on the "meta" device, and load the parts with ``model.to_empty(device=...)`` and
    torch.distributed.checkpoint.

    Parameters
    ----------
    model : Module
        The model, the same on every rank. It is changed in place. Its own forward does not gather the parameters:
        `Curvature` does.
    group : ProcessGroup, optional
        The ranks; by default those of the default process group.

    Returns
    -------
    Module
        The same model.

    Raises
    ------
    RuntimeError
        If there is no process group.

    Examples
    --------
    On every rank of ``torchrun --nproc-per-node 2 script.py``::

        dist.init_process_group()
        model = sdt.shard_parameters(make_model().eval())
        curv = sdt.Curvature(model, loss, sdt.shard(loader))
        density = curv.density("Hess", checkpoint="run.npz")      # the same on every rank

    One process is a group, too:

    >>> import torch, torch.distributed as dist, specdens_torch as sdt
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = sdt.shard_parameters(torch.nn.Linear(4, 3))
    >>> type(model.weight.data).__name__, tuple(model.weight.to_local().shape)
    ('DTensor', (3, 4))
    >>> dist.destroy_process_group()
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError("there are no ranks: call torch.distributed.init_process_group() first, as under torchrun")
    dtensor: Any = importlib.import_module("torch.distributed.tensor")  # which takes its time
    places: dict[int, list[tuple[nn.Module, str]]] = {}  # a parameter may be that of several modules
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False, remove_duplicate=False):
            if not is_sharded(p):
                places.setdefault(id(p), []).append((module, name))
    kind = next(model.parameters()).device.type
    mesh = dtensor.DeviceMesh.from_group(
        dist.group.WORLD if group is None else group, "cpu" if kind == "meta" else kind
    )
    for (module, name), *others in places.values():
        p = module.get_parameter(name)
        placement = dtensor.Shard(0) if p.dim() else dtensor.Replicate()
        divided = nn.Parameter(dtensor.distribute_tensor(p.detach(), mesh, [placement]), p.requires_grad)
        for place, label in [(module, name), *others]:
            setattr(place, label, divided)
    return model
