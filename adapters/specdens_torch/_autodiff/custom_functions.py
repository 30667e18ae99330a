"""A look at models with autograd functions of their own, whose derivatives may not be those of what they compute.

Functions whose backward calls a compiled kernel, forgets what it depends on, or reverses a gradient pass without an
error: products through them are symmetric and wrong. They are compared with differences, once and on one batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import specdens as sd
from specdens_torch._autodiff.differentiability import nodes

# Disagreement from here on is reported, if the differences themselves are ten times as certain.
_TOLERANCE, _CERTAINTY = 0.05, 0.1

Values = Callable[[Sequence[Tensor]], tuple[Tensor, Sequence[Tensor]]]


def custom_functions(f: Tensor) -> list[str]:
    """Return the names of the autograd functions behind outputs that are neither torch's nor ours."""
    found = {getattr(node, "_forward_cls", None) for node in nodes([f])} - {None}
    return sorted(
        function.__name__
        for function in found
        if function is not None and function.__module__.partition(".")[0] not in ("torch", "specdens_torch")
    )


def warn_of_wrong_derivatives(
    names: list[str], leaves: Sequence[Tensor], values: Values, Jv: Tensor, hessian_v: Sequence[Tensor], v: list[Tensor]
) -> None:
    """Warn if Jv or Hess v are not what differences say.

    Parameters
    ----------
    names : list of str
        The functions under suspicion.
    leaves : sequence of Tensor
        The parameters.
    values : callable
        From parameters to the outputs and the gradient of the loss.
    Jv : Tensor
        The derivative of the outputs along v.
    hessian_v : sequence of Tensor
        The derivative of the gradient along v.
    v : list of Tensor
        The direction.
    """
    eps = max(torch.finfo(leaf.dtype).eps for leaf in leaves)
    if eps > 1e-6 or Jv.is_meta:  # half precision cannot tell
        return
    step = eps ** (1 / 3)
    differences = []
    for h in (step, 2 * step):
        (f_plus, g_plus), (f_minus, g_minus) = (
            values([leaf.detach() + sign * h * t for leaf, t in zip(leaves, v, strict=True)]) for sign in (1, -1)
        )
        differences.append(((f_plus - f_minus) / (2 * h), (_flat(g_plus) - _flat(g_minus)) / (2 * h)))
    (f_near, g_near), (f_far, g_far) = differences
    first, second = _error(Jv, f_near, f_far), _error(_flat(hessian_v), g_near, g_far)
    if max(first, second) == 0.0:
        return
    wrong = "Hess, G and H are" if first else "Hess and H are"
    culprits = " or ".join(f"`{name}`" for name in names)
    warnings.warn(
        f"{wrong} not derivatives of the loss: along a random direction, on the first batch, they are off by "
        f"{100 * max(first, second):.0f} % from differences. The cause is the backward of the autograd function "
        f"{culprits}, which is not the derivative of its forward, or cannot be differentiated itself. Write it with "
        "operations of torch.",
        sd.SpecdensWarning,
        stacklevel=2,
    )


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors])


def _error(found: Tensor, near: Tensor, far: Tensor) -> float:
    """Return the relative error of what was found; 0 where it is small, or the two differences do not agree."""
    finite = torch.isfinite(found) & torch.isfinite(near) & torch.isfinite(far)
    found, near, far = (t[finite].double() for t in (found, near, far))
    off, size = float((found - near).norm()), max(float(found.norm()), float(near.norm()))
    return off / size if off > _TOLERANCE * size and float((far - near).norm()) < _CERTAINTY * off else 0.0
