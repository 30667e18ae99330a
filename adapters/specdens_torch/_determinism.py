"""Products must be deterministic and twice differentiable: what is not is named, with its remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from specdens_torch._graphs import check_twice_differentiable
from specdens_torch._nests import mapped, tensors_in

_DROPOUTS = (nn.modules.dropout._DropoutNd, nn.RReLU)


def check_modules(model: nn.Module) -> None:
    """Refuse modules that make products random or couple the examples of a batch."""
    for name, module in model.named_modules():
        kind = type(module).__name__
        where = f"`{name}` ({kind})" if name else kind
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.running_mean is None:
                raise ValueError(
                    f"batch norm {where} has track_running_stats=False: it couples the examples of a batch even in "
                    "eval mode, and there is no curvature per example. Give it running statistics."
                )
            if module.training:
                raise ValueError(
                    f"batch norm {where} is in training mode: it couples the examples of a batch and changes its "
                    "statistics with every product. Call model.eval() first."
                )
        probability = getattr(module, "p", 0.0) if isinstance(module, _DROPOUTS) else getattr(module, "dropout", 0.0)
        if isinstance(module, nn.RReLU):
            probability = module.upper - module.lower
        if module.training and isinstance(probability, float) and probability > 0:
            raise ValueError(
                f"dropout {where} is in training mode with p={probability:g}: products would be random. "
                "Call model.eval() first."
            )


def check_repeats(run: Callable[[], Tensor], model: nn.Module) -> Tensor:
    """Run the model twice and compare; where the outputs differ, name the first module whose output does."""
    first, second = run(), run()
    if first.is_meta or torch.equal(first, second) or torch.allclose(first, second, rtol=1e-5, equal_nan=True):
        return first
    passes: list[list[tuple[str, Any]]] = []
    for _ in range(2):
        with _recorded(model) as calls:
            run()
        passes.append([(name, output) for name, _, _, _, output in calls])
    for (name, one), (_, other) in zip(*passes, strict=False):
        pairs = zip(tensors_in(one), tensors_in(other), strict=False)
        if any(a.shape != b.shape or not torch.allclose(a, b, rtol=1e-5, equal_nan=True) for a, b in pairs):
            culprit = f"`{name}` is the first module whose output differs"
            break
    else:
        culprit = "no single module does it"
    raise ValueError(
        f"the model gave different outputs for the same batch twice: {culprit}. Switch off what is random in it "
        "(dropout, noise, sampling), for instance with model.eval()."
    )


def name_failure(error: RuntimeError, run: Callable[[], Tensor], model: nn.Module) -> Exception:
    """Return an error that names the module that cannot be differentiated twice."""
    with _recorded(model) as calls, torch.no_grad(), contextlib.suppress(RuntimeError):
        run()
    for name, module, args, kwargs, _ in calls:
        try:
            _differentiate_twice(module, args, kwargs)
        except RuntimeError as local:
            return ValueError(
                f"module `{name or '(the model)'}` ({type(module).__name__}) cannot be differentiated twice: "
                f"{str(local).splitlines()[0]} Replace its in-place or non-differentiable operation."
            )
    return ValueError(
        f"the model cannot be differentiated twice: {str(error).splitlines()[0]} Look for in-place or "
        "non-differentiable operations in its forward."
    )


def _differentiate_twice(module: nn.Module, args: Any, kwargs: Any) -> None:
    leaves = []

    def leaf(t: Tensor) -> Tensor:
        if not t.is_floating_point():
            return t
        leaves.append(t.detach().clone().requires_grad_())
        return leaves[-1] * 1.0  # not a leaf, so that what is written in place is judged as within the model

    with torch.enable_grad():
        output = module(*mapped(leaf, args), **mapped(leaf, kwargs))
        outputs = [t for t in tensors_in(output) if t.requires_grad]
        inputs = leaves + [p for p in module.parameters() if p.requires_grad]
        if not outputs or not inputs:
            return
        total = sum((t * t).sum() for t in outputs)
        first = torch.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
        check_twice_differentiable(first)
        gradients = [g for g in first if g is not None and g.requires_grad]
        if gradients:
            torch.autograd.grad([(g * g).sum() for g in gradients], inputs, allow_unused=True)


@contextlib.contextmanager
def _recorded(model: nn.Module) -> Iterator[list[tuple[str, nn.Module, Any, Any, Any]]]:
    """Record the calls of all modules, children before parents; the hooks are gone afterwards."""
    calls: list[tuple[str, nn.Module, Any, Any, Any]] = []
    handles = []
    for name, module in model.named_modules():

        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any, name: str = name) -> None:
            copy = mapped(lambda t: t.detach().clone(), (args, kwargs, output))
            calls.append((name, module, *copy))

        handles.append(module.register_forward_hook(hook, with_kwargs=True))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()
