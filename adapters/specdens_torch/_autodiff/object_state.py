"""The objects behind a model: found through attributes and containers, compared by identity, and restored."""

from __future__ import annotations

import enum
import functools
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from specdens_torch._autodiff.snapshots import (
    Attributes,
    Cells,
    ClassAttributes,
    Items,
    Members,
    Sequence,
    Slots,
    Snapshot,
)

_ATOMS = frozenset({
    type(None), bool, int, float, complex, str, bytes, types.BuiltinFunctionType, types.ModuleType, torch.Size,
    torch.dtype, torch.device, torch.Generator, np.dtype, range, slice, type(Ellipsis), np.float64, np.float32,
    np.int64, np.int32, np.bool_,
})  # fmt: skip
# Packages whose objects and classes are no settings of a model, or have too many parts.
_NOT_FOLLOWED = frozenset(sys.stdlib_module_names) - {"types", "argparse", "collections", "functools", "__main__"}
_NOT_FOLLOWED_IN_TORCH = ("torch.distributed", "torch.fx", "torch.cuda", "torch.jit", "torch._", "torch.utils")
_NO_SETTINGS = (enum.Enum, functools.partial, types.MethodType)
# Objects that are looked at beside modules and their own attributes.
_MAX_OBJECTS = 20_000


class ObjectState:
    """The attributes and entries of all objects behind some objects, at the time when this is made.

    Followed are the attributes of modules and of other objects, dicts, lists, sets, deques and tuples at any depth,
    classes that are not those of torch or of Python itself and, where asked for, variables that functions have closed
    over. Entries are the same if they are identical, or equal numbers or strings of one type.

    Parameters
    ----------
    roots : iterable of object
        Where to begin: the model, a function.
    without : ObjectState, optional
        Objects that are behind this one are left out.
    snapshots : iterable of Snapshot
        Further places to begin with.
    closures : bool
        Whether to follow what functions have closed over. What a hook collects there is the user's, not the model's.
    """

    def __init__(
        self,
        roots: Iterable[Any],
        *,
        without: ObjectState | None = None,
        snapshots: Iterable[Snapshot] = (),
        closures: bool = False,
    ) -> None:
        self._snapshots = list(snapshots)
        self._functions: dict[int, types.FunctionType] = {}
        self._closures = closures
        self._tensors: dict[int, Tensor] = {}
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}
        # objects are held, so that their identities last
        self._seen: dict[int, Any] = {} if without is None else dict(without._seen)
        # modules and what they hold themselves are all looked at, further objects as far as they go
        near, far = deque(roots), deque(value for snapshot in self._snapshots for value in snapshot.values())
        num_far = 0
        while near or (far and num_far < _MAX_OBJECTS):
            num_far += not near
            value = near.popleft() if near else far.popleft()
            if self._note_numbers(value) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            is_module = isinstance(value, nn.Module)
            for child in self._look_at(value, type(value)):
                if type(child) in _ATOMS or self._note_numbers(child):
                    continue
                (near if is_module or isinstance(child, nn.Module) else far).append(child)

    def _note_numbers(self, value: Any) -> bool:
        """Note tensors and arrays; return whether the value is one."""
        if isinstance(value, Tensor):
            self._tensors[id(value)] = value
            return True
        if isinstance(value, np.ndarray):
            self._arrays[id(value)] = value
            return True
        return False

    def _look_at(self, value: Any, kind: type) -> Iterator[Any]:
        """Remember the state of an object and yield what it refers to."""
        if kind is types.FunctionType and not self._closures:
            self._functions[id(value)] = self._seen.pop(id(value))
            return
        for snapshot in _snapshots(value, kind):
            self._snapshots.append(snapshot)
            yield from snapshot.values()
        if issubclass(kind, tuple):
            yield from tuple.__iter__(value)
        elif kind is types.MethodType:
            yield from (value.__self__, value.__func__)
        elif kind is types.FunctionType and not is_left_out(value.__module__):
            yield from (value.__defaults__, value.__kwdefaults__)
        elif issubclass(kind, functools.partial):
            yield from (value.func, value.args, value.keywords)
        if not issubclass(kind, type) and _is_followed_class(kind):
            yield kind

    @property
    def has_changed(self) -> bool:
        """Whether an attribute or an entry is another than it was. What tensors hold is not looked at."""
        return not all(snapshot.is_same() for snapshot in self._snapshots)

    def restore(self) -> None:
        """Give all objects the attributes and entries that they had."""
        for snapshot in self._snapshots:
            if not snapshot.is_same():
                snapshot.restore()

    def forget_changed(self) -> None:
        """Compare no longer what has changed by now."""
        self._snapshots = [snapshot for snapshot in self._snapshots if snapshot.is_same()]

    def functions(self) -> list[types.FunctionType]:
        """Return the functions among the objects, those of classes that are followed included."""
        classes = (value for value in self._seen.values() if isinstance(value, type))
        methods = (
            f for kind in classes for base in kind.__mro__ if _is_followed_class(base) for f in vars(base).values()
        )
        return [*self._functions.values(), *(f for f in methods if type(f) is types.FunctionType)]

    def tensors(self) -> list[Tensor]:
        """Return all tensors, each once, and NumPy arrays as tensors on the same memory."""
        arrays = (_as_tensor(array) for array in self._arrays.values())
        return [*self._tensors.values(), *(t for t in arrays if t is not None)]


def _snapshots(value: Any, kind: type) -> Iterator[Snapshot]:
    if issubclass(kind, dict):
        yield Items(value, OrderedDict if issubclass(kind, OrderedDict) else dict)
    elif issubclass(kind, list | deque):
        yield Sequence(value, list if issubclass(kind, list) else deque)
    elif issubclass(kind, set):
        yield Members(value)
    if kind is types.FunctionType:
        if value.__closure__ and not is_left_out(value.__module__):
            yield Cells(value.__closure__)
    elif issubclass(kind, type):
        yield from (ClassAttributes(base) for base in value.__mro__ if _is_followed_class(base))
    elif issubclass(kind, nn.Module) or not (issubclass(kind, _NO_SETTINGS) or is_left_out(kind.__module__)):
        if type(getattr(value, "__dict__", None)) is dict:
            yield Attributes(value)
        names = [name for base in kind.__mro__ for name in _slots(base)]
        if names:
            yield Slots(value, names)


def _is_followed_class(kind: type) -> bool:
    """Return whether attributes of a class are looked at: those that a person or a library of models has written."""
    return kind.__module__.partition(".")[0] not in ("torch", "numpy") and not is_left_out(kind.__module__)


def is_left_out(module: Any) -> bool:
    name = str(module)
    top = name.partition(".")[0]
    if top == "torch":
        return name.startswith(_NOT_FOLLOWED_IN_TORCH)
    return top in _NOT_FOLLOWED or name.startswith("numpy.random")


def _slots(kind: type) -> list[str]:
    names = vars(kind).get("__slots__", ())
    names = [names] if isinstance(names, str) else list(names)
    hidden = f"_{kind.__name__.lstrip('_')}"
    return [
        hidden + name if name.startswith("__") and not name.endswith("__") else name
        for name in names
        if name not in ("__dict__", "__weakref__")
    ]


def _as_tensor(array: np.ndarray[Any, Any]) -> Tensor | None:
    """Return an array as a tensor; None where there is none on its memory."""
    if not array.flags.writeable or array.dtype.kind not in "biufc" or any(step < 0 for step in array.strides):
        return None
    try:
        return torch.from_numpy(array)
    except TypeError:  # a dtype that torch does not have
        return None
