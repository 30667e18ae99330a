"""The model as a function of parameters of which every rank holds some rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from specdens_torch._autodiff.gradient_buffer import BackwardTarget
from specdens_torch._autodiff.model_function import Forward
from specdens_torch._ranks import Ranks
from specdens_torch._sharding.parts import Part, is_sharded, local_part, part_of
from specdens_torch._sharding.uses import ShardedSubstitutes


class ShardedForward(Forward):
    """Outputs of a model whose parameters are gathered layer by layer; leaves are the rows of this rank.

    Parameters
    ----------
    model, forward, selected
        As for `Forward`.
    ranks : Ranks
        The ranks that have the other rows.
    """

    is_sharded = True

    def __init__(
        self,
        model: nn.Module,
        forward: Callable[[nn.Module, Any], Any],
        selected: Mapping[str, Tensor],
        ranks: Ranks,
    ) -> None:
        self._ranks = ranks
        super().__init__(model, forward, selected)

    def _take_parameters(self, named: Mapping[str, Tensor]) -> None:
        chosen, held = set(self.names), {}
        parts: dict[str, Part] = {}
        for name, p in named.items():
            if name in chosen or is_sharded(p):
                parts[name] = part_of(p, self._ranks, differentiated=name in chosen)
            else:
                held[f"model.{name}"] = p.detach()
        self.leaves = [parts[name].leaf for name in self.names]
        self._held = held | {f"model.{name}": part.placeholder for name, part in parts.items()}
        self._parts = {id(part.placeholder): part for part in parts.values()}

    @staticmethod
    def _local(t: Tensor) -> Tensor:
        return local_part(t)

    def __call__(self, leaves: Sequence[Tensor], raw: Any, *, dual: bool = False) -> Tensor:
        substitutes = ShardedSubstitutes(self.backward_target, self._parts)
        with self.restored(), self.backend(), substitutes:
            output = torch.func.functional_call(self._holder, self._held, (raw,))
        if substitutes.differentiates:
            raise ValueError(
                "the model computes a gradient in its forward, which is not done where ranks share the rows of "
                "parameters"
            )
        return self._as_output(output)


@contextlib.contextmanager
def gathered_within(model: nn.Module, ranks: Ranks) -> Iterator[None]:
    """Let a model with parameters shared by rows be called as any other within this context."""
    named = dict(model.named_parameters())
    if not any(is_sharded(p) for p in named.values()):
        yield
        return
    parts = {name: part_of(p, ranks, differentiated=False) for name, p in named.items()}
    tensors = {name: part.placeholder for name, part in parts.items()}
    mode = ShardedSubstitutes(BackwardTarget(), {id(part.placeholder): part for part in parts.values()})
    with torch.nn.utils.stateless._reparametrize_module(model, tensors, tie_weights=True), mode:
        yield
