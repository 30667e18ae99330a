"""The weight matrices of a model, by layer: which tensors they are, and how each becomes a matrix."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from specdens_torch._sharding.parts import is_sharded

_CONVOLUTIONS = (
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)


@dataclass(frozen=True)
class WeightMatrix:
    """A weight as a matrix: of shape (groups, rows, columns), where one group is the usual case."""

    name: str
    kind: str
    """The class of the module, or "tensor"."""
    tensor: Tensor
    """As the model holds it."""
    groups: int = 1
    aliases: tuple[str, ...] = ()
    """Other names of the same tensor: tied weights."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of every group: the first dimension against all others."""
        rows = self.tensor.shape[0] // self.groups
        return rows, self.tensor.numel() // self.tensor.shape[0]

    def blocks(self) -> Tensor:
        """Return the matrices in the shape (groups, large side, small side), in single precision at least."""
        rows, columns = self.shape
        blocks = self.tensor.detach().reshape(self.groups, rows, columns)
        if blocks.dtype.itemsize < 4:  # float16, bfloat16 and below: exactly representable in float32
            blocks = blocks.to(torch.float32)
        return blocks if rows >= columns else blocks.mT


def weight_matrices(model: Any, layers: str | Iterable[str] | None) -> tuple[list[WeightMatrix], dict[str, str]]:
    """Return the weight matrices of a model or of a mapping from names to tensors, and what was left out and why."""
    found: dict[Any, WeightMatrix] = {}
    left_out: dict[str, str] = {}
    for weight in _chosen(list(_all_weights(model)), layers):
        reason = _unsuitable(weight)
        if reason is not None:
            left_out[weight.name] = reason
            continue
        t = weight.tensor
        key = (t.data_ptr() or id(t), t.shape, t.stride(), t.device)  # subclasses of tensors may have no address
        first = found.setdefault(key, weight)
        if first is not weight:
            found[key] = replace(first, aliases=(*first.aliases, weight.name))
    if not found:
        why = "".join(f"; {name} has {reason}" for name, reason in left_out.items())
        raise ValueError(f"`model` must have at least one weight matrix; got {type(model).__name__} without{why}")
    return list(found.values()), left_out


def _all_weights(model: Any) -> Iterator[WeightMatrix]:
    """Yield every parameter (or tensor of a mapping) of two or more dimensions; vectors are no matrices."""
    if isinstance(model, nn.Module):
        for path, module in model.named_modules():
            path = path.replace("_orig_mod.", "").removeprefix("_orig_mod")  # torch.compile wraps the model
            for name, tensor in _tensors(module):
                if _dimensions(tensor) > 1:
                    yield WeightMatrix(_label(path, name), _kind(module), tensor, _groups(module, name))
    elif isinstance(model, Mapping):
        for name, value in model.items():
            tensor = value if isinstance(value, Tensor) else _as_tensor(str(name), value)
            if tensor.dim() > 1:
                short = str(name).removesuffix(".weight")
                yield WeightMatrix(str(name) if short in model else short, "tensor", tensor)
    else:
        raise TypeError(
            f"`model` must be a torch.nn.Module or a mapping from names to tensors; got {type(model).__name__}"
        )


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters of a module itself, as its products use them."""
    if isinstance(module, parametrize.ParametrizationList):
        return  # their module has the tensor that is computed from them
    made: dict[str, Tensor] = {}
    if parametrize.is_parametrized(module):
        assert isinstance(module.parametrizations, nn.ModuleDict)
        for name, parametrizations in module.parametrizations.items():
            # a copy in eval mode: spectral_norm would otherwise take a step of its power iteration
            made[name] = copy.deepcopy(parametrizations).eval()()
    hidden: set[str] = set()
    for hook in module._forward_pre_hooks.values():  # weight_norm, spectral_norm and prune of torch.nn.utils
        name = getattr(hook, "_tensor_name", None) or getattr(hook, "name", None)
        if not isinstance(name, str):
            continue
        if hasattr(hook, "apply_mask"):
            made[name] = hook.apply_mask(module)
        elif type(hook).__name__ == "SpectralNorm":
            made[name] = hook.compute_weight(module, do_power_iteration=False)
        elif type(hook).__name__ == "WeightNorm":
            made[name] = hook.compute_weight(module)
        hidden |= {f"{name}_orig", f"{name}_g", f"{name}_v"} if name in made else set()
    yield from made.items()
    yield from ((name, p) for name, p in module.named_parameters(recurse=False) if name not in hidden | set(made))


def _as_tensor(name: str, value: Any) -> Tensor:
    """Return an entry of a mapping as a tensor."""
    try:
        return torch.as_tensor(np.ascontiguousarray(value))
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"`model` must map names to tensors or arrays; {name!r} is of type {type(value).__name__}. Pass the state "
            "dict itself, without other entries."
        ) from None


def _dimensions(tensor: Tensor) -> int:
    return 2 if isinstance(tensor, nn.parameter.UninitializedParameter) else tensor.dim()


def _label(path: str, name: str) -> str:
    return path if path and name == "weight" else f"{path}.{name}".removeprefix(".")


def _groups(module: nn.Module, name: str) -> int:
    return module.groups if name == "weight" and isinstance(module, _CONVOLUTIONS) else 1


def _chosen(weights: list[WeightMatrix], layers: str | Iterable[str] | None) -> list[WeightMatrix]:
    if layers is None:
        return weights
    patterns = [layers] if isinstance(layers, str) else list(layers)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"`layers` must be names of layers or patterns such as 'blocks.*'; got {pattern!r}")
        if not any(fnmatch.fnmatchcase(weight.name, pattern) for weight in weights):
            known = ", ".join(weight.name for weight in weights[:8]) + (", …" if len(weights) > 8 else "")
            raise ValueError(f"`layers` must name layers with a weight matrix; got {pattern!r}. There are {known}.")
    return [weight for weight in weights if any(fnmatch.fnmatchcase(weight.name, pattern) for pattern in patterns)]


def _unsuitable(weight: WeightMatrix) -> str | None:
    """Return why a tensor has no spectrum that can be computed; refuse those that make the model unusable."""
    tensor = weight.tensor
    if isinstance(tensor, nn.parameter.UninitializedParameter):
        raise ValueError(f"`model` must be initialised; {weight.name!r} has no shape yet. Run it once on a batch.")
    if is_sharded(tensor):
        raise TypeError(f"`model` must hold its weights; {weight.name!r} is sharded. Gather it with full_tensor().")
    if tensor.is_meta:
        raise ValueError(f"`model` must hold its weights; {weight.name!r} is on the meta device. Load them first.")
    if tensor.layout != torch.strided:
        return f"layout {tensor.layout}; call to_dense()"
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return f"dtype {tensor.dtype}: quantised weights must be dequantised first"
    if not tensor.numel():
        return f"no entries, shape {tuple(tensor.shape)}"
    values = tensor.detach() if tensor.dtype.itemsize > 1 else tensor.detach().to(torch.float32)
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"`model` must have finite weights; {weight.name!r} holds nan or inf")
    return None


def _kind(module: nn.Module) -> str:
    """Return the class of a layer, by its usual name where torch has a variant of its own."""
    name = type(module).__name__
    return "Linear" if name == "NonDynamicallyQuantizableLinear" else name
