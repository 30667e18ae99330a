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

_ATTENTION = (F.multi_head_attention_forward, F.scaled_dot_product_attention)
_LAYER_NORMS = (F.layer_norm, torch.layer_norm)


class Substitutes(TorchFunctionMode):  # type: ignore[misc]
    """Replace functions of torch while the model runs.

    Parameters
    ----------
    target : BackwardTarget or None
        Where the gradients of linear layers and convolutions go; None in forward mode, which has no backward pass.
    """

    def __init__(self, target: BackwardTarget | None) -> None:
        super().__init__()
        self._target = target
        self.differentiates = self._has_layer_norm = False
        """Whether the model itself computed a gradient."""
        self.recomputes = False
        """Whether part of the model is evaluated again during the backward pass."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.autograd.grad:
            self.differentiates = True
        elif func in _LAYER_NORMS:
            self._has_layer_norm = True
        self._refuse_third_derivatives()
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

    def _refuse_third_derivatives(self) -> None:
        if self.differentiates and self._has_layer_norm and torch.is_grad_enabled():
            raise ValueError(
                "the model computes a gradient in its forward and has a layer norm: its curvature needs the third "
                "derivative of layer_norm, which torch computes wrongly. Write the normalisation with mean and var."
            )


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
