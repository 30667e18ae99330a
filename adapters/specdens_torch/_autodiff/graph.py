"""The graph of one batch: outputs f, the gradient Jᵀr, and the products that lead through them."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from specdens_torch._autodiff.custom_functions import custom_functions, warn_of_wrong_derivatives
from specdens_torch._autodiff.differentiability import (
    check_no_earlier_pass,
    check_outputs,
    check_twice_differentiable,
    refused_warnings,
    warn_of_blocked,
)
from specdens_torch._autodiff.gradient_buffer import GradientBuffer
from specdens_torch._autodiff.model_function import Forward
from specdens_torch._data.batches import Batch
from specdens_torch._loss.derivatives import State, gradient_in
from specdens_torch._parameters import Subset, subset_of, vector_dtype

OutputHessian = Callable[[Tensor], Tensor]


class _Selector:
    """The Hessian S in output space that a double backward uses: none gives H, that of the loss gives Hess."""

    output_hessian: OutputHessian | None = None
    scale = 1.0
    """What r is multiplied by before it is cast to the dtype of the outputs."""


class _Residual(torch.autograd.Function):  # type: ignore[misc]
    """r as a function of f: the residual in float64 forward, S u in float64 backward, whatever the model's dtype."""

    @staticmethod
    def forward(ctx: Any, f: Tensor, state: State, selector: _Selector) -> Tensor:
        ctx.selector = selector
        if f.dtype != torch.float16:
            return gradient_in(state, f.dtype)
        selector.scale = range_scale(state.residual, f.dtype)
        return scaled(state.residual, selector.scale, f.dtype)

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor | None, None, None]:
        output_hessian = ctx.selector.output_hessian
        return (None if output_hessian is None else output_hessian(u).to(u.dtype)), None, None


