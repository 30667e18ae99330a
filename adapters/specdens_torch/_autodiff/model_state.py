"""The state of a model: restored after every pass, and compared before every product."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_NUM_SAMPLES = 8


@contextlib.contextmanager
def model_restored(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Restore parameters, buffers and tensor attributes of all modules on exit.

    ``torch.func.functional_call`` does not restore a module that is registered under two names, and hooks such as
    those of ``torch.nn.utils.weight_norm`` leave tensors behind that belong to the pass.
    """
    saved = [(m, dict(m._parameters), dict(m._buffers), _attributes(m)) for m in modules]
    try:
        yield
    finally:
        for module, parameters, buffers, attributes in saved:
            _restore(module._parameters, parameters)
            _restore(module._buffers, buffers)
            for name, value in attributes.items():
                vars(module)[name] = value
            for name in _attributes(module).keys() - attributes.keys():
                del vars(module)[name]


def _restore(place: dict[str, Any], saved: dict[str, Any]) -> None:
    if place.keys() != saved.keys() or any(place[name] is not value for name, value in saved.items()):
        place.clear()
        place.update(saved)


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes that are tensors, and the lists of weights of a recurrent module (as copies)."""
    found: dict[str, Any] = {name: value for name, value in vars(module).items() if isinstance(value, Tensor)}
    if isinstance(module, nn.RNNBase):
        lists = ("_flat_weights", "_flat_weight_refs")
        found |= {name: list(vars(module)[name]) for name in lists if name in vars(module)}
    return found


def versions(tensors: Iterable[Tensor]) -> tuple[tuple[int, int, int], ...]:
    """Return identities, addresses and version counters: what most changes of a tensor leave traces in."""
    return tuple((id(t), 0 if _has_no_memory(t) else t.data_ptr(), _version(t)) for t in tensors)


def fingerprint(tensors: Iterable[Tensor]) -> list[int]:
    """Return the sums of the bits of every tensor and a few of its entries, as integers.

    Fused optimizers and writes through ``p.data`` do not count as a new version. This sees them, at the cost of reading
    every tensor once: any single changed entry changes a sum, and the entries see permutations.
    """
    parts = [part for t in tensors if not _has_no_memory(t) for part in _digest(t.detach())]
    return [] if not parts else torch.cat(parts).tolist()


def _has_no_memory(t: Tensor) -> bool:
    return t.is_meta or t.layout is not torch.strided or t.is_quantized or t.numel() == 0


def _digest(t: Tensor) -> Iterator[Tensor]:
    """Yield the sum of the memory of a tensor as 64-bit integers, a few of these, and the bytes that are left over."""
    flat = t.reshape(-1)
    if flat.data_ptr() % 8:
        flat = flat.clone()
    size = flat.element_size()
    count = flat.numel() * size // 8 * 8 // size
    if count:
        words = flat[:count].view(torch.int64)
        yield words.sum().reshape(1)
        yield words[:: max(1, words.numel() // _NUM_SAMPLES)][:_NUM_SAMPLES]
    if count < flat.numel():
        yield flat[count:].view(torch.uint8).to(torch.int64)


def _version(t: Tensor) -> int:
    return -1 if t.is_inference() else t._version
