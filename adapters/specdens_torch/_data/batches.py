"""Batches of data: kept in memory if they fit, otherwise read from the loader in every pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

from specdens_torch._data.array_checks import check_tensors
from specdens_torch._data.loader_checks import (
    Digest,
    check_indices,
    check_second_pass,
    digest,
    has_indices,
    is_fixed,
    is_iterator,
    why_empty,
)
from specdens_torch._data.memory import Promise, format_bytes, shared_room
from specdens_torch._data.pytree import mapped, tensors_in
from specdens_torch._data.rng import generators_kept, random_state_kept

_log = logging.getLogger("specdens")

TARGET_KEYS = ("labels", "label", "targets", "target", "y")


@dataclass(frozen=True)
class Batch:
    """What the loader gave, on the device of the model, and the targets in it."""

    raw: Any
    target: Any
    counts: bool = True
    """False for a batch that only keeps a rank in step with the others."""

    @property
    def size(self) -> int:
        """The number of examples, as far as the first dimension tells."""
        tensor = next((t for t in tensors_in((self.target, self.raw)) if t.dim()), None)
        return 1 if tensor is None else int(tensor.shape[0])


class Batches:
    """A data set as batches that come in the same order with the same content, as often as needed."""

    def __init__(
        self,
        data: Any,
        device: Any,
        *,
        keep: bool | None,
        budget: int | None = None,
        check: bool = True,
        count: Callable[[None, Any], Tensor] | None = None,
        may_be_empty: bool = False,
    ) -> None:
        self.device = device
        self._data = _as_batches(data)
        self._promise = Promise(device)
        budget = shared_room(self._promise) if budget is None else budget
        self.kept: list[Batch] | None = None if keep is False else []
        self.sizes: list[int] = []
        self.num_entries: list[int] = []
        """The number of entries of all tensors of every batch."""
        self.num_bytes = 0
        self._whole = False
        self.is_shuffled = False
        self.count = count
        self.total: Tensor | None = None
        """The sum of `count` over all batches, computed while they are read."""
        self._first: Any = None
        self._num_padding = 0
        self._may_be_empty = may_be_empty
        with random_state_kept(device), generators_kept(self._data):
            check = check and not is_fixed(self._data)
            digests = self._read(keep, budget, check=check)
            if check:
                self._check(digests)
        self._versions = self._current_versions()
        done = "streamed from the loader" if self.kept is None else "read once and kept"
        _log.info("%d batches, %s: %s", len(self.sizes), format_bytes(self.num_bytes), done)

    def _read(self, keep: bool | None, budget: int, *, check: bool) -> list[Digest]:
        """Read all batches, keep them if they fit, and return what a second pass is to be compared with."""
        digests = []
        for raw in self._data:
            self.num_bytes += sum(t.numel() * t.element_size() for t in tensors_in(raw))
            batch = _as_batch(raw)
            self._note(batch, raw)
            self.sizes.append(batch.size)
            self.num_entries.append(sum(t.numel() for t in tensors_in(raw)))
            if check:
                digests.append(_digest(batch))
            if keep is None and self.num_bytes > budget:
                self.kept = None
            if self.kept is not None:
                self.kept.append(_as_batch(self._moved(raw)))
        if self.kept is not None and not is_fixed(self._data):  # a list is in memory already: it does not count
            self._promise.num_bytes = self._promise.held = self.num_bytes
        if not self.sizes and not self._may_be_empty:
            raise ValueError(f"`data` must have at least one batch; got none. {why_empty(self._data)}")
        return digests

    def _note(self, batch: Batch, raw: Any) -> None:
        """Remember the first batch, and add up the counts of tensor targets."""
        if self._first is None:
            self._first = raw
        if self.count is not None and isinstance(batch.target, Tensor):
            count = self.count(None, batch.target)
            self.total = count if self.total is None else self.total + count

    def _check(self, digests: list[Digest]) -> None:
        """Refuse a loader that would give other data next time, before anything expensive."""
        streamed = self.kept is None
        if streamed and is_iterator(self._data):
            raise ValueError(
                f"`data` takes {format_bytes(self.num_bytes)}, too much to keep, and is an iterator, which can be "
                "read only once. Give a DataLoader or a list, or keep_data=True."
            )
        if is_iterator(self._data):
            return
        if streamed and isinstance(getattr(self._data, "sampler", None), RandomSampler):
            raise ValueError(
                "`data` is a DataLoader that shuffles, and its batches are streamed: every product would see other "
                "batches. Make it with shuffle=False, or keep the batches with keep_data=True."
            )
        if not streamed and has_indices(self._data):
            self.is_shuffled = check_indices(self._data)
        else:
            again = [_digest(_as_batch(raw)) for raw in self._data]
            self.is_shuffled = check_second_pass(digests, again, streamed=streamed)

    def _current_versions(self) -> list[int]:
        return [t._version for batch in self.kept or () for t in tensors_in(batch.raw) if not t.is_inference()]

    def check_unchanged(self) -> None:
        """Refuse kept batches whose tensors have been written to since they were read."""
        if self._current_versions() != self._versions:
            raise ValueError(
                "`data` has been written to since the Curvature was made: kept graphs would mix old and new data. Make "
                "a new Curvature, or give it copies."
            )

    def use_whole_batches(self) -> None:
        """Hand out batches as their own targets, for a loss that the model computes itself."""
        self._whole = True
        if self.kept is not None:
            self.kept = [Batch(batch.raw, batch.raw) for batch in self.kept]

    def only(self, batch: Batch) -> Batches:
        """Return one of the batches as a data set."""
        other = Batches([batch.raw], self.device, keep=True, check=False)
        if self._whole:
            other.use_whole_batches()
        return other

    def pad(self, num_batches: int) -> None:
        """Let there be so many batches: the first one again, which does not count, in the place of missing ones."""
        self._num_padding = num_batches - len(self.sizes)
        entries = sum(t.numel() for t in tensors_in(self.first.raw))
        self.sizes += [self.first.size] * self._num_padding
        self.num_entries += [entries] * self._num_padding

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Batch]:
        yield from self._own()
        for _ in range(self._num_padding):
            yield replace(self.first, counts=False)

    def _own(self) -> Iterator[Batch]:
        if self.kept is not None:
            yield from self.kept
        else:
            with random_state_kept(self.device):  # a DataLoader draws a seed for its workers
                iterator = iter(self._data)
            for raw in iterator:
                batch = _as_batch(self._moved(raw))
                yield Batch(batch.raw, batch.raw) if self._whole else batch

    @property
    def first(self) -> Batch:
        """The first batch, for which the loader is not asked again; that of another process where this one has none."""
        if self.kept:
            return self.kept[0]
        if self._first is None:
            raise ValueError("`data` must have at least one batch on one of the ranks; got none")
        batch = _as_batch(self._moved(self._first))
        return Batch(batch.raw, batch.raw) if self._whole else batch

    @property
    def own_first(self) -> Any:
        """The first batch as the data gave it, or None where there is none."""
        return self._first

    def share_first(self, gather: Callable[[Any], list[Any]]) -> None:
        """Give processes without data the first batch of another process; it does not count as theirs."""
        if all(gather(self._first is not None)):
            return
        host = None if self._first is None else mapped(lambda t: t.cpu(), self._first)
        found = [raw for raw in gather(host) if raw is not None]
        if self._first is None and found:
            self._first = found[0]

    def _moved(self, raw: Any) -> Any:
        """Return a batch on the model's device."""
        pin = _is_accelerator(self.device)
        return mapped(lambda t: _sent(t, self.device, pin=pin), raw)


