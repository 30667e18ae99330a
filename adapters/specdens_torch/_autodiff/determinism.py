"""Checks that a model is deterministic and twice differentiable; errors name the module and the remedy."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

import specdens as sd
from specdens_torch._autodiff.differentiability import check_twice_differentiable
from specdens_torch._data.pytree import mapped, tensors_in
from specdens_torch._data.rng import random_states

# Passes of a model that draws random numbers: an event of probability 0.1 is missed once in 30 times.
_PASSES_IF_RANDOM = 32

_DROPOUTS = (
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
    nn.RReLU,
)


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
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
            raise ValueError(
                f"embedding {where} has max_norm={module.max_norm:g}: it rescales its own weights in every pass, so "
                "they are no free parameters. Apply the norm once and set max_norm=None."
            )
        probability = getattr(module, "p", 0.0) if isinstance(module, _DROPOUTS) else getattr(module, "dropout", 0.0)
        if isinstance(module, nn.RReLU):
            probability = module.upper - module.lower
        if module.training and isinstance(probability, float) and probability > 0:
            raise ValueError(
                f"dropout {where} is in training mode with p={probability:g}: products would be random. "
                "Call model.eval() first."
            )


def check_repeats(
    run: Callable[[], Tensor], model: nn.Module, device: Any, written: Callable[[], list[str]] = list
) -> bool:
    """Run the model repeatedly and compare; where the outputs differ, name the first module whose output does.

    Parameters
    ----------
    run : callable
        Returns the outputs for one batch.
    model : Module
        The model.
    device : torch.device
        The device whose random state counts.
    written : callable
        Returns the names of the buffers that passes have written to.

    Returns
    -------
    bool
        Whether the model draws random numbers, without effect on the outputs.

    Raises
    ------
    ValueError
        If the outputs differ.
    """
    before = random_states(model, device)
    first = run()
    if first.is_meta:
        return False
    draws = random_states(model, device) != before
    # a layer that is left out at random shows in one of many passes only
    for _ in range(_PASSES_IF_RANDOM if draws else 1):
        if not _same(first, run()):
            if not draws and written():
                raise ValueError(
                    "the model gave different outputs for the same batch twice: it writes to its buffer "
                    f"`{written()[0]}` in every pass, also in eval mode, and its outputs depend on that. Let it write "
                    "in training mode only."
                )
            raise ValueError(
                f"the model gave different outputs for the same batch twice: {_first_difference(run, model)}. Switch "
                f"off what is random in it ({_random_things(model)})."
            )
    if draws:
        warnings.warn(
            f"the model draws random numbers in its forward. Its outputs were the same in {_PASSES_IF_RANDOM + 1} "
            "passes; if they depend on these numbers in rare cases, products are random.",
            sd.SpecdensWarning,
            stacklevel=2,
        )
    return draws


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.equal(a, b) or torch.allclose(a, b, rtol=1e-5, equal_nan=True))


def _first_difference(run: Callable[[], Tensor], model: nn.Module) -> str:
    """Return a sentence on the first module whose output differs between two passes."""
    for _ in range(_PASSES_IF_RANDOM):
        passes: list[list[tuple[str, Any]]] = []
        for _ in range(2):
            with _recorded(model) as calls:
                run()
            passes.append([(name, output) for name, _, _, _, output in calls])
        for (name, one), (_, other) in zip(*passes, strict=False):
            if not all(_same(a, b) for a, b in zip(tensors_in(one), tensors_in(other), strict=False)):
                return f"`{name or '(the model)'}` is the first module whose output differs"
    return "no single module does it"


def _random_things(model: nn.Module) -> str:
    things = "dropout, noise, sampling, layers left out at random"
    return f"{things}), for instance with model.eval(" if any(m.training for m in model.modules()) else things


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
