"""Layers of a model whose parameters are shared by rows: gathered for every use, and dropped after it.

A placeholder stands for every parameter while the model runs. A linear layer, a convolution, an embedding or a matrix
product that meets one becomes a node of the graph that holds this rank's rows and gathers the others when a pass gets
there, so that no more than a layer is whole at a time; its gradients are summed over the ranks at once, and only rows
are added up. All other functions (norms, scales, reshaped weights) get the whole parameter, which the graph keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specdens_torch._autodiff.gradient_buffer import BackwardTarget, is_autocast
from specdens_torch._autodiff.layers.convolution import FUNCTIONS, convolution_arguments, convolution_options
from specdens_torch._autodiff.substitutes import Substitutes, saved_tensor_hooks_active
from specdens_torch._data.pytree import mapped, tensors_in
from specdens_torch._sharding.formulas import Convolution, Embedding, Formula, Linear, Recomputed, Tensors, Whole
from specdens_torch._sharding.parts import Part

# Functions without side effects that are computed again in backward passes rather than keep a whole parameter.
_MATRIX_PRODUCTS = frozenset(
    {
        torch.matmul, torch.mm, torch.addmm, torch.mv, torch.bmm, torch.einsum, F.bilinear, Tensor.matmul, Tensor.mm,
        Tensor.__matmul__, Tensor.__rmatmul__, torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d,
    }
)  # fmt: skip

# What can be told from a placeholder.
_FACTS = frozenset(
    {
        Tensor.size, Tensor.dim, Tensor.numel, Tensor.is_floating_point, Tensor.is_complex, Tensor.__len__,
        torch.is_floating_point, torch.is_complex, torch.numel, Tensor.element_size, Tensor.get_device,
    }
)  # fmt: skip
_PLACE = torch.empty(0)  # stands for the tensors among arguments that are kept without them
_FACT_NAMES = ("shape", "dtype", "device", "ndim", "requires_grad", "is_cuda", "is_meta", "layout", "is_leaf")


class _Call:
    """One call of a layer: its formula, and which of its inputs are parts of parameters."""

    def __init__(self, formula: Formula, parts: Sequence[Part | None], target: BackwardTarget) -> None:
        self.formula, self.parts, self.target = formula, parts, target

    def whole(self, saved: Sequence[Tensor]) -> Whole:
        """Return the inputs, of which parameters are gathered when they are first asked for."""
        found: dict[int, Tensor] = {}

        def whole(k: int) -> Tensor:
            if k not in found:
                part = self.parts[k]
                found[k] = saved[k] if part is None else part.gather()
            return found[k]

        return whole

    def gathered(self, v: Sequence[Tensor | None]) -> Tensors:
        """Return vectors in the place of the inputs, of which those of parameters are gathered."""
        pairs = zip(self.parts, v, strict=True)
        return [t if part is None or t is None else part.gathered(t) for part, t in pairs]

    def summed(self, gradients: Sequence[Tensor | None]) -> Tensors:
        """Sum the gradients of parameters over the ranks and add this rank's rows to the product; return the others."""
        pairs = zip(self.parts, gradients, strict=True)
        return [t if part is None or t is None else self._put(part, t) for part, t in pairs]

    def _put(self, part: Part, gradient: Tensor) -> Tensor | None:
        index, buffer = self.target.index(part.leaf), self.target.buffer
        if buffer is None or index is None:
            return part.summed(gradient)
        if index in buffer.places:
            buffer.put(index, part.summed(gradient))
        return None


class _Use(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, call: _Call, *saved: Tensor) -> Tensor:
        ctx.call = call
        ctx.save_for_backward(*saved)
        return call.formula.value(call.whole(saved))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        call, saved, mask = ctx.call, ctx.saved_tensors, ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            return (None, *_UseBackward.apply(call, mask, g, *saved))
        return (None, *call.summed(call.formula.vjp(call.whole(saved), g, mask)))


class _UseBackward(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, call: _Call, mask: Sequence[bool], g: Tensor, *saved: Tensor) -> tuple[Tensor | None, ...]:
        ctx.call, ctx.mask = call, mask
        ctx.save_for_backward(g, *saved)
        ctx.set_materialize_grads(False)
        # of the gradient with respect to a parameter only its place in the graph matters, not its value
        pairs = list(zip(call.parts, mask, strict=True))
        inputs = [needed and part is None for part, needed in pairs]
        found = call.formula.vjp(call.whole(saved), g, inputs) if any(inputs) else [None] * len(pairs)
        return tuple(
            leaf.new_zeros(()).expand(leaf.shape) if needed and part is not None else t
            for (part, needed), leaf, t in zip(pairs, saved, found, strict=True)
        )

    @staticmethod
    def backward(ctx: Any, *v: Tensor | None) -> tuple[Any, ...]:
        call, (g, *saved) = ctx.call, ctx.saved_tensors
        mask = [needed and not call.target.only_jvp for needed in ctx.mask]
        to_g, to_inputs = call.formula.second(call.whole(saved), g, call.gathered(v), mask)
        return (None, None, to_g, *call.summed(to_inputs))


