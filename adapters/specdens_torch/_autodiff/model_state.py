"""The state of a model: restored after every pass, and compared before every product."""

from __future__ import annotations

import contextlib
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

_NUM_SAMPLES = 8

# Attributes of these types are compared and restored entry by entry.
_COPIES: dict[type, Callable[[Any], Any]] = {dict: dict, OrderedDict: dict, list: list, set: set}
# Objects with attributes of their own that are no settings of the model.
_NO_SETTINGS = (
    nn.Module, Tensor, type, types.FunctionType, types.MethodType, types.ModuleType, weakref.ref, torch.Generator,
)  # fmt: skip


class ModelState:
    """The attributes of all modules of a model, at the time when this is made.

    Modules are also found in lists and dicts where ``nn.Module`` does not look. Of objects that modules refer to, such
    as configurations, the attributes are compared but not restored.

    Parameters
    ----------
    model : Module
        The model.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._modules = _all_modules(model)
        self._attributes = [_Attributes(module) for module in self._modules]
        settings = {
            id(value): value
            for attributes in self._attributes
            for value in attributes.values()
            if hasattr(value, "__dict__") and not isinstance(value, _NO_SETTINGS) and type(value) not in _COPIES
        }
        self._settings = [_Attributes(value) for value in settings.values()]

    @property
    def has_changed(self) -> bool:
        """Whether modules, hooks or attributes are others than they were. What tensors hold is not looked at."""
        now = _all_modules(self._model)
        return not _identical(now, self._modules) or any(
            attributes.have_changed() for attributes in (*self._attributes, *self._settings)
        )

    def restore(self) -> None:
        """Give all modules the attributes that they had."""
        for attributes in self._attributes:
            if attributes.have_changed():
                attributes.restore()

    def tensors(self) -> list[Tensor]:
        """Return all tensors in attributes, each once: parameters, buffers and others."""
        found = {id(t): t for attributes in self._attributes for t in attributes.values() if isinstance(t, Tensor)}
        return list(found.values())


class _Attributes:
    """The attributes of an object, and the entries of those that are containers."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._saved = dict(vars(owner))
        self._entries = [
            (value, _COPIES[type(value)](value)) for value in self._saved.values() if type(value) in _COPIES
        ]

    def values(self) -> Iterator[Any]:
        yield from self._saved.values()
        for _, entries in self._entries:
            yield from entries.values() if isinstance(entries, dict) else entries

    def have_changed(self) -> bool:
        return not _same_dict(vars(self._owner), self._saved) or not all(
            _same_entries(value, entries) for value, entries in self._entries
        )

    def restore(self) -> None:
        place = vars(self._owner)
        place.clear()
        place.update(self._saved)
        for value, entries in self._entries:
            value.clear()
            value.extend(entries) if isinstance(value, list) else value.update(entries)


def _identical(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(is_, a, b))


def _same_dict(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    return len(a) == len(b) and all(map(is_, a.values(), b.values())) and a.keys() == b.keys()


def _same_entries(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return _same_dict(a, b)
    return _identical(a, b) if isinstance(a, list) else bool(a == b)


def _all_modules(model: nn.Module) -> list[nn.Module]:
    """Return all modules behind a module, each once: registered ones, and those in lists and dicts."""
    found: dict[int, nn.Module] = {}
    waiting = [model]
    while waiting:
        module = waiting.pop()
        if id(module) in found:
            continue
        found[id(module)] = module
        for value in vars(module).values():
            if type(value) in _COPIES and value:
                entries = value.values() if isinstance(value, dict) else value
                waiting += [entry for entry in entries if isinstance(entry, nn.Module)]
    return list(found.values())


@contextlib.contextmanager
def model_restored(model: nn.Module) -> Iterator[None]:
    """Restore the attributes of all modules on exit: parameters, buffers, hooks, counters, stored outputs.

    ``torch.func.functional_call`` does not restore a module that is registered under two names, and models keep
    tensors that belong to a pass.
    """
    state = ModelState(model)
    try:
        yield
    finally:
        state.restore()


def versions(tensors: Iterable[Tensor]) -> tuple[tuple[int, int, int], ...]:
    """Return identities, addresses and version counters: what most changes of a tensor leave traces in."""
    return tuple((id(t), 0 if _has_no_memory(t) else t.data_ptr(), _version(t)) for t in tensors)


def fingerprint(tensors: Iterable[Tensor]) -> list[int]:
    """Return the sums of the bits of every tensor and a few of its entries, as integers.

    Fused optimizers and writes through ``p.data`` do not count as a new version. This sees them, at the cost of reading
    every tensor once: any single changed entry changes a sum, and the entries see permutations.
    """
    parts: dict[Any, list[Tensor]] = {}  # by device
    for t in tensors:
        if not _has_no_memory(t):
            parts.setdefault(t.device, []).extend(_digest(t.detach()))
    return [number for found in parts.values() for number in torch.cat(found).tolist()]


def _has_no_memory(t: Tensor) -> bool:
    if isinstance(t, nn.parameter.UninitializedTensorMixin) or t.is_nested:
        return True
    return t.is_meta or t.layout is not torch.strided or t.is_quantized or t.numel() == 0


def _digest(t: Tensor) -> Iterator[Tensor]:
    """Yield the sum of the memory of a tensor as 64-bit integers, a few of these, and the bytes that are left over."""
    flat = t.resolve_conj().resolve_neg().reshape(-1).contiguous()
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
