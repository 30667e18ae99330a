"""What a layer needs of its whole parameters, pass by pass: its value, its first and its second derivatives.

A formula asks for a whole parameter (`Whole`) only where it needs it, as that is a message to all ranks. Gradients with
respect to parameters are whole too; who calls sums them over the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from specdens_torch._autodiff.layers.convolution import ConvolutionOptions

Whole = Callable[[int], Tensor]
"""From the number of an input to its values; parameters are gathered when they are first asked for."""
Tensors = list[Tensor | None]


class Formula(Protocol):
    """A function of some inputs, parameters among them."""

    def value(self, x: Whole) -> Tensor:
        """Return the output."""

    def vjp(self, x: Whole, g: Tensor, mask: Sequence[bool]) -> Tensors:
        """Return the derivatives of ⟨g, output⟩ with respect to the inputs in the mask."""

    def second(self, x: Whole, g: Tensor, v: Tensors, mask: Sequence[bool]) -> tuple[Tensor | None, Tensors]:
        """Return the derivatives of Σ ⟨v, vjp⟩ with respect to g and to the inputs in the mask."""


class Recomputed:
    """Any function of tensors, computed again in every pass.

    Parameters
    ----------
    run : callable
        From the inputs to the output.
    num_inputs : int
        The number of inputs.
    """

    def __init__(self, run: Callable[..., Tensor], num_inputs: int) -> None:
        self.run, self.num_inputs = run, num_inputs

    def value(self, x: Whole) -> Tensor:
        return self.run(*(x(k) for k in range(self.num_inputs)))

    def vjp(self, x: Whole, g: Tensor, mask: Sequence[bool]) -> Tensors:
        with torch.enable_grad():
            inputs, output = self._again(x, mask)
            return _gradients(output, inputs, g, mask)

    def second(self, x: Whole, g: Tensor, v: Tensors, mask: Sequence[bool]) -> tuple[Tensor | None, Tensors]:
        asked = [each is not None for each in v]
        with torch.enable_grad():
            inputs, output = self._again(x, [a or b for a, b in zip(asked, mask, strict=True)])
            cotangent = g.detach().requires_grad_()
            first = _gradients(output, inputs, cotangent, asked, create_graph=True)
            pairs = [(d, e) for d, e in zip(first, v, strict=True) if d is not None and e is not None]
            pairs = [(d, e) for d, e in pairs if d.requires_grad]
            found = _gradients(
                [d for d, _ in pairs], [cotangent, *inputs], [e for _, e in pairs], [True, *mask]
            )  # fmt: skip
        return found[0], found[1:]

    def _again(self, x: Whole, mask: Sequence[bool]) -> tuple[list[Tensor], Tensor]:
        inputs = [x(k).detach() for k in range(self.num_inputs)]
        for tensor, needed in zip(inputs, mask, strict=True):
            tensor.requires_grad_(needed)
        return inputs, self.run(*inputs)


def _gradients(
    output: Any, inputs: list[Tensor], g: Any, mask: Sequence[bool], *, create_graph: bool = False
) -> Tensors:
    wanted = [tensor for tensor, needed in zip(inputs, mask, strict=True) if needed]
    if not wanted or (isinstance(output, list) and not output):
        return [None] * len(inputs)
    found = iter(torch.autograd.grad(output, wanted, g, create_graph=create_graph, allow_unused=True))
    return [next(found) if needed else None for needed in mask]


class Linear:
    """F.linear of (input, weight, bias), without its output in the backward passes."""

    def __init__(self, *, has_bias: bool) -> None:
        self.has_bias = has_bias

    def value(self, x: Whole) -> Tensor:
        return F.linear(x(0), x(1), x(2) if self.has_bias else None)

    def vjp(self, x: Whole, g: Tensor, mask: Sequence[bool]) -> Tensors:
        found = [g @ x(1) if mask[0] else None, _rows(g).mT @ _rows(x(0)) if mask[1] else None]
        return [*found, *([_rows(g).sum(0) if mask[2] else None] if self.has_bias else [])]

    def second(self, x: Whole, g: Tensor, v: Tensors, mask: Sequence[bool]) -> tuple[Tensor | None, Tensors]:
        vx, vw, vb = (*v, None)[:3]
        to_g = None if vw is None else F.linear(x(0), vw, vb)
        if vw is None and vb is not None:
            to_g = vb.expand(g.shape)
        if vx is not None:
            moved = F.linear(vx, x(1))
            to_g = moved if to_g is None else to_g + moved
        to_x = g @ vw if vw is not None and mask[0] else None
        to_weight = _rows(g).mT @ _rows(vx) if vx is not None and mask[1] else None
        return to_g, [to_x, to_weight, *([None] if self.has_bias else [])]


class Convolution:
    """A convolution of (input, weight, bias), without its output in the backward passes."""

    def __init__(self, options: ConvolutionOptions) -> None:
        self.options = options
        self.has_bias = options.bias_size is not None

    def value(self, x: Whole) -> Tensor:
        return self.options.convolve(x(0), x(1), x(2) if self.has_bias else None)

    def vjp(self, x: Whole, g: Tensor, mask: Sequence[bool]) -> Tensors:
        mask = [*mask, False][:3]
        found = self.options.backward(g, x(0), x(1), mask)
        kept: Tensors = [t if needed else None for t, needed in zip(found, mask, strict=True)]
        return kept if self.has_bias else kept[:2]

    def second(self, x: Whole, g: Tensor, v: Tensors, mask: Sequence[bool]) -> tuple[Tensor | None, Tensors]:
        vx, vw, vb = (*v, None)[:3]
        options = self.options
        to_g = None if vw is None else options.convolve(x(0), vw, vb)
        if vw is None and vb is not None:
            to_g = vb.view(-1, *[1] * (g.dim() - 2)).expand(g.shape)
        if vx is not None:
            moved = options.convolve(vx, x(1), None)
            to_g = moved if to_g is None else to_g + moved
        to_x = to_weight = None
        if vw is not None and mask[0]:
            to_x = options.backward(g, x(0), vw, [True, False, False])[0]
        if vx is not None and mask[1]:
            to_weight = options.backward(g, vx, x(1), [False, True, False])[1]
        return to_g, [to_x, to_weight, *([None] if self.has_bias else [])]


class Embedding:
    """Rows of (weight), chosen by integers: only its value needs the parameter."""

    def __init__(self, indices: Tensor, num_rows: int, padding: int | None) -> None:
        self.indices, self.num_rows, self.padding = indices, num_rows, -1 if padding is None else padding % num_rows

    def value(self, x: Whole) -> Tensor:
        return F.embedding(self.indices, x(0))

    def vjp(self, x: Whole, g: Tensor, mask: Sequence[bool]) -> Tensors:
        return [torch.ops.aten.embedding_dense_backward(g, self.indices, self.num_rows, self.padding, False)]

    def second(self, x: Whole, g: Tensor, v: Tensors, mask: Sequence[bool]) -> tuple[Tensor | None, Tensors]:
        if v[0] is None:
            return None, [None]
        moved = F.embedding(self.indices, v[0])
        return (moved if self.padding < 0 else moved * (self.indices != self.padding)[..., None]), [None]


def _rows(t: Tensor) -> Tensor:
    return t.reshape(-1, t.shape[-1])
