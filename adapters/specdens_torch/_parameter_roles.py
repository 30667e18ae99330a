"""What a parameter is for, from the names and classes of the modules that it is in."""

from __future__ import annotations

import re

from torch import nn

# Words that decide wherever they stand in the name of a module, the innermost module first.
_NAME_WORDS = (
    ("norm", ("norm",)),
    ("head", ("embed_out", "unembed")),
    ("embedding", ("embed", "position")),
)
# Words that decide wherever they stand in the name or the class of a module.
_WORDS = (
    ("attention", ("attn", "attention", "qkv", "mha")),
    ("mixer", ("mixer", "mamba")),
    ("mlp", ("mlp", "ffn", "feed_forward", "feedforward", "intermediate", "expert", "moe")),
    ("recurrent", ("lstm", "gru", "rnn")),
)
# The same for words between underscores and digits: "head" is in lm_head and head1, not in multihead.
_TOKENS = {
    "norm": {"ln"},
    "embedding": {"wte", "wpe"},
    "router": {"router"},
    "attention": {"query", "key", "value"},
}
_HEAD_TOKENS = {"head", "heads", "classifier", "score", "pooler", "predictions", "logits", "qa"}
_PROJECTIONS = {"q_proj", "k_proj", "v_proj", "o_proj", "q_lin", "k_lin", "v_lin"}
_LAST_LAYERS = {"fc", "out", "output", "proj_out", "readout"}  # as names of a whole path
_FREE_PARAMETERS = ("token", "embed", "position")  # parameters of their own: cls_token, pos_embed

# Words that decide where nothing else does.
_WEAK_WORDS = (
    ("convolution", ("conv", "downsample")),
    ("mlp", ("fc", "linear", "dense", "output", "proj")),
)


def role_of(model: nn.Module, name: str) -> str:
    """Return what a parameter is for.

    Parameters
    ----------
    model : Module
        The model.
    name : str
        The name of the parameter.

    Returns
    -------
    str
        "norm", "embedding", "head", "router", "attention", "mixer", "mlp", "recurrent", "convolution" or "other".
    """
    *path, leaf = name.split(".")
    kinds = [type(model.get_submodule(".".join(path[:k]))).__name__ for k in range(len(path) + 1)]
    return role_of_names(path, kinds, leaf)


def role_of_names(path: list[str], kinds: list[str], leaf: str) -> str:
    """Return the role from the names of the modules, their classes (that of the model first) and the last part."""
    path, kinds, owner = [part.lower() for part in path], [kind.lower() for kind in kinds], kinds[-1].lower()
    if any(word in leaf.lower() for word in _FREE_PARAMETERS):
        return "embedding"
    for role in ("norm", "embedding"):
        if role in owner:
            return role
    if ".".join(path) in _LAST_LAYERS:
        return "head"
    for k in range(len(path) - 1, -1, -1):
        is_in_block = any(part.isdigit() for part in path[:k])
        found = _strong_role(path[k], kinds[k + 1], is_in_block=is_in_block)
        if found is not None:
            return found
    return _weak_role([*reversed(path), owner])


def _strong_role(part: str, kind: str, *, is_in_block: bool) -> str | None:
    """Return the role that a module's name, or else its class, has words for."""
    tokens = set(re.split(r"[_\d]+", part))
    is_attention = "attn" in part or "attention" in part
    if tokens & _HEAD_TOKENS and not is_attention and not is_in_block:
        return "head"  # heads within numbered blocks are those of attention
    if part == "gate":
        return "router"
    if part in _PROJECTIONS:
        return "attention"
    for role, marks in _TOKENS.items():
        if tokens & marks:
            return role
    for text, table in ((part, _NAME_WORDS), (part, _WORDS), (kind, _WORDS)):
        for role, words in table:
            if any(word in text for word in words):
                return role
    return None


def _weak_role(texts: list[str]) -> str:
    for text in texts:
        for role, words in _WEAK_WORDS:
            if any(word in text for word in words):
                return role
    return "other"
