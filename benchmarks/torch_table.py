"""Write docs/verified_networks.md: layers, losses, routes and cache modes that were tried, with the worst error.

Products are compared in float64 with central differences of plain gradients (Hess) and with rows of the Jacobian (G),
which need first derivatives only. Run with ``--check`` to print the table without writing it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import specdens_torch as sdt
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from torch_references import NETWORKS, build, directions, gauss_newton_products, hessian_products  # noqa: E402

PAGE = ROOT / "docs" / "verified_networks.md"
ROUTES, CACHES = ("forward", "double backward"), ("auto", "off")
LABEL_LOSSES: dict[str, Callable[[], Any]] = {
    "CrossEntropyLoss": nn.CrossEntropyLoss,
    "CrossEntropyLoss, weights": lambda: nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0, 1.0, 0.5]).double()),
    "CrossEntropyLoss, label smoothing": lambda: nn.CrossEntropyLoss(label_smoothing=0.1),
    "CrossEntropyLoss, ignore_index": lambda: nn.CrossEntropyLoss(ignore_index=1),
    "CrossEntropyLoss, sum": lambda: nn.CrossEntropyLoss(reduction="sum"),
    "NLLLoss of log_softmax": nn.NLLLoss,
    "NLLLoss, ignore_index and weights": lambda: nn.NLLLoss(torch.ones(4).double() * 2, ignore_index=1),
}
VALUE_LOSSES: dict[str, Callable[[], Any]] = {
    "MSELoss": nn.MSELoss,
    "BCEWithLogitsLoss": nn.BCEWithLogitsLoss,
    "BCEWithLogitsLoss, pos_weight": lambda: nn.BCEWithLogitsLoss(pos_weight=torch.arange(1.0, 5.0).double()),
    "HuberLoss": lambda: nn.HuberLoss(delta=3.0),
    "PoissonNLLLoss": nn.PoissonNLLLoss,
    "SoftMarginLoss": nn.SoftMarginLoss,
    "cross-entropy with soft targets": nn.CrossEntropyLoss,
}


def error(found: Tensor, expected: Tensor) -> float:
    """Return ‖found − true‖ / ‖true‖."""
    return float((found - expected).norm() / expected.norm())


def split(x: Tensor, y: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return two batches of unequal size."""
    return [(x[:7], y[:7]), (x[7:], y[7:])]


def layer_row(name: str) -> list[str]:
    """Return the worst errors of one layer, over routes and cache modes."""
    model, x, y = build(name)
    plain, loss = getattr(model, "_orig_mod", model), nn.CrossEntropyLoss()
    V, W = directions(plain), directions(plain, padding=True)
    hess = hessian_products(plain, lambda: loss(plain(x), y), V)
    G = gauss_newton_products(plain, x, W)
    cells = []
    for route in ROUTES:
        for cache in CACHES:
            curv = sdt.Curvature(model, loss, split(x, y), cache=cache, jvp_route=route)
            parts = (curv.A1, curv.A2, curv.B1, curv.B2)
            worst = max(error(curv.G @ W, G), error(sum(part @ W for part in parts), G))
            cells.append(f"{error(curv.Hess @ V, hess):.0e}, {worst:.0e}")
    return [name, *cells]


def loss_row(name: str, make: Callable[[], Any], *, labels: bool) -> list[str]:
    """Return the worst error of Hess with one loss, over cache modes."""
    inner, x, y = build("Linear")
    model = nn.Sequential(inner, nn.LogSoftmax(1)) if name.startswith("NLL") else inner
    generator = torch.Generator().manual_seed(3)
    target = y if labels else torch.rand(len(x), 4, generator=generator, dtype=torch.float64)
    if name == "SoftMarginLoss":
        target = target.round() * 2 - 1
    if "soft targets" in name:
        target = target / target.sum(1, keepdim=True)
    V = directions(model)
    whole = make()
    hess = hessian_products(model, lambda: whole(model(x), target), V)
    cells = []
    for cache in CACHES:
        curv = sdt.Curvature(model, make(), split(x, target), cache=cache)
        cells.append(f"{error(curv.Hess @ V, hess):.0e}")
    return [name, *cells]


def layer_norm_elsewhere() -> str:
    """Return the error of curvlinops's Hessian on a network with a layer norm."""
    import curvlinops

    model, x, y = build("LayerNorm")
    loss, V = nn.CrossEntropyLoss(), directions(model)
    true = hessian_products(model, lambda: loss(model(x), y), V)
    theirs = curvlinops.HessianLinearOperator(model, loss, list(model.parameters()), [(x, y)]) @ V
    return f"{error(theirs, true):.3f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page() -> str:
    """Return the whole page."""
    layers = table(
        ["layer", *(f"{route}, {kept}" for route in ROUTES for kept in ("kept", "not kept"))],
        [layer_row(name) for name in NETWORKS],
    )
    losses = table(
        ["loss", "graphs kept", "graphs not kept"],
        [loss_row(name, make, labels=True) for name, make in LABEL_LOSSES.items()]
        + [loss_row(name, make, labels=False) for name, make in VALUE_LOSSES.items()],
    )
    return f"""# Verified networks

Written by `benchmarks/torch_table.py`; do not edit. Errors are ‖found − true‖/‖true‖ in float64, over two batches of
unequal size. Hess is compared with central differences of sixth order of plain gradients, which are right to about
1e-10; G and the sum of its class components with rows of the Jacobian. Neither needs a second derivative of torch.

## Layers and habits

Every cell has the errors of Hess and of G, with graphs that are kept or not. "forward" and "double backward" are the
two ways to Jv; a model that computes gradients itself or uses checkpointing takes the second in any case.

{layers}

## Losses

The error of Hess.

{losses}

## Refused by name

Dropout and batch norm in training mode, batch statistics, layers left out at random, `max_norm` and
`scale_grad_by_freq` of embeddings, reentrant checkpointing, functions that can be differentiated once only (`cdist`,
`EmbeddingBag`), losses without a second derivative (CTC), logits (n, T, C) where T = C in all batches, negative labels
that are not ignored, data that is written to later. Autograd functions of a model's own are compared with differences,
and a warning says by how much Hess is off.

## Layer norm elsewhere

curvlinops 3.0.1 computes the Hessian by forward over reverse, and torch's forward mode through the backward of
`layer_norm` is wrong. On the network "LayerNorm" above, in float64:

```python
import curvlinops, torch
from torch_references import build, directions, hessian_products  # tests/helpers

model, x, y = build("LayerNorm")
loss, V = torch.nn.CrossEntropyLoss(), directions(model)
true = hessian_products(model, lambda: loss(model(x), y), V)  # central differences of gradients
theirs = curvlinops.HessianLinearOperator(model, loss, list(model.parameters()), [(x, y)]) @ V
print((theirs - true).norm() / true.norm())
```

prints {layer_norm_elsewhere()}. Where a model itself differentiates a layer norm in forward mode (`torch.func.jvp`),
plain gradients of torch are wrong too (by 0.4 in our trials); products here are right, since such norms are computed by
plain operations.
"""


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv[1:]:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
