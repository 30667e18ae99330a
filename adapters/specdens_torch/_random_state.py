"""Random states are left as they were found."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def random_state_kept(device: Any) -> Iterator[None]:
    """Leave the random state of the host and of the device as it was."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is not None and device.type == accelerator.type:
        with torch.random.fork_rng(devices=[device], device_type=device.type):
            yield
    else:
        with torch.random.fork_rng(devices=[]):
            yield


@contextlib.contextmanager
def generators_kept(data: Any) -> Iterator[None]:
    """Leave the generators of a loader and of its sampler as they were."""
    owners = (data, getattr(data, "sampler", None))
    generators = [g for g in (getattr(owner, "generator", None) for owner in owners) if isinstance(g, torch.Generator)]
    states = [g.get_state() for g in generators]
    try:
        yield
    finally:
        for g, state in zip(generators, states, strict=True):
            g.set_state(state)
