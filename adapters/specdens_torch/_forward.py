"""The model as a function of some of its parameters, with operations that can be differentiated twice, and fast."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from specdens_torch._convolution import FUNCTIONS, convolution
from specdens_torch._linear import linear
from specdens_torch._wanted import Wanted


class _Substitutes(TorchFunctionMode):  # type: ignore[misc]
    """Batch norm in eval mode as the affine map it is, convolutions and linear layers, with cheaper derivatives."""

    def __init__(self, wanted: Wanted | None) -> None:
        super().__init__()
        self._wanted = wanted

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._wanted is not None and func in FUNCTIONS:
            return convolution(func, self._wanted, args, kwargs or {})
        if self._wanted is not None and func is F.linear:
            return linear(self._wanted, args, kwargs or {})
        if func is F.batch_norm:
            return _batch_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if training or running_mean is None or running_var is None or x.dtype != running_var.dtype:
        return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)
    scale = torch.rsqrt(running_var + eps)
    if weight is not None:
        scale = weight * scale
    shift = -running_mean * scale
    if bias is not None:
        shift = shift + bias
    shape = (1, -1) + (1,) * (x.dim() - 2)
    return torch.addcmul(shift.view(shape), x, scale.view(shape))


class _Holder(nn.Module):  # type: ignore[misc]
    """The user's forward as a module around the user's model, so that `functional_call` can exchange parameters."""

    def __init__(self, model: nn.Module, forward: Callable[[nn.Module, Any], Any]) -> None:
        super().__init__()
        self.model = model
        self._forward_function = forward

    def forward(self, raw: Any) -> Any:
        return self._forward_function(self.model, raw)


class Forward:
    """Outputs of the model as a function of the chosen parameters; the others, and buffers, are held."""

    def __init__(self, model: nn.Module, forward: Callable[[nn.Module, Any], Any], selected: dict[str, Tensor]) -> None:
        self.model = model
        self._holder = _Holder(model, forward)
        self.selected = selected
        # cuDNN's recurrent kernels have no second derivative
        self._has_rnn = any(isinstance(module, nn.RNNBase) for module in model.modules())
        self.refresh()

    def refresh(self) -> None:
        """Take the parameters as they are now: the same memory, but leaves of their own."""
        self.leaves = [p.detach().requires_grad_() for p in self.selected.values()]
        self.wanted = Wanted()
        self.wanted.attach(self.leaves)
        self._names = [f"model.{name}" for name in self.selected]
        self._held = {
            f"model.{name}": p.detach() for name, p in self.model.named_parameters() if name not in self.selected
        }
        # a model that writes to its buffers shall write to these
        self._held |= {f"model.{name}": b.detach().clone() for name, b in self.model.named_buffers()}
        self.versions = self.current_versions()

    def current_versions(self) -> tuple[tuple[int, int], ...]:
        """Return what changes when a parameter or a buffer is written to or exchanged."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return tuple((t.data_ptr() if not t.is_meta else id(t), t._version) for t in tensors)

    def __call__(self, leaves: Sequence[Tensor], raw: Any, *, dual: bool = False) -> Tensor:
        """Return the outputs; `dual` says that the leaves carry tangents, for forward mode."""
        tensors = dict(zip(self._names, leaves, strict=True)) | self._held
        with self._context(None if dual else self.wanted):
            output = torch.func.functional_call(self._holder, tensors, (raw,))
        if not isinstance(output, Tensor):
            raise TypeError(
                f"the model must return a tensor of outputs; got {type(output).__name__}. Pick it with "
                "forward=lambda model, batch: …"
            )
        return output

    @contextlib.contextmanager
    def _context(self, wanted: Wanted | None) -> Iterator[None]:
        fast_path = torch.backends.mha.get_fastpath_enabled()
        with contextlib.ExitStack() as stack:
            torch.backends.mha.set_fastpath_enabled(False)
            stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))  # the fused kernels have no second derivative
            if self._has_rnn:
                stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            stack.enter_context(_Substitutes(wanted))
            yield
