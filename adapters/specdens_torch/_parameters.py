"""Which parameters, and where each of them lies in a flat vector."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from specdens.adapters import Vectors, vectors_like


@dataclass(frozen=True)
class Subset:
    """Some of the parameters, and their places in a flat vector."""

    indices: tuple[int, ...]
    """Numbers of the parameters among all that the engine differentiates."""
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    whole_shapes: tuple[tuple[int, ...], ...] | None = None
    """Where ranks share the rows of parameters: the shapes of whole ones. Those in `shapes` are of this rank's rows."""
    first_rows: tuple[int, ...] = ()
    """The first of this rank's rows of every parameter."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(torch.Size(shape).numel()) for shape in self.shapes)

    @property
    def num_entries(self) -> int:
        return sum(self.sizes)

    @property
    def num_whole(self) -> int:
        """The number of entries on all ranks."""
        return sum(int(torch.Size(shape).numel()) for shape in self.whole_shapes or self.shapes)

    @property
    def ranges(self) -> list[range]:
        """Which entries of the whole flat vector this rank has."""
        found, start = [], 0
        firsts = self.first_rows or (0,) * len(self.shapes)
        for size, first, whole in zip(self.sizes, firsts, self.whole_shapes or self.shapes, strict=True):
            begin = start + first * int(torch.Size(whole[1:]).numel())
            found.append(range(begin, begin + size))
            start += int(torch.Size(whole).numel())
        return [each for each in found if len(each)]

    def views(self, x: Tensor) -> list[Tensor]:
        """Return the parts of a flat vector in the shapes of the parameters, without a copy."""
        return [part.view(shape) for part, shape in zip(x.split(self.sizes), self.shapes, strict=True)]

    def tangents(self, x: Tensor) -> list[Tensor]:
        """Return the parts of a flat vector in the shapes and dtypes of the parameters."""
        return [part.to(dtype) for part, dtype in zip(self.views(x), self.dtypes, strict=True)]

    def unflatten(self, x: Tensor) -> dict[str, Tensor]:
        """Return a flat vector as named views in the shapes of the parameters."""
        if tuple(x.shape) != (self.num_entries,):
            raise ValueError(f"`x` must have shape ({self.num_entries},); got {tuple(x.shape)}")
        return dict(zip(self.names, self.views(x), strict=True))

    def flatten(self, named: Mapping[str, Tensor], *, dtype: Any, device: Any) -> Tensor:
        """Return named tensors as one flat vector."""
        missing = [name for name in self.names if name not in named]
        if missing:
            raise ValueError(f"`named` must have an entry for every parameter; {missing[0]!r} is missing")
        out = torch.empty(self.num_entries, dtype=dtype, device=device)
        for name, view in self.unflatten(out).items():
            if named[name].shape != view.shape:
                raise ValueError(
                    f"`named[{name!r}]` must have shape {tuple(view.shape)}; got {tuple(named[name].shape)}"
                )
            view.copy_(named[name].detach())
        return out

    def describe(self) -> str:
        """Return the names of the parameters, shortened where there are many."""
        shown = ", ".join(self.names[:3])
        return shown if len(self.names) <= 3 else f"{shown}, … {len(self.names)} parameters"

    def restricted(self, names: Iterable[str]) -> Subset:
        """Return the part of this subset that has the given names, in this order."""
        wanted = set(names)
        chosen = [k for k, name in enumerate(self.names) if name in wanted]
        return Subset(
            tuple(self.indices[k] for k in chosen),
            tuple(self.names[k] for k in chosen),
            tuple(self.shapes[k] for k in chosen),
            tuple(self.dtypes[k] for k in chosen),
            None if self.whole_shapes is None else tuple(self.whole_shapes[k] for k in chosen),
            tuple(self.first_rows[k] for k in chosen) if self.first_rows else (),
        )


def subset_of(parameters: Mapping[str, Tensor]) -> Subset:
    """Return all of the given parameters as a subset."""
    return Subset(
        tuple(range(len(parameters))),
        tuple(parameters),
        tuple(tuple(p.shape) for p in parameters.values()),
        tuple(p.dtype for p in parameters.values()),
    )


def select(model: nn.Module, params: Any) -> dict[str, Tensor]:
    """Return the chosen parameters of a model by name: all that require gradients, or what `params` says."""
    named = dict(model.named_parameters())  # a tied parameter appears once, under its first name
    if params is None:
        chosen = {name for name, p in named.items() if p.requires_grad}
        if not chosen:
            raise ValueError("`model` has no parameter that requires a gradient; name some with params=")
    else:
        chosen = set()
        for item in [params] if isinstance(params, str | nn.Module | Tensor) else _as_sequence(params):
            chosen |= _names(model, named, item)
    selected = {name: p for name, p in named.items() if name in chosen}
    for name, p in selected.items():
        if not p.is_floating_point():
            raise TypeError(f"`params` must be real floating-point parameters; {name!r} is {p.dtype}")
    devices = {p.device for p in selected.values()}
    if len(devices) > 1:
        raise ValueError(f"`params` must be on one device; got {', '.join(sorted(map(str, devices)))}")
    return selected


def _as_sequence(params: Any) -> Sequence[Any]:
    try:
        items = list(params)
    except TypeError:
        raise TypeError(
            f"`params` must be names, glob patterns, modules or parameters; got {type(params).__name__}"
        ) from None
    if not items:
        raise ValueError("`params` must name at least one parameter; got none")
    return items


def _names(model: nn.Module, named: dict[str, Tensor], item: Any) -> set[str]:
    """Return the names that one item of `params` stands for."""
    aliases = dict(model.named_parameters(remove_duplicate=False))
    if isinstance(item, str):
        tensors = [p for name, p in aliases.items() if fnmatch.fnmatchcase(name, item) or name.startswith(item + ".")]
        if not tensors:
            some = ", ".join(list(aliases)[:4])
            raise ValueError(
                f"`params` must match parameters of the model; {item!r} matches none of its {len(aliases)} ({some}, …)"
            )
    elif isinstance(item, nn.Module):
        tensors = list(item.parameters())
    elif isinstance(item, Tensor):
        tensors = [item]
    else:
        raise TypeError(f"`params` must be names, glob patterns, modules or parameters; got {type(item).__name__}")
    names = {name for name, p in named.items() if any(p is tensor for tensor in tensors)}
    if len(names) < len({id(tensor) for tensor in tensors}):
        if isinstance(item, Tensor):
            raise ValueError(
                f"`params` must belong to the model; got a tensor of shape {tuple(item.shape)} that is no parameter of "
                "it"
            )
        raise ValueError(
            f"`params` must belong to the model; {type(item).__name__} has a parameter that is not the model's"
        )
    return names


def curvature_vectors(dtypes: Iterable[Any], dtype: Any, device: Any) -> Vectors:
    """Return the vectors of an operator, with the rounding of products that are computed in the parameters' dtypes."""
    vectors = vectors_like(torch.empty(0, dtype=dtype, device=device))
    for other in dtypes:
        eps = float(torch.finfo(other).eps)
        # tolerances are √eps: four units of a half precision, half of the digits otherwise
        vectors.eps = max(vectors.eps, eps if eps < 1e-5 else (4 * eps) ** 2)
    return vectors


def vector_dtype(dtypes: Iterable[Any]) -> Any:
    """Return the dtype of the vectors: that of the parameters, float32 at least."""
    dtype = torch.float32
    for other in dtypes:
        dtype = torch.promote_types(dtype, other)
    return dtype
