"""Agreement of processes that compute together: they must make the same call, or their products mean nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from specdens._operators.base import Operator


def check_same_call(A: Operator, name: str, settings: Mapping[str, Any]) -> None:
    """Refuse a call that other processes of the operator make with other arguments; on all of them alike.

    Parameters
    ----------
    A : Operator
        The operator that the processes share.
    name : str
        What is called.
    settings : mapping
        Its arguments, under their names; the same names on every process that calls `name`.

    Raises
    ------
    ValueError
        If something differs: it names the first that does.
    """
    vectors = A.vectors
    if not vectors.is_shared:
        return
    if vectors.whole_length(A.shape[0]) != A.shape[0] and "probes" in settings:
        settings = {**settings, "probes": str(settings["probes"]).split()[0]}  # every process has other rows of them
    texts = {key: json.dumps(value, sort_keys=True, default=_in_words) for key, value in settings.items()}
    if vectors.is_same(json.dumps([name, vectors.label, A.dimension, texts])):
        return
    common = "must be the same on all processes that compute together"
    if not vectors.is_same(name):
        raise ValueError(f"the algorithm {common}; this one runs {name}")
    if not vectors.is_same(f"{vectors.label} {A.dimension}"):
        what = vectors.label or type(A).__name__
        raise ValueError(f"the operator {common}; this one has {what}, of dimension {A.dimension}")
    for key, text in texts.items():
        if not vectors.is_same(text):
            raise ValueError(f"`{key}` {common}; this one has {text}")


def _in_words(value: Any) -> str:
    """Return a name for what JSON does not know: functions by their names, all else by its kind."""
    name = getattr(value, "__qualname__", None)
    return str(name) if name is not None else type(value).__name__
