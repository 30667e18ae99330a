"""What scripts that run as a rank of torch.distributed (gloo) share."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist

import specdens as sd


def run_rank(work: Callable[[], None]) -> None:
    """Do the work of this rank among the others, print "agrees", and end the process."""
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=180))
    work()
    print("agrees", flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads may abort an ordinary exit ("terminate called without an active exception")


def assert_same(x: torch.Tensor) -> None:
    """Assert that a tensor is the same on all ranks, bit for bit."""
    other = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(other, x.contiguous())
    for each in other:
        assert torch.equal(each, x)


def quadrature(measure: sd.SpectralMeasure) -> list[float]:
    """Return a smooth function of every probe's nodes and weights."""
    return [float(w @ np.tanh(x)) for x, w in zip(measure.nodes, measure.weights, strict=True)]
