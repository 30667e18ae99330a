"""Groups of parameters that a person recognises: modules, kinds of layers, blocks and their parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn

NAMED = ("type", "role", "block", "block role")

# Parts of module names and classes, in the order in which they decide.
_ROLES = (
    ("norm", ("norm", "ln_", "ln1", "ln2")),
    ("embedding", ("embed", "wte", "wpe", "position", "cls_token", "relative_attention_bias")),
    ("head", ("lm_head", "classifier", "qa_outputs", "score", "head")),
    ("router", ("router", "gate.weight")),
    ("attention", ("attn", "attention", "mixer", "rnn", "lstm")),
    ("mlp", ("mlp", "ffn", "feed_forward", "intermediate", "experts", "fc", "linear", "dense", "output")),
    ("convolution", ("conv", "downsample")),
)


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
        return type(_owner(model, name)).__name__
    block, role = _block(name), role_of(model, name)
    if by == "role":
        return role
    if block is None:
        return role
    return block if by == "block" else f"{block} {role}"


def _owner(model: nn.Module, name: str) -> nn.Module:
    return model.get_submodule(name.rpartition(".")[0])


def _block(name: str) -> str | None:
    """Return the first numbered part of a name, with what comes before it where that is not plain: "block 3"."""
    parts = name.split(".")
    number = next((k for k, part in enumerate(parts) if part.isdigit()), None)
    if number is None:
        return None
    sides = [part for part in parts[:number] if part in ("encoder", "decoder")]
    return " ".join([*sides[:1], "block", parts[number]])


def role_of(model: nn.Module, name: str) -> str:
    """Return what a parameter is for: norm, embedding, head, router, attention, mlp, convolution or other."""
    kind = type(_owner(model, name)).__name__.lower()
    # the name says more than the class: the innermost part that says anything decides
    for part in [kind, *reversed(name.lower().split(".")[:-1]), name.lower()]:
        for role, words in _ROLES:
            if kind in ("linear", "conv1d") and part == kind:
                continue
            if any(word in part for word in words):
                return role
    return "other"
