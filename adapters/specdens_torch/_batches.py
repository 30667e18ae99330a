"""Batches: the loader is read once and its batches kept where they fit, streamed otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

from specdens_torch._loaders import Digest, check_indices, check_second_pass, digest, has_indices, is_fixed, is_iterator
from specdens_torch._memory import gib
from specdens_torch._nests import mapped, tensors_in
from specdens_torch._random_state import generators_kept, random_state_kept

_log = logging.getLogger("specdens")

TARGET_KEYS = ("labels", "label", "targets", "target", "y")


@dataclass(frozen=True)
class Batch:
    """What the loader gave, on the device of the model, and the targets in it."""

    raw: Any
    target: Any

    @property
    def size(self) -> int:
        """The number of examples, as far as the first dimension tells."""
        tensor = next((t for t in tensors_in((self.target, self.raw)) if t.dim()), None)
        return 1 if tensor is None else int(tensor.shape[0])


class Batches:
    """A data set as batches that come in the same order with the same content, as often as needed."""

    def __init__(self, data: Any, device: Any, *, keep: bool | None, budget: int, check: bool = True) -> None:
        self.device = device
        self._data = _as_batches(data)
        self.kept: list[Batch] | None = None if keep is False else []
        self.sizes: list[int] = []
        self.num_bytes = 0
        with random_state_kept(device), generators_kept(self._data):
            check = check and not is_fixed(self._data)
            digests = self._read(keep, budget, check=check)
            if check:
                self._check(digests)
        done = "streamed from the loader" if self.kept is None else "read once and kept"
        _log.info("%d batches, %s: %s", len(self.sizes), gib(self.num_bytes), done)

    def _read(self, keep: bool | None, budget: int, *, check: bool) -> list[Digest]:
        """Read all batches, keep them if they fit, and return what a second pass is to be compared with."""
        digests = []
        for raw in self._data:
            self.num_bytes += sum(t.numel() * t.element_size() for t in tensors_in(raw))
            batch = _as_batch(raw)
            self.sizes.append(batch.size)
            if check:
                digests.append(_digest(batch))
            if keep is None and self.num_bytes > budget:
                self.kept = None
            if self.kept is not None:
                self.kept.append(_as_batch(self._moved(raw)))
        if not self.sizes:
            raise ValueError("`data` must have at least one batch; got none. An iterator can be read only once.")
        return digests

    def _check(self, digests: list[Digest]) -> None:
        """Refuse a loader that would give other data next time, before anything expensive."""
        streamed = self.kept is None
        if streamed and is_iterator(self._data):
            raise ValueError(
                f"`data` takes {gib(self.num_bytes)}, too much to keep, and is an iterator, which can be read only "
                "once. Give a DataLoader or a list, or keep_data=True."
            )
        if is_iterator(self._data):
            return
        if streamed and isinstance(getattr(self._data, "sampler", None), RandomSampler):
            raise ValueError(
                "`data` is a DataLoader that shuffles, and its batches are streamed: every product would see other "
                "batches. Make it with shuffle=False, or keep the batches with keep_data=True."
            )
        if not streamed and has_indices(self._data):
            check_indices(self._data)
        else:
            again = [_digest(_as_batch(raw)) for raw in self._data]
            check_second_pass(digests, again, streamed=streamed)

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Batch]:
        if self.kept is not None:
            yield from self.kept
        else:
            with random_state_kept(self.device):  # a DataLoader draws a seed for its workers
                iterator = iter(self._data)
            for raw in iterator:
                yield _as_batch(self._moved(raw))

    @property
    def first(self) -> Batch:
        return next(iter(self))

    def _moved(self, raw: Any) -> Any:
        """Return a batch on the model's device."""
        pin = _is_accelerator(self.device)
        return mapped(lambda t: _sent(t, self.device, pin=pin), raw)


def _is_accelerator(device: Any) -> bool:
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator is not None and device.type == accelerator.type


def _sent(t: Tensor, device: Any, *, pin: bool) -> Tensor:
    """Return a tensor on the device, without waiting for it; from pinned memory, where only that makes it so."""
    if t.device == device:
        return t
    if pin and t.device.type == "cpu" and not t.is_pinned():
        t = t.pin_memory()
    return t.to(device, non_blocking=True)


def default_forward(model: Callable[..., Any], raw: Any) -> Any:
    """Call the model with all of a batch but the targets: positional for tuples, by name for dicts."""
    if isinstance(raw, Mapping):
        output = model(**{key: value for key, value in raw.items() if key != _target_key(raw)})
    elif len(raw) == 2 and isinstance(raw[0], Mapping):
        output = model(**raw[0])
    else:
        output = model(*raw[:-1])
    return getattr(output, "logits", output)


def _as_batches(data: Any) -> Iterable[Any]:
    if isinstance(data, tuple | list) and len(data) == 2 and all(isinstance(part, Tensor) for part in data):
        return [data]  # one batch (x, y)
    if isinstance(data, Mapping):
        return [data]
    if isinstance(data, Dataset) and not isinstance(data, DataLoader):
        raise TypeError(f"`data` must give batches; got the data set {type(data).__name__}. Wrap it in a DataLoader.")
    if not isinstance(data, Iterable):
        raise TypeError(
            f"`data` must be a DataLoader, a list of batches or one batch (x, y); got {type(data).__name__}"
        )
    return data


def _as_batch(raw: Any) -> Batch:
    if isinstance(raw, Mapping):
        key = _target_key(raw)
        return Batch(raw, raw if key is None else raw[key])
    if isinstance(raw, list | tuple) and len(raw) >= 2:
        return Batch(raw, raw[-1])
    raise TypeError(
        f"`data` must give batches that are tuples (inputs, …, targets) or dicts; got {type(raw).__name__}. "
        "Wrap the loader in a generator of such batches."
    )


def _target_key(raw: Mapping[str, Any]) -> str | None:
    return next((key for key in TARGET_KEYS if key in raw), None)


def _digest(batch: Batch) -> Digest:
    raw = batch.raw
    if isinstance(raw, Mapping):
        return digest({key: value for key, value in raw.items() if key != _target_key(raw)}, batch.target)
    return digest(raw[:-1], raw[-1])