def _is_accelerator(device: Any) -> bool:
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator is not None and device.type == accelerator.type


def _sent(t: Tensor, device: Any, *, pin: bool) -> Tensor:
    """Return a tensor on the device without waiting for the transfer, which needs pinned memory on some devices."""
    if t.is_inference():  # autograd takes copies only
        t = t.clone()
    if t.device == device:
        return t
    if pin and t.device.type == "cpu" and not t.is_pinned():
        t = t.pin_memory()
    return t.to(device, non_blocking=True)


def default_forward(model: Callable[..., Any], raw: Any) -> Any:
    """Call the model with all of a batch but the targets: positional for tuples, by name for dicts.

    An encoder-decoder makes the inputs of its decoder from the targets, and gets them too.
    """
    if isinstance(raw, Mapping):
        dropped = None if getattr(getattr(model, "config", None), "is_encoder_decoder", False) else target_key(raw)
        output = model(**{key: value for key, value in raw.items() if key != dropped})
    elif len(raw) == 2 and isinstance(raw[0], Mapping):
        output = model(**raw[0])
    else:
        output = model(*raw[:-1])
    return getattr(output, "logits", output)


def _as_batches(data: Any) -> Iterable[Any]:
    if isinstance(data, tuple | list) and len(data) == 2:
        check_tensors(data)
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
    check_tensors(raw)
    if isinstance(raw, Mapping):
        key = target_key(raw)
        return Batch(raw, raw if key is None else raw[key])
    if isinstance(raw, list | tuple) and len(raw) >= 2:
        return Batch(raw, raw[-1])
    raise TypeError(
        f"`data` must give batches that are tuples (inputs, …, targets) or dicts; got {type(raw).__name__}. "
        "Wrap the loader in a generator of such batches."
    )


def target_key(raw: Mapping[str, Any]) -> str | None:
    return next((key for key in TARGET_KEYS if key in raw), None)


def _digest(batch: Batch) -> Digest:
    raw = batch.raw
    if isinstance(raw, Mapping):
        return digest({key: value for key, value in raw.items() if key != target_key(raw)}, batch.target)
    return digest(raw[:-1], raw[-1])
