"""Checks that the graph of a batch has the derivatives that products need."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

import specdens as sd

# Nodes of functions that are constant almost everywhere, as torch names them.
_CONSTANT = ("Round", "Sign", "Sgn", "Floor", "Ceil", "Trunc", "Heaviside")

_REENTRANT = (
    "the model uses reentrant gradient checkpointing, which has no second derivative. Use "
    "torch.utils.checkpoint.checkpoint(..., use_reentrant=False), or switch checkpointing off."
)


def nodes(tensors: Sequence[Tensor | None], *, through_constants: bool = True) -> Iterator[Any]:
    """Yield all nodes of the graph behind tensors, each once; perhaps not those behind a constant function."""
    nodes = [t.grad_fn for t in tensors if t is not None]
    seen = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        if through_constants or not _constant(node):
            nodes += [following for following, _ in node.next_functions]


def check_twice_differentiable(tensors: Sequence[Tensor | None]) -> None:
    """Raise if the graph behind tensors ends where a function was marked as differentiable once.

    Torch puts a node there that raises, but leads nowhere: ``torch.autograd.grad`` never visits it, and what comes
    through it would silently be missing.
    """
    if any(node.name().endswith("Error") for node in nodes(tensors)):
        raise RuntimeError("a function marked with @once_differentiable has no second derivative.")


def check_outputs(f: Tensor) -> None:
    """Refuse outputs that lead through reentrant checkpointing."""
    if any(node.name().startswith("CheckpointFunction") for node in nodes([f])):
        raise ValueError(_REENTRANT)


def check_no_earlier_pass(f: Tensor, model: nn.Module) -> None:
    """Refuse outputs that lead to the model's own parameters, in whose place others stood during the pass."""
    reached = _leaves(nodes([f]))
    found = [name for name, p in model.named_parameters() if id(p) in reached]
    if found:
        raise ValueError(
            f"the outputs lead to `{found[0]}` through a tensor that the model has kept from an earlier pass: they are "
            "no function of its parameters as they are now. Clear what the model keeps first."
        )


@contextlib.contextmanager
def refused_warnings() -> Iterator[None]:
    """Refuse what torch only warns of: reentrant checkpointing without gradients."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="None of the inputs have requires_grad=True")
        try:
            yield
        except UserWarning as error:
            raise ValueError(_REENTRANT) from error


def warn_of_blocked(f: Tensor, leaves: Mapping[str, Tensor]) -> None:
    """Warn of parameters whose derivative is zero everywhere, behind a function such as round()."""
    kinds = sorted({kind for node in nodes([f]) if (kind := _constant(node))})
    if not kinds:
        return
    reached, seen = (_leaves(nodes([f], through_constants=through)) for through in (True, False))
    blocked = [name for name, leaf in leaves.items() if id(leaf) in reached - seen]
    if not blocked:
        return
    culprit = " and ".join(f"{name.lower()}()" for name in kinds)
    shown = ", ".join(blocked[:3]) + (f", … {len(blocked)} in all" if len(blocked) > 3 else "")
    warnings.warn(
        f"the derivative with respect to {shown} is zero everywhere: {culprit} stands between them and the outputs. "
        "Their curvature is zero; leave them out of params=, or use the function that is trained instead.",
        sd.SpecdensWarning,
        stacklevel=2,
    )


def _constant(node: Any) -> str | None:
    return next((kind for kind in _CONSTANT if node.name().startswith(f"{kind}Backward")), None)


def _leaves(nodes: Iterable[Any]) -> set[int]:
    return {id(node.variable) for node in nodes if hasattr(node, "variable")}
