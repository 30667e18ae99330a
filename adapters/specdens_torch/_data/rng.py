"""Random states: restored after use, and compared to find out whether random numbers were drawn."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn


def _is_accelerator(device: Any) -> bool:
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator is not None and device.type == accelerator.type


@contextlib.contextmanager
def random_state_kept(device: Any) -> Iterator[None]:
    """Restore the random states of torch (on the host and the device), NumPy and Python on exit."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    options: dict[str, Any] = {"devices": []}
    if _is_accelerator(device):
        options = {"devices": [device], "device_type": device.type}
    try:
        with torch.random.fork_rng(**options):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def random_states(model: nn.Module, device: Any) -> list[Any]:
    """Return the states of all generators that a model may draw from: the global ones, and those it holds itself."""
    states: list[Any] = [random.getstate(), _numpy_state(), torch.get_rng_state().tolist()]
    if _is_accelerator(device):
        states.append(torch.get_device_module(device).get_rng_state(device).tolist())
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, torch.Generator):
                states.append(value.get_state().tolist())
            elif isinstance(value, np.random.Generator):
                states.append(repr(value.bit_generator.state))
            elif isinstance(value, random.Random):
                states.append(value.getstate())
    return states


def _numpy_state() -> tuple[Any, ...]:
    name, keys, position, *rest = np.random.get_state()  # noqa: NPY002
    return (name, np.asarray(keys).tobytes(), position, *rest)


@contextlib.contextmanager
def generators_kept(data: Any) -> Iterator[None]:
    """Restore the generators of a loader and of its sampler on exit."""
    owners = (data, getattr(data, "sampler", None))
    generators = [g for g in (getattr(owner, "generator", None) for owner in owners) if isinstance(g, torch.Generator)]
    states = [g.get_state() for g in generators]
    try:
        yield
    finally:
        for g, state in zip(generators, states, strict=True):
            g.set_state(state)
