"""Batches: the loader is read once and its batches kept where they fit, streamed otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

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

    def __init__(self, data: Any, device: Any, *, keep: bool | None, budget: int) -> None:
        self.device = device
        self._data = _as_batches(data)
        self.kept: list[Batch] | None = []
        self.sizes: list[int] = []
        self.num_bytes = 0
        self._sums: list[tuple[float, ...]] = []
        if keep is False:
            self.kept = None
        for raw in self._data:
            self._read(raw, keep, budget)
        if not self.sizes:
            raise ValueError("`data` must have at least one batch; got none. An iterator can be read only once.")
        if self.kept is None:
            _log.info("%d batches, %s: streamed from the loader", len(self.sizes), gib(self.num_bytes))
            self._check_second_pass()
        else:
            _log.info("%d batches, %s: read once and kept", len(self.sizes), gib(self.num_bytes))

    def _read(self, raw: Any, keep: bool | None, budget: int) -> None:
        self.num_bytes += sum(t.numel() * t.element_size() for t in tensors_in(raw))
        batch = _as_batch(raw)
        self.sizes.append(batch.size)
        self._sums.append(_checksum(raw))
        if self.kept is None:
            return
        if keep is None and self.num_bytes > budget:
            self.kept = None
        else:
            self.kept.append(_as_batch(self._moved(raw)))

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Batch]:
        if self.kept is not None:
            yield from self.kept
        else:
            for raw in self._data:
                yield _as_batch(self._moved(raw))

    @property
    def first(self) -> Batch:
        return next(iter(self))

    def _moved(self, raw: Any) -> Any:
        """Return a batch on the model's device: pinned and without waiting where that helps."""
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        to_accelerator = accelerator is not None and self.device.type == accelerator.type

        def move(t: Tensor) -> Tensor:
            if t.device == self.device:
                return t
            if to_accelerator and t.device.type != self.device.type and not t.is_pinned():
                t = t.pin_memory()
            return t.to(self.device, non_blocking=True)

        return mapped(move, raw)

    def _check_second_pass(self) -> None:
        """Read a streamed loader again, before anything expensive: the same data must come in the same order."""
        if iter(self._data) is self._data:
            raise ValueError(
                f"`data` takes {gib(self.num_bytes)}, too much to keep, and is an iterator, which can be read only "
                "once. Give a DataLoader or a list, or keep_data=True."
            )
        sampler = getattr(self._data, "sampler", None)
        if isinstance(sampler, RandomSampler):
            raise ValueError(
                "`data` is a DataLoader that shuffles, and its batches are streamed: every product would see other "
                "batches. Make it with shuffle=False, or keep the batches with keep_data=True."
            )
        again = [_checksum(raw) for raw in self._data]
        if again == self._sums:
            return
        if _close_totals(again, self._sums):
            cause, remedy = "the same data in another order: the loader shuffles", "Set shuffle=False"
        elif [s[-1] for s in again] == [s[-1] for s in self._sums]:
            cause = "the same targets with other inputs: the loader augments its data"
            remedy = "Switch random transforms off"
        else:
            cause, remedy = "different data", "Make the loader give the same data every time"
        raise ValueError(
            f"`data` gave {cause} on a second pass, and its batches are streamed. {remedy}, or keep the batches with "
            "keep_data=True."
        )


def default_forward(model: Callable[..., Any], raw: Any) -> Any:
    """Call the model with all of a batch but the targets: positional for tuples, by name for dicts."""
    if isinstance(raw, Mapping):
        output = model(**{key: value for key, value in raw.items() if key != _target_key(raw)})
    elif len(raw) == 2 and isinstance(raw[0], Mapping):
        output = model(**raw[0])
    else:
        output = model(*raw[:-1])
    return getattr(output, "logits", output)


def tensors_in(raw: Any) -> Iterator[Tensor]:
    """Return the tensors in a nest of dicts, tuples and lists."""
    if isinstance(raw, Tensor):
        yield raw
    elif isinstance(raw, Mapping):
        for value in raw.values():
            yield from tensors_in(value)
    elif isinstance(raw, list | tuple):
        for value in raw:
            yield from tensors_in(value)


def mapped(function: Callable[[Tensor], Tensor], raw: Any) -> Any:
    """Return the same nest with the function applied to every tensor."""
    if isinstance(raw, Tensor):
        return function(raw)
    if isinstance(raw, Mapping):
        return {key: mapped(function, value) for key, value in raw.items()}
    if isinstance(raw, tuple) and hasattr(raw, "_fields"):
        return type(raw)(*(mapped(function, value) for value in raw))
    if isinstance(raw, list | tuple):
        return type(raw)(mapped(function, value) for value in raw)
    return raw


def gib(num_bytes: float) -> str:
    """Return a number of bytes in words."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes:.0f} B"


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


def _checksum(raw: Any) -> tuple[float, ...]:
    return tuple(0.0 if t.is_meta else float(t.sum(dtype=torch.float64)) for t in tensors_in(raw))


def _close_totals(first: list[tuple[float, ...]], second: list[tuple[float, ...]]) -> bool:
    """Return whether two passes saw the same data, whatever its order: rounding apart, the same sums."""
    totals = [[sum(column) for column in zip(*sums, strict=True)] for sums in (first, second)]
    size = max((abs(x) for sums in second for x in sums), default=0.0) * max(1, len(second))
    return len(totals[0]) == len(totals[1]) and all(
        abs(a - b) <= 1e-9 * max(size, 1.0) for a, b in zip(*totals, strict=True)
    )
