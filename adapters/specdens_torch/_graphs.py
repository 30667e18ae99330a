"""The graph of one batch: outputs f, the gradient Jᵀr, and the products that lead through them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from specdens_torch._batches import Batch
from specdens_torch._forward import Forward
from specdens_torch._params import Subset
from specdens_torch._states import State
from specdens_torch._wanted import Sink

Curve = Callable[[Tensor], Tensor]


class _Selector:
    """What S the double backward of the moment shall use: none gives H, that of the loss gives Hess."""

    curve: Curve | None = None


class _Residual(torch.autograd.Function):  # type: ignore[misc]
    """r as a function of f: the residual in float64 forward, S u in float64 backward, whatever the model's dtype."""

    @staticmethod
    def forward(ctx: Any, f: Tensor, r: Tensor, selector: _Selector) -> Tensor:
        ctx.selector = selector
        return r.clone()

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor | None, None, None]:
        curve = ctx.selector.curve
        return (None if curve is None else curve(u).to(u.dtype)), None, None


class Graph:
    """One batch, evaluated as far as it was asked for and no further.

    Parameters
    ----------
    forward
        The model as a function of its leaves.
    batch
        The batch.
    make_state
        From outputs and targets to the loss near them.
    check
        Whether to look for functions without a second derivative behind the gradient.
    """

    def __init__(
        self, forward: Forward, batch: Batch, make_state: Callable[[Tensor, Any], State], *, check: bool
    ) -> None:
        self._forward, self._batch, self._make_state = forward, batch, make_state
        self._f: Tensor | None = None
        self._g: tuple[Tensor | None, ...] | None = None
        self._r: Tensor | None = None
        self._state: State | None = None
        self._selector = _Selector()
        self._check = check

    def fresh(self) -> Graph:
        """Return the same batch, not yet evaluated."""
        return Graph(self._forward, self._batch, self._make_state, check=self._check)

    @property
    def state(self) -> State:
        """The loss near the outputs."""
        if self._state is None:
            with torch.no_grad():
                self._state = self._make_state(self._forward(self._forward.leaves, self._batch.raw), self._batch.target)
        return self._state

    @property
    def f(self) -> Tensor:
        """The outputs, with the graph that leads to the parameters."""
        if self._f is None:
            with torch.enable_grad():
                self._set_outputs(self._forward(self._forward.leaves, self._batch.raw))
        return self._f

    def _set_outputs(self, f: Tensor) -> None:
        if not f.requires_grad:
            raise ValueError("the outputs must depend on the parameters in `params`; they do not")
        self._f = f
        if self._state is None:
            self._state = self._make_state(f.detach(), self._batch.target)

    @property
    def g(self) -> tuple[Tensor | None, ...]:
        """The gradient Jᵀr with its own graph; r is a node of it whose gradient is Jv."""
        if self._g is None:
            f = self.f
            with torch.enable_grad():
                self._r = _Residual.apply(f, self.state.residual.to(f.dtype), self._selector)
                self._g = torch.autograd.grad(f, self._forward.leaves, self._r, create_graph=True, allow_unused=True)
            if self._check:
                check_twice_differentiable(self._g)
        return self._g

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
            return torch.zeros_like(self.f)
        self._forward.wanted.only_jvp = True
        try:
            (u,) = torch.autograd.grad(outputs, [self._r], cotangents, retain_graph=True)
        finally:
            self._forward.wanted.only_jvp = False
        return u

    def _forward_mode(self, subset: Subset, v: list[Tensor], *, record: bool) -> Tensor:
        tangents = dict(zip(subset.indices, v, strict=True))
        record = record and self._f is None
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
        return torch.zeros_like(f) if u is None else u.detach()

    def vjp(self, subset: Subset, q: Tensor, sink: Sink) -> None:
        """Add Jᵀq to the sink."""
        f = self.f
        leaves = [self._forward.leaves[i] for i in subset.indices]
        self._forward.wanted.sink = sink
        try:
            torch.autograd.grad(f, leaves, q.to(f.dtype), retain_graph=True, allow_unused=True)
        finally:
            self._forward.wanted.sink = None

    def hessian(self, subset: Subset, v: list[Tensor], sink: Sink, curve: Curve | None, *, with_u: bool) -> Tensor:
        """Add Hv + JᵀSJv to the sink by one double backward, S being `curve`; return Jv if asked for."""
        outputs, cotangents = self._reached(subset, v)
        leaves = [self._forward.leaves[i] for i in subset.indices]
        if not outputs:
            return torch.zeros_like(self.f)
        self._selector.curve, self._forward.wanted.sink = curve, sink
        try:
            inputs = [*leaves, self._r] if with_u else leaves
            gradients = torch.autograd.grad(outputs, inputs, cotangents, retain_graph=True, allow_unused=True)
        finally:
            self._selector.curve = self._forward.wanted.sink = None
        u = gradients[-1] if with_u else None
        return torch.zeros_like(self.f) if u is None else u

    def _reached(self, subset: Subset, v: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the parts of the gradient that exist, and the matching parts of v."""
        pairs = [(self.g[i], t) for i, t in zip(subset.indices, v, strict=True) if self.g[i] is not None]
        return [g for g, _ in pairs if g is not None], [t for _, t in pairs]


def check_twice_differentiable(tensors: Sequence[Tensor | None]) -> None:
    """Raise if the graph behind tensors ends where a function was marked as differentiable once.

    Torch puts a node there that raises, but leads nowhere: ``torch.autograd.grad`` never visits it, and what comes
    through it would silently be missing.
    """
    nodes = [t.grad_fn for t in tensors if t is not None]
    seen = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name().endswith("Error"):
            raise RuntimeError("a function marked with @once_differentiable has no second derivative.")
        nodes += [following for following, _ in node.next_functions]


@functools.cache
def _load_forward_mode() -> None:
    """Let torch load its decompositions, which it compiles in a way that it warns of itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with forward_ad.dual_level():
            forward_ad.make_dual(torch.zeros(()), torch.zeros(()))


def graph_bytes(graph: Graph, shared: Sequence[Tensor]) -> int:
    """Return the memory that the graph of a batch keeps, both backwards included, beyond what is there anyway."""
    seen = {t.untyped_storage()._cdata for t in shared}
    total = 0

    def pack(t: Tensor) -> Tensor:
        nonlocal total
        storage = t.untyped_storage()
        if storage._cdata not in seen:
            seen.add(storage._cdata)
            total += storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        _ = graph.g
    return total
