"""Agreement of the ranks that share a data set: whatever must be the same on each of them is compared at the start.

A difference that nobody sees would not stop a run: the sum of products of two models is a product too, of nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten_with_path
from torch.utils.data import DistributedSampler

from specdens_torch._ranks import Ranks

Fact = tuple[str, tuple[float, ...]]
"""What is compared of a thing: words, which must be equal, and numbers, which may differ by rounding."""

_ROUNDING = 1e-6  # relative: models that were moved or loaded otherwise


def check_model(ranks: Ranks, model: nn.Module, selected: Mapping[str, Tensor]) -> None:
    """Refuse ranks whose models differ: in parameters, chosen or not, buffers that are saved, or layers."""
    if ranks.size == 1:
        return
    chosen = {id(p) for p in selected.values()}
    parameters = {name: (_described(p, id(p) in chosen), _summary(p)) for name, p in model.named_parameters()}
    buffers = {name: (_described(b), _summary(b)) for name, b in _saved_buffers(model)}
    layers = {name: _layer(module) for name, module in model.named_modules()}
    found = ranks.gather((list(selected), parameters, buffers, layers))
    first = found[0]
    for rank, other in enumerate(found):
        where = f"on rank {rank} of {ranks.size}"
        for kind, mine, theirs in (("parameters", first[1], other[1]), ("buffers", first[2], other[2])):
            for name in dict.fromkeys([*mine, *theirs]):
                _compare_tensors(kind, name, mine.get(name), theirs.get(name), where)
        for name in dict.fromkeys([*first[3], *other[3]]):
            a, b = first[3].get(name, "missing"), other[3].get(name, "missing")
            if a != b:
                raise ValueError(f"all ranks must have the same layers; {name!r} is {a} on rank 0 and {b} {where}")
        for place, (a, b) in enumerate(zip(first[0], other[0], strict=False)):
            if a != b:
                raise ValueError(
                    f"all ranks must have their parameters in the same order; number {place} is {a!r} on rank 0 and "
                    f"{b!r} {where}"
                )


def check_arguments(ranks: Ranks, arguments: Mapping[str, Any]) -> None:
    """Refuse ranks on which arguments of `Curvature` differ: numbers, options of a loss, names of functions."""
    if ranks.size == 1:
        return
    mine: dict[str, Fact] = {}
    for name, value in arguments.items():
        mine |= _facts(f"`{name}`", value)
    found = ranks.gather(mine)
    for rank, other in enumerate(found):
        for key in dict.fromkeys([*found[0], *other]):
            a, b = (each.get(key, ("missing", ())) for each in (found[0], other))
            where = f"on rank {rank} of {ranks.size}"
            if a[0] != b[0]:
                raise ValueError(f"all ranks must have the same {key}; it is {a[0]} on rank 0 and {b[0]} {where}")
            if _differ(a[1], b[1]):
                raise ValueError(
                    f"all ranks must have the same {key}; it has other values {where} than on rank 0. Compute it from "
                    "all of the data, not from the part of a rank."
                )


def check_data_types(ranks: Ranks, raw: Any) -> None:
    """Refuse ranks whose first batches have tensors of other dtypes in the same places; None is a rank without data."""
    if ranks.size == 1:
        return
    leaves = [] if raw is None else tree_flatten_with_path(dict(raw) if isinstance(raw, Mapping) else raw)[0]
    mine = {keystr(path): _dtype(t) for path, t in leaves if isinstance(t, Tensor)}
    seen: dict[str, tuple[int, str]] = {}
    for rank, found in enumerate(ranks.gather(mine)):
        for place, dtype in found.items():
            first, known = seen.setdefault(place, (rank, dtype))
            if known != dtype:
                raise ValueError(
                    f"all ranks must have data of the same types; batch{place} is {known} on rank {first} and {dtype} "
                    f"on rank {rank} of {ranks.size}"
                )


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


def _compare_tensors(kind: str, name: str, mine: Any, theirs: Any, where: str) -> None:
    (a, values), (b, others) = (("missing", ()) if each is None else each for each in (mine, theirs))
    if a != b:
        raise ValueError(f"all ranks must have the same {kind}; {name!r} is {a} on rank 0 and {b} {where}")
    if _differ(values, others):
        raise ValueError(
            f"all ranks must have the same {kind}; {name!r} has other values {where} than on rank 0. Load the same "
            "state, or set the same seed before the model is made."
        )


def _differ(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x != y and (x == x or y == y)]  # two nans are alike
    return any(not abs(x - y) <= _ROUNDING * (abs(x) + abs(y)) for x, y in pairs)


def _dtype(t: Tensor) -> str:
    return str(t.dtype).removeprefix("torch.")


def _described(t: Tensor, is_chosen: bool = True) -> str:
    words = f"{_dtype(t)} of shape {tuple(t.shape)}"
    return words if is_chosen else f"{words}, frozen or left out by `params`"


def _summary(t: Tensor) -> tuple[float, ...]:
    """Return two numbers that tell the values of a tensor from others: norms of all of it, and of a third."""
    flat = t.detach()
    if hasattr(t, "placements") or flat.is_meta or not flat.numel():  # every rank has other rows of a DTensor
        return (0.0, 0.0)
    flat = flat.reshape(-1)
    wide = torch.complex128 if flat.is_complex() else torch.float64
    first = flat[: max(1, flat.numel() // 3)]
    if not (flat.is_floating_point() or flat.is_complex()):
        flat, first = flat.to(wide), first.to(wide)
    return tuple(float(torch.linalg.vector_norm(x, dtype=wide)) for x in (flat, first))


def _saved_buffers(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the buffers that a model is saved with, but for counters; others are caches that data may have filled."""
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is None or name in module._non_persistent_buffers_set or name == "num_batches_tracked":
                continue
            yield f"{prefix}.{name}" if prefix else name, buffer


def _layer(module: nn.Module) -> str:
    """Return the class of a module, with the options that torch's own modules print."""
    kind = type(module)
    options = module.extra_repr() if kind.__module__.startswith("torch.nn.") else ""
    return f"{kind.__name__}({options})"


def _facts(name: str, value: Any) -> dict[str, Fact]:
    """Return what is compared of an argument: its words and numbers, and those of its parts."""
    if value is None or isinstance(value, bool | int | float | str):
        return {name: (repr(value), ())}
    if isinstance(value, Tensor):
        return {name: (_described(value), _summary(value))}
    if isinstance(value, functools.partial):
        parts = {f"{key} of {name}": part for key, part in value.keywords.items()}
        parts |= {f"argument {k} of {name}": part for k, part in enumerate(value.args)}
        facts: dict[str, Fact] = {name: (f"partial of {_name(value.func)}", ())}
    else:
        plain = value if callable(value) and hasattr(value, "__qualname__") else type(value)
        facts, parts = {name: (_name(plain), ())}, _attributes(name, value)
    for key, part in parts.items():
        if part is None or isinstance(part, bool | int | float | str | Tensor):
            facts |= _facts(key, part)
    return facts


def _attributes(name: str, value: Any) -> dict[str, Any]:
    """Return the attributes of a loss that is an object: its options, and the tensors of a module."""
    if hasattr(value, "__qualname__"):
        return {}
    own = {key: part for key, part in getattr(value, "__dict__", {}).items() if not key.startswith("_")}
    if isinstance(value, nn.Module):
        own |= {**dict(value.named_parameters()), **dict(value.named_buffers())}
    return {f"{key} of {name}": part for key, part in own.items() if key != "training"}


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