class Graph:
    """Outputs and gradient of one batch with their graphs, each evaluated when it is first needed.

    Parameters
    ----------
    forward : Forward
        The model as a function of its leaves.
    batch : Batch
        The batch.
    make_state : callable
        ``make_state(outputs, targets)`` returns the derivatives of the loss at the outputs.
    check : bool
        Whether to look for functions without a second derivative behind the gradient.
    """

    def __init__(
        self, forward: Forward, batch: Batch, make_state: Callable[[Tensor, Any], State], *, check: bool
    ) -> None:
        self._forward, self._batch, self._make_state = forward, batch, make_state
        self._f: Tensor | None = None  # until the gradient is there
        self._f_edge: GradientEdge | None = None
        self._g: tuple[GradientEdge | None, ...] | None = None
        self._r: GradientEdge | None = None
        self._state: State | None = None
        self._selector = _Selector()
        self._check = check

    def fresh(self) -> Graph:
        """Return the same batch, not yet evaluated."""
        return Graph(self._forward, self._batch, self._make_state, check=self._check)

    @property
    def state(self) -> State:
        """The derivatives of the loss at the outputs."""
        if self._state is None:
            output = self._forward.values(self._batch.raw)
            with torch.no_grad():
                self._state = self._make_state(output, self._batch.target)
        return self._state

    def _outputs(self) -> Tensor:
        """Return the outputs, with the graph that leads to the parameters."""
        if self._f is None:
            with torch.enable_grad(), refused_warnings() if self._check else contextlib.nullcontext():
                f = self._set_outputs(self._forward(self._forward.leaves, self._batch.raw))
            if self._check:
                check_outputs(f)
                check_no_earlier_pass(f, self._forward.model)
            return f
        return self._f

    def _set_outputs(self, f: Tensor) -> Tensor:
        if not f.requires_grad:
            raise ValueError("the outputs must depend on the parameters in `params`; they do not")
        self._f, self._f_edge = f, get_gradient_edge(f)
        self._zeros = functools.partial(torch.zeros, f.shape, dtype=f.dtype, device=f.device)
        self._dtype = f.dtype
        if self._state is None:
            self._state = self._make_state(f.detach(), self._batch.target)
        return f

    def evaluate(self) -> State:
        """Evaluate the outputs with their graph; return the derivatives of the loss there, without a further pass."""
        if self._f_edge is None:
            self._outputs()
        return self.state

    def gradient(self) -> tuple[GradientEdge | None, ...]:
        """Return where the gradient Jᵀr leaves its graph; r is a node of it whose gradient is Jv.

        The gradient itself is as large as the parameters and is not kept: derivatives need only its place in the graph.
        """
        if self._g is None:
            f = self._outputs()
            with torch.enable_grad(), self._forward.backward():
                r = _Residual.apply(f, self.state, self._selector)
                self._forward.backward_target.only_edges = True
                try:
                    g = torch.autograd.grad(f, self._forward.leaves, r, create_graph=True, allow_unused=True)
                finally:
                    self._forward.backward_target.only_edges = False
            if self._check:
                check_twice_differentiable(g)
            self._r = get_gradient_edge(r)
            self._g = tuple(get_gradient_edge(t) if t is not None and t.requires_grad else None for t in g)
            self._f = None
            if self._check and not self._forward.has_warned:
                self._forward.has_warned = True
                warn_of_blocked(f, dict(zip(self._forward.names, self._forward.leaves, strict=True)))
                self._compare_with_differences(custom_functions(f))
        return self._g

    def _compare_with_differences(self, names: list[str]) -> None:
        """Compare Jv and Hess v with differences along one direction, where the model has functions of its own."""
        if not names or self._forward.is_sharded:
            return
        leaves = self._forward.leaves
        subset = subset_of(dict(zip(self._forward.names, leaves, strict=True)))
        generator = torch.Generator().manual_seed(0)
        v = []
        for p in leaves:
            t = torch.randn(p.shape, generator=generator).to(p)
            v.append(t * (p.detach().norm() / t.norm().clamp_min(1e-30)).clamp_min(1e-3))
        out = torch.empty(subset.num_entries, dtype=vector_dtype(subset.dtypes), device=leaves[0].device)
        buffer = GradientBuffer(subset, out)
        try:
            u = self.hessian_and_jvp(subset, v, buffer, self.state.curvature)
        except ValueError:  # a loss without a second derivative, which products say
            return
        buffer.finish(1.0)
        warn_of_wrong_derivatives(names, leaves, self._outputs_and_gradient, u, subset.views(out), v)

    def _outputs_and_gradient(self, values: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return the outputs and the gradient of the loss at other values of the parameters."""
        leaves = [t.detach().requires_grad_() for t in values]
        with torch.enable_grad(), self._forward.backward():
            f = self._forward(leaves, self._batch.raw)
            residual = self._make_state(f.detach(), self._batch.target).residual.to(f.dtype)
            g = torch.autograd.grad(f, leaves, residual, allow_unused=True)
        return f.detach(), [torch.zeros_like(p) if t is None else t for t, p in zip(g, leaves, strict=True)]

    @property
    def has_gradient(self) -> bool:
        return self._g is not None

    # -- products --------------------------------------------------------------------------------------------------

    def jvp(self, subset: Subset, v: list[Tensor], route: str, *, record: bool = False) -> Tensor:
        """Return Jv by a double backward, or in forward mode (with the graph recorded on the way, for a Jᵀ to come)."""
        if route == "forward":
            return self._forward_mode(subset, v, record=record)
        outputs, cotangents = self._reached(subset, v)
        if not outputs:
            return self._zeros()
        self._forward.backward_target.only_jvp = True
        try:
            with self._forward.backward():
                (u,) = torch.autograd.grad(outputs, [self._r], cotangents, retain_graph=True)
        finally:
            self._forward.backward_target.only_jvp = False
        return widened(u)

    def _forward_mode(self, subset: Subset, v: list[Tensor], *, record: bool) -> Tensor:
        tangents = dict(zip(subset.indices, v, strict=True))
        record = record and self._f_edge is None
        _load_forward_mode()
        with torch.set_grad_enabled(record), forward_ad.dual_level():
            leaves = [
                forward_ad.make_dual(leaf if record else leaf.detach(), tangents[i]) if i in tangents else leaf
                for i, leaf in enumerate(self._forward.leaves)
            ]
            f, u = forward_ad.unpack_dual(self._forward(leaves, self._batch.raw, dual=True))
            if record:
                self._set_outputs(f)
            elif self._state is None:
                self._state = self._make_state(f.detach(), self._batch.target)
        return torch.zeros_like(f) if u is None else widened(u.detach())

    def vjp(self, subset: Subset, q: Tensor, buffer: GradientBuffer) -> None:
        """Add Jᵀq to the buffer."""
        self.evaluate()
        leaves = [self._forward.leaves[i] for i in subset.indices]
        self._forward.backward_target.buffer = buffer
        buffer.scale = range_scale(q, self._dtype)
        try:
            with self._forward.backward():
                q = scaled(q, buffer.scale, self._dtype)
                torch.autograd.grad(self._f_edge, leaves, q, retain_graph=True, allow_unused=True)
        finally:
            self._forward.backward_target.buffer, buffer.scale = None, 1.0

    def hessian(
        self, subset: Subset, v: list[Tensor], buffer: GradientBuffer, output_hessian: OutputHessian | None
    ) -> None:
        """Add Hv + JᵀSJv to the buffer by one double backward, S being `output_hessian`."""
        self._double_backward(subset, v, buffer, output_hessian, with_u=False)

    def hessian_and_jvp(
        self, subset: Subset, v: list[Tensor], buffer: GradientBuffer, output_hessian: OutputHessian | None
    ) -> Tensor:
        """Add Hv + JᵀSJv to the buffer, and return Jv."""
        u = self._double_backward(subset, v, buffer, output_hessian, with_u=True)
        return self._zeros() if u is None else widened(u)

    def _double_backward(
        self,
        subset: Subset,
        v: list[Tensor],
        buffer: GradientBuffer,
        output_hessian: OutputHessian | None,
        *,
        with_u: bool,
    ) -> Tensor | None:
        outputs, cotangents = self._reached(subset, v)
        leaves = [self._forward.leaves[i] for i in subset.indices]
        if not outputs:
            return None
        if output_hessian is not None and self._selector.scale != 1.0:  # S u has a range of its own
            u = self.hessian_and_jvp(subset, v, buffer, None)
            self.vjp(subset, output_hessian(u), buffer)
            return u
        self._selector.output_hessian, self._forward.backward_target.buffer = output_hessian, buffer
        buffer.scale = self._selector.scale
        try:
            inputs = [*leaves, self._r] if with_u else leaves
            with self._forward.backward():
                gradients = torch.autograd.grad(outputs, inputs, cotangents, retain_graph=True, allow_unused=True)
        finally:
            self._selector.output_hessian = self._forward.backward_target.buffer = None
            buffer.scale = 1.0
        return gradients[-1] if with_u else None

    def _reached(self, subset: Subset, v: list[Tensor]) -> tuple[list[GradientEdge], list[Tensor]]:
        """Return the parts of the gradient that exist, and the matching parts of v."""
        gradient = self.gradient()
        pairs = [(gradient[i], t) for i, t in zip(subset.indices, v, strict=True) if gradient[i] is not None]
        return [g for g, _ in pairs if g is not None], [t for _, t in pairs]


def range_scale(q: Tensor, dtype: Any) -> float:
    """Return a power of 2 that brings numbers near the range of a narrow dtype; 1 for all dtypes but float16.

    Divided by the number of examples, the gradient of a trained network is below what float16 can hold. Scaled by this,
    the sum of all entries is 32, with room for what backward passes multiply it by.
    """
    if dtype != torch.float16 or q.is_meta:
        return 1.0
    total = float(q.abs().sum(dtype=torch.float64))
    return 2.0 ** round(math.log2(32 / total)) if 0 < total < math.inf else 1.0


def scaled(q: Tensor, scale: float, dtype: Any) -> Tensor:
    """Return q multiplied in its own dtype, and then cast."""
    return (q if scale == 1.0 else q * scale).to(dtype)


def widened(u: Tensor) -> Tensor:
    """Return float16 numbers in float64, so that what is computed from them keeps its range."""
    return u.double() if u.dtype == torch.float16 else u


@functools.cache
def _load_forward_mode() -> None:
    """Let torch load its decompositions, which it compiles in a way that it warns of itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with forward_ad.dual_level():
            forward_ad.make_dual(torch.zeros(()), torch.zeros(()))
