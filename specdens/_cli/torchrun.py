"""Processes that torchrun has started: one process group, of which one rank talks and writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def process_group() -> Iterator[int]:
    """Join the process group of torchrun while a command runs, and yield this rank; 0 without torchrun."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0
        return
    import torch.distributed as dist

    dist.init_process_group()
    try:
        yield dist.get_rank()
    finally:
        dist.destroy_process_group()