class _Gather(torch.autograd.Function):  # type: ignore[misc]
    """A whole parameter from the rows of every rank; the gradient is summed over the ranks."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, part: Part) -> Tensor:
        ctx.part = part
        whole = part.gather()
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Sum.apply(gradient, ctx.part), None


class _Sum(torch.autograd.Function):  # type: ignore[misc]
    """The rows of this rank of a sum over the ranks."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, part: Part) -> Tensor:
        ctx.part = part
        return part.summed(gradient)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor, None]:
        return ctx.part.gathered(v), None


class ShardedSubstitutes(Substitutes):
    """Replace functions of torch while a model runs whose parameters are placeholders.

    Parameters
    ----------
    target : BackwardTarget
        What a backward pass computes.
    parts : mapping of int to Part
        The parts that placeholders stand for, by the placeholders' ids.
    """

    def __init__(self, target: BackwardTarget, parts: Mapping[int, Part]) -> None:
        super().__init__(target)
        self._parts, self._backward_target = parts, target

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FACTS or (getattr(func, "__name__", "") == "__get__" and _attribute(func) in _FACT_NAMES):
            return func(*args, **kwargs)
        given = (args, kwargs)
        if not any(id(x) in self._parts for x in tensors_in(given)):
            return super().__torch_function__(func, types, args, kwargs)
        if torch.is_grad_enabled() and saved_tensor_hooks_active():
            raise ValueError(
                "the model uses gradient checkpointing, and its parameters are shared by rows: what is evaluated again "
                "in the backward pass would not find them. Switch checkpointing off; parameters are not kept anyway."
            )
        layer = self._layer(func, args, kwargs)
        if layer is not None:
            return self._use(*layer)
        args, kwargs = mapped(lambda x: self._gathered(x) if id(x) in self._parts else x, given)
        return super().__torch_function__(func, types, args, kwargs)

    def _gathered(self, placeholder: Tensor) -> Tensor:
        part = self._parts[id(placeholder)]
        return _Gather.apply(part.leaf, part)

    def _use(self, formula: Formula, inputs: Sequence[Tensor]) -> Tensor:
        parts = [self._parts.get(id(x)) for x in inputs]
        saved = [x if part is None else part.leaf for x, part in zip(inputs, parts, strict=True)]
        return _Use.apply(_Call(formula, parts, self._backward_target), *saved)

    def _layer(self, func: Any, args: Any, kwargs: Any) -> tuple[Formula, list[Tensor]] | None:
        """Return the formula of a layer and its inputs, or None for all other functions."""
        if func is F.linear:
            given = {**dict(zip(("input", "weight", "bias"), args, strict=False)), **kwargs}
            x, weight, bias = given["input"], given["weight"], given.get("bias")
            if weight.dim() == 2 and x.dtype == weight.dtype and not is_autocast(x):
                return Linear(has_bias=bias is not None), [t for t in (x, weight, bias) if t is not None]
            return None
        if func in FUNCTIONS:
            given = convolution_arguments(args, kwargs)
            options = convolution_options(FUNCTIONS[func], given)
            inputs = [given["input"], given["weight"], given.get("bias")]
            return None if options is None else (Convolution(options), [t for t in inputs if t is not None])
        if func is F.embedding:
            return self._embedding(args, kwargs)
        if func in _MATRIX_PRODUCTS:
            return _recomputed(func, args, kwargs)
        return None

    def _embedding(self, args: Any, kwargs: Any) -> tuple[Formula, list[Tensor]] | None:
        names = ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        weight = given["weight"]
        if id(weight) not in self._parts or given.get("scale_grad_by_freq") or given.get("max_norm") is not None:
            return None
        return Embedding(given["input"], weight.shape[0], given.get("padding_idx")), [weight]


def _recomputed(func: Any, args: Any, kwargs: Any) -> tuple[Formula, list[Tensor]] | None:
    """Return a function of the tensors among its arguments."""
    tensors = list(tensors_in((args, kwargs)))
    if "out" in kwargs or any(not t.is_floating_point() or is_autocast(t) for t in tensors):
        return None

    places = mapped(lambda _: _PLACE, (args, kwargs))  # nothing but the graph keeps the tensors

    def run(*inputs: Tensor) -> Tensor:
        remaining = iter(inputs)
        again, names = mapped(lambda _: next(remaining), places)
        return func(*again, **names)

    return Recomputed(run, len(tensors)), tensors


def _attribute(getter: Any) -> str:
    return getattr(getattr(getter, "__self__", None), "__name__", "")
