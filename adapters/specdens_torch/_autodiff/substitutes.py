"""Functions of torch that are replaced while the model runs: cheaper second derivatives, or right ones.

The replacements are not used while saved-tensor hooks are active (gradient checkpointing evaluates the model again
during the backward pass, without them) and inside transforms of ``torch.func``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from specdens_torch._autodiff.gradient_buffer import BackwardTarget
from specdens_torch._autodiff.layers.convolution import FUNCTIONS, convolution
from specdens_torch._autodiff.layers.linear import linear
from specdens_torch._autodiff.layers.norms import plain_norm

_ATTENTION = (F.multi_head_attention_forward, F.scaled_dot_product_attention)
_DIFFERENTIATION = (torch.autograd.grad, torch.Tensor.backward)


class PlainNormsNeededError(Exception):
    """The model has a norm whose third derivative torch computes wrongly, and differentiates it itself."""


class Substitutes(TorchFunctionMode):  # type: ignore[misc]
    """Replace functions of torch while the model runs.

    Parameters
    ----------
    target : BackwardTarget or None
        Where the gradients of linear layers and convolutions go; None in forward mode, which has no backward pass.
    plain_norms : bool
        Whether to compute norms by plain operations, whose third derivatives are right.
    """

    def __init__(self, target: BackwardTarget | None, *, plain_norms: bool = False) -> None:
        super().__init__()
        self._target, self._plain_norms = target, plain_norms
        self.differentiates = self._has_fused_norm = False
        """Whether the model itself computed a gradient."""
        self.recomputes = False
        """Whether part of the model is evaluated again during the backward pass."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _DIFFERENTIATION:
            self.differentiates = True
            if self._has_fused_norm:
                raise PlainNormsNeededError
        elif (norm := plain_norm(func, args, kwargs)) is not None:
            if self._plain_norms or self._is_transformed():
                return norm()
            self._has_fused_norm = True
        if func is F.embedding:
            return _embedding(args, kwargs, is_dual=self._target is None)
        if func is torch._weight_norm:
            return _weight_norm(*args, **kwargs)
        if func is F.batch_norm and not self._is_recomputed():
            return _batch_norm(*args, **kwargs)
        substitute = _substitute(func)
        recomputed = (func in _ATTENTION or substitute is not None) and self._is_recomputed()
        if substitute is None or self._target is None or recomputed:
            return func(*args, **kwargs)
        try:
            return substitute(self._target, args, kwargs)
        except RuntimeError as error:
            if "functorch" not in str(error):
                raise
            return func(*args, **kwargs)  # within torch.func, which our functions are not made for

    def _is_recomputed(self) -> bool:
        active = saved_tensor_hooks_active()
        self.recomputes |= active
        return active

    def _is_transformed(self) -> bool:
        """Return whether the model is within a transform of torch.func, or in a forward mode of its own."""
        within_own_mode = self._target is not None and forward_ad._current_level >= 0
        return within_own_mode or torch._C._functorch.peek_interpreter_stack() is not None


def saved_tensor_hooks_active() -> bool:
    """Return whether hooks for saved tensors are active, as within ``torch.utils.checkpoint``."""
    try:
        with torch.autograd.graph.disable_saved_tensors_hooks("specdens looks for hooks"):
            return False
    except RuntimeError:  # hooks cannot be disabled while there are any
        return True


def _substitute(func: Any) -> Callable[[BackwardTarget, Any, Any], Tensor] | None:
    if func in FUNCTIONS:
        return lambda target, args, kwargs: convolution(func, target, args, kwargs)
    return linear if func is F.linear else None


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
    """Return batch norm in eval mode as the affine map it is."""
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


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """Return g v / ‖v‖ by plain operations: the fused function has a wrong second derivative."""
    return v * (g / torch.norm_except_dim(v, 2, dim))


def _embedding(args: tuple[Any, ...], kwargs: dict[str, Any], *, is_dual: bool) -> Tensor:
    """Return F.embedding with a dense gradient, and without a tangent at padding_idx, as it has no gradient there."""
    names = ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
    given = {**dict(zip(names, args, strict=False)), **kwargs, "sparse": False}
    if given.get("scale_grad_by_freq"):
        raise ValueError(
            "an embedding has scale_grad_by_freq=True: what it computes is not the gradient of the loss, and there is "
            "no curvature to it. Set it to False."
        )
    out: Tensor = F.embedding(**given)
    padding = given.get("padding_idx")
    if not is_dual or padding is None:
        return out
    if padding < 0:
        padding += given["weight"].shape[0]
    return torch.where((given["input"] == padding)[..., None], forward_ad.unpack_dual(out).primal, out)
