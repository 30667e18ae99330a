"""Groups of parameters that a person recognises: modules, kinds of layers, blocks and their parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn

from specdens_torch._parameter_roles import role_of

NAMED = ("type", "role", "block", "block role")

_NUMBERED = re.compile(r"(?:(?:[a-z]+_)?(?:layer|block|stage)_?)?(\d+)")  # "3", "encoder_layer_3", "layer1"


def parameter_groups(
    model: nn.Module, names: Sequence[str], by: int | str | Mapping[str, Iterable[str]] | None
) -> dict[str, Any]:
    """Return groups of parameter names.

    Parameters
    ----------
    model : Module
        The model.
    names : sequence of str
        The parameters to be grouped.
    by : int, str or mapping, optional
        None for one group per module; a number of name parts; "type" (the class of the module), "role" (attention,
        mlp, embedding, norm, …), "block" (layers that are numbered), "block role" (both); or groups as name -> params.
    """
    if isinstance(by, Mapping):
        return {name: list(params) if not isinstance(params, str) else params for name, params in by.items()}
    if isinstance(by, str):
        if by not in NAMED:
            raise ValueError(f"`by` must be one of {', '.join(NAMED)}, a number or a dict of groups; got {by!r}")
        return _grouped(names, lambda name: _label(model, name, by))
    if by is not None and (isinstance(by, bool) or not isinstance(by, int) or by < 1):
        raise ValueError(
            f"`by` must be None, a number of name parts, one of {', '.join(NAMED)} or a dict of groups; got {by!r}"
        )

    def prefix(name: str) -> str:
        parts = name.split(".")
        depth = max(1, len(parts) - 1)
        return ".".join(parts[: depth if by is None else min(by, depth)])

    return _grouped(names, prefix)


def _grouped(names: Sequence[str], label: Any) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(label(name), []).append(name)
    return groups


def _label(model: nn.Module, name: str, by: str) -> str:
    if by == "type":
        return type(model.get_submodule(name.rpartition(".")[0])).__name__
    role = role_of(model, name)
    if by == "role":
        return role
    block = _block(name)
    if block is None:
        return role
    return block if by == "block" else f"{block} {role}"


def _block(name: str) -> str | None:
    """Return the first numbered part of a name: "block 3", "encoder block 3", or "block 2.0" of stages with blocks."""
    parts = name.split(".")[:-1]
    for k, part in enumerate(parts):
        found = _NUMBERED.fullmatch(part)
        if found is None:
            continue
        number = found[1]
        if not part.isdigit() and k + 1 < len(parts) and parts[k + 1].isdigit():
            number += f".{parts[k + 1]}"
        sides = [side for side in parts[:k] if side in ("encoder", "decoder")]
        return " ".join([*sides[:1], "block", number])
    return None
