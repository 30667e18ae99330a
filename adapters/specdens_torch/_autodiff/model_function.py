"""The model as a function of some of its parameters."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrize

from specdens_torch._autodiff.global_variables import global_variables
from specdens_torch._autodiff.gradient_buffer import BackwardTarget
from specdens_torch._autodiff.object_state import ObjectState
from specdens_torch._autodiff.substitutes import PlainNormsNeededError, Substitutes
from specdens_torch._autodiff.tensor_state import TensorState, written_tensors


class _Holder(nn.Module):  # type: ignore[misc]
    """The user's forward as a module around the user's model, so that `functional_call` can exchange parameters."""

    def __init__(self, model: nn.Module, forward: Callable[[nn.Module, Any], Any]) -> None:
        super().__init__()
        self.model = model
        self._forward_function = forward

    def forward(self, raw: Any) -> Any:
        return self._forward_function(self.model, raw)


class Forward:
    """Outputs of the model as a function of the chosen parameters; other parameters and buffers are constants.

    Parameters
    ----------
    model : Module
        The user's model.
    forward : callable
        ``forward(model, batch)`` returns the outputs.
    selected : mapping of str to Tensor
        The chosen parameters by name. They are looked up by name again whenever the model has changed.

    Attributes
    ----------
    differentiates : bool
        Whether the model computes gradients in its forward, which needs grad mode in every pass.
    recomputes : bool
        Whether the model uses gradient checkpointing, so that a backward pass evaluates parts of it again.
    """

    is_sharded = False
    """Whether ranks share the rows of the parameters."""

    def __init__(
        self, model: nn.Module, forward: Callable[[nn.Module, Any], Any], selected: Mapping[str, Tensor]
    ) -> None:
        self.model = model
        self._holder = _Holder(model, forward)
        self.names = tuple(selected)
        self._kinds = {name: _kind(p) for name, p in selected.items()}
        # cuDNN's recurrent kernels have no second derivative
        self._has_rnn = any(isinstance(module, nn.RNNBase) for module in model.modules())
        self.differentiates = self.recomputes = self._plain_norms = False
        self.watched: list[Tensor] = []  # further tensors that the products depend on
        self.user_loss: Any = None  # functions whose settings they depend on
        self.user_forward: Any = None
        self.has_warned = False  # of parameters without a derivative
        self.refresh()

    def refresh(self) -> None:
        """Take the parameters as they are now: the same memory, but leaves of their own."""
        named = dict(self.model.named_parameters())
        for name in self.names:
            if name not in named or _kind(named[name]) != self._kinds[name]:
                now = "is gone" if name not in named else f"is now {_describe(_kind(named[name]))}"
                raise ValueError(
                    f"the parameter {name!r} was {_describe(self._kinds[name])} when the Curvature was made and {now}. "
                    "Make a new Curvature."
                )
        self._take_parameters(named)
        self.backward_target = BackwardTarget()
        self.backward_target.attach(self.leaves)
        # a model that writes to its buffers shall write to these
        self._buffers = {name: b.detach().clone() for name, b in self.model.named_buffers()}
        self._held |= {f"model.{name}": b for name, b in self._buffers.items()}
        self._written: list[tuple[Tensor, Tensor]] | None = None  # until the first pass
        self.note_state()

    def note_state(self) -> None:
        """Take the model as it is now for what it is later compared with."""
        self._state: ObjectState | None = ObjectState([self.model])
        self._user_loss = ObjectState([self.user_loss], without=self._state, closures=True)
        functions = [*self._state.functions(), self.user_forward]
        self._functions = ObjectState(
            functions, without=self._state, snapshots=global_variables([*functions, self.user_loss]), closures=True
        )
        of_model = [*self.model.parameters(), *self.model.buffers()]
        known = {id(t) for t in of_model}
        self._others = [t for t in self._state.tensors() if id(t) not in known]
        tensors = [*of_model, *self.watched, *self._others, *self._user_loss.tensors(), *self._functions.tensors()]
        written = {id(t) for t, _ in self._written or ()}
        self._values = TensorState([self._local(t) for t in tensors], num_whole=len(of_model), written=written)

    def written_parameters(self) -> list[str]:
        """Return the names of the parameters that the model has written to since its state was noted."""
        changed = self._values.other_versions()
        return [name for name, p in self.model.named_parameters() if id(self._local(p)) in changed]

    def written_buffers(self) -> list[str]:
        """Return the names of the buffers that the model has written to since the last refresh."""
        return [name for name, buffer in self._buffers.items() if not buffer.is_inference() and buffer._version]

    def _take_parameters(self, named: Mapping[str, Tensor]) -> None:
        """Make leaves of the chosen parameters, and constants of the others."""
        chosen = set(self.names)
        self.leaves = [named[name].detach().requires_grad_() for name in self.names]
        self._held = {f"model.{name}": p.detach() for name, p in named.items() if name not in chosen}

    def forget_state(self) -> None:
        """Make the next comparison with the model report a change."""
        self._state = None

    @staticmethod
    def _local(t: Tensor) -> Tensor:
        """Return the part of a tensor that this process holds."""
        return t

    @property
    def has_other_values(self) -> bool:
        """Whether a parameter, a buffer or another tensor has changed since its state was noted."""
        return self._values.has_changed

    @property
    def has_other_attributes(self) -> bool:
        """Whether modules, their modes, hooks, settings or tensors are others since their state was noted."""
        return (
            self._state is None or self._state.has_changed or self._functions.has_changed or self._user_loss.has_changed
        )

    @property
    def has_other_loss(self) -> bool:
        """Whether settings of the user's loss are others since their state was noted."""
        return self._user_loss.has_changed

    def forget_counters(self) -> None:
        """Compare no longer what the user's functions and hooks write themselves, such as a number of calls."""
        self._user_loss.forget_changed()
        self._functions.forget_changed()

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restore on exit what a pass may write to: parameters, buffers, hooks, counters, settings, stored outputs.

        ``torch.func.functional_call`` does not restore a module that is registered under two names, and models keep
        tensors that belong to a pass.
        """
        state = ObjectState([self.model]) if self._state is None else self._state
        copies = written_tensors(self._others) if self._written is None else None
        try:
            yield
        finally:
            state.restore()
            self.forget_counters()
            if copies is not None:
                self._written = copies()
                self._values.written = {id(t) for t, _ in self._written}
            for t, copy in self._written or ():
                t.data.copy_(copy)

    def __call__(self, leaves: Sequence[Tensor], raw: Any, *, dual: bool = False) -> Tensor:
        """Return the outputs for a batch.

        Parameters
        ----------
        leaves : sequence of Tensor
            The chosen parameters.
        raw : object
            The batch, as the loader gave it.
        dual : bool
            Whether the leaves carry tangents, for forward mode.
        """
        tensors = dict(zip((f"model.{name}" for name in self.names), leaves, strict=True)) | self._held
        substitutes = Substitutes(None if dual else self.backward_target, plain_norms=self._plain_norms)
        try:
            with self.restored(), self.backend(), substitutes:
                output = torch.func.functional_call(self._holder, tensors, (raw,))
        except PlainNormsNeededError:
            self._plain_norms = True
            return self(leaves, raw, dual=dual)
        self.differentiates |= substitutes.differentiates
        self.recomputes |= substitutes.recomputes
        return self._as_output(output)

    @staticmethod
    def _as_output(output: Any) -> Tensor:
        if not isinstance(output, Tensor):
            raise TypeError(
                f"the model must return a tensor of outputs; got {type(output).__name__}. Pick it with "
                "forward=lambda model, batch: …"
            )
        return output

    def values(self, raw: Any) -> Tensor:
        """Return the outputs for a batch without a graph."""
        if self.differentiates:
            with torch.enable_grad():
                return self(self.leaves, raw).detach()
        try:
            with torch.no_grad():
                return self(self.leaves, raw)
        except RuntimeError as error:
            if "does not require grad" not in str(error):
                raise
        self.differentiates = True  # a model that computes gradients itself needs grad mode
        return self.values(raw)

    @contextlib.contextmanager
    def backward(self) -> Iterator[None]:
        """Set the context of a backward pass, which evaluates checkpointed parts of the model again and calls hooks."""
        with self.restored(), self.backend() if self.recomputes else self._without_autocast():
            yield

    def _without_autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Leave the autocast of the caller: graphs that are kept would differ from those that are not."""
        kind = self.leaves[0].device.type
        if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):  # "meta" has none
            return contextlib.nullcontext()
        leave: contextlib.AbstractContextManager[Any] = torch.autocast(kind, enabled=False)
        return leave

    @contextlib.contextmanager
    def backend(self) -> Iterator[None]:
        """Set the kernels that have second derivatives, for forward passes and for what backward passes recompute."""
        fast_path = torch.backends.mha.get_fastpath_enabled()
        with contextlib.ExitStack() as stack:
            torch.backends.mha.set_fastpath_enabled(False)
            stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))  # the fused kernels have no second derivative
            stack.enter_context(self._without_autocast())
            stack.enter_context(_without_parametrization_cache())
            if self._has_rnn:
                stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            if "torch._dynamo" in sys.modules:  # compiled functions have no second derivative
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            yield


@contextlib.contextmanager
def _without_parametrization_cache() -> Iterator[None]:
    """Leave ``parametrize.cached`` of the caller, whose tensors belong to the model's own parameters."""
    enabled, cache = parametrize._cache_enabled, parametrize._cache
    parametrize._cache_enabled, parametrize._cache = 0, {}
    try:
        yield
    finally:
        parametrize._cache_enabled, parametrize._cache = enabled, cache


def _kind(p: Tensor) -> tuple[Any, ...]:
    return tuple(p.shape), p.dtype, p.device


def _describe(kind: tuple[Any, ...]) -> str:
    shape, dtype, device = kind
    return f"{dtype} of shape {shape} on {device}"
