"""Products with Hess, G, H and the components of G, as ratios to curvlinops 3.0.1, in one process and interleaved.

Run with ``--tiny`` for a check in seconds, or name networks: ``python benchmarks/torch_products.py mlp resnet18``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import specdens_torch as sdt
import torch
from harness import Report, Times, at_least, at_most, interleaved, options, peer, per, ratios
from networks import NETWORKS
from torch import Tensor, nn

import specdens as sd

TARGETS = {"mlp": (0.45, 0.45), "cnn": (0.60, 0.70), "vgg11": (0.55, 0.80), "resnet18": (0.65, 0.75)}
COMPONENTS = ("A1", "A2", "B1", "B2")
BLOCK = 4
BLOCK_RATIOS = (
    ("block, graphs kept", "one by one, graphs kept", ""),
    ("block, streaming", "one by one, streaming", ""),
    ("vmap over a double backward", "loop over a double backward", ""),
    ("block, graphs kept", "curvlinops, block", "curvlinops"),
    ("block, streaming", "curvlinops, block over four batches", "curvlinops"),
)


# -- measuring -------------------------------------------------------------------------------------------------------


Products = dict[str, Callable[[], Any]]
_ROUND = 0.3  # seconds of products at a time: the first one after a pause is slow, for everybody


def timed_products(products: Products, repeats: int) -> Times:
    """Return the seconds of one product of every candidate, round after round."""
    slowest = max(max(values) for values in interleaved(products, 1).values())
    count = max(1, round(_ROUND / slowest)) if repeats > 1 else 1

    def several(product: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(count):
                product()

        return run

    times = interleaved({name: several(product) for name, product in products.items()}, repeats)
    return {name: per(values, count) for name, values in times.items()}


def problem(name: str, *, tiny: bool) -> tuple[nn.Module, Tensor, Tensor]:
    make, shape, examples, narrow = NETWORKS[name]
    torch.manual_seed(0)
    model = make(narrow) if tiny else make()
    n = 8 if tiny else examples
    return model.eval(), torch.randn(n, *shape), torch.arange(n) % 10


def curvlinops_of(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """Return the operators of curvlinops, or none if it is not there."""
    if (curvlinops := peer("curvlinops")) is None:
        return {}
    kinds = {"Hess": curvlinops.HessianLinearOperator, "G": curvlinops.GGNLinearOperator}
    loss, params = nn.CrossEntropyLoss(), list(model.parameters())
    return {kind: make(model, loss, params, batches, check_deterministic=False) for kind, make in kinds.items()}


def agree(name: str, curv: sdt.Curvature, theirs: dict[str, Any], v: Tensor) -> None:
    """Raise if a product differs from that of curvlinops."""
    for kind, operator in theirs.items():
        expected, found = operator @ v, getattr(curv, kind) @ v
        error = float((expected - found).norm() / expected.norm())
        if not error < 1e-4:
            raise RuntimeError(f"{name}: {kind} differs from curvlinops by {error:.1e}")


def compare(report: Report, name: str, *, tiny: bool, repeats: int) -> None:
    """Report the ratios for one network."""
    model, x, y = problem(name, tiny=tiny)
    curv, theirs = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y)), curvlinops_of(model, [(x, y)])
    v = torch.randn(curv.Hess.shape[0])
    v /= v.norm()
    agree(name, curv, theirs, v)
    products: Products = {}
    for kind in ("Hess", "G"):
        if kind in theirs:
            products[f"curvlinops {kind}"] = lambda kind=kind: theirs[kind] @ v
        products[kind] = lambda kind=kind: getattr(curv, kind) @ v
    for kind in ("H", *COMPONENTS):
        products[kind] = lambda kind=kind: getattr(curv, kind) @ v
    times = timed_products(products, repeats)
    where = f"{name}, {v.numel():,} parameters, {len(y)} examples"
    report.add_times(where, times, "ms", 1e3)
    for kind, target in zip(("Hess", "G"), TARGETS[name], strict=True):
        if kind in theirs:
            ratio = ratios(times[kind], times[f"curvlinops {kind}"])
            report.add(where, f"{kind} / curvlinops", ratio, goal=at_most(target))
    report.add(where, "H / Hess", ratios(times["H"], times["Hess"]), goal=at_most(1.05))
    for kind in COMPONENTS:
        report.add(where, f"{kind} / G, graphs kept", ratios(times[kind], times["G"]), goal=at_most(1.15))


def stream(report: Report, name: str, *, tiny: bool, repeats: int) -> None:
    """Report the ratio of a component to G, and to curvlinops, where no graph is kept, over four batches."""
    model, x, y = problem(name, tiny=tiny)
    batches = list(zip(x.chunk(4), y.chunk(4), strict=True))
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), batches, cache="off")
    theirs = curvlinops_of(model, batches)
    v = torch.randn(curv.Hess.shape[0])
    v /= v.norm()
    agree(name, curv, theirs, v)
    products: Products = {f"curvlinops {kind}": lambda kind=kind: theirs[kind] @ v for kind in theirs}
    for kind in ("Hess", "G", *COMPONENTS):
        products[kind] = lambda kind=kind: getattr(curv, kind) @ v
    times = timed_products(products, repeats)
    where = f"{name}, streaming four batches, Jv by {curv._engine.route}"
    report.add_times(where, times, "ms", 1e3)
    for kind in COMPONENTS:
        report.add(where, f"{kind} / G", ratios(times[kind], times["G"]), goal=at_most(1.35))
    for kind in theirs:
        report.add(where, f"{kind}, streaming / curvlinops", ratios(times[kind], times[f"curvlinops {kind}"]))


def block_products(model: nn.Module, x: Tensor, y: Tensor) -> Products:
    """Return products with several vectors: ours and curvlinops' with a block, ours one by one, and plain torch's."""
    loss, params = nn.CrossEntropyLoss(), list(model.parameters())
    batches = list(zip(x.chunk(4), y.chunk(4), strict=True))
    kept = sdt.Curvature(model, loss, (x, y)).Hess
    streamed = sdt.Curvature(model, loss, batches, cache="off").Hess
    V = torch.randn(kept.shape[0], BLOCK)
    columns = [column.clone() for column in V.T]
    gradient = torch.autograd.grad(loss(model(x), y), params, create_graph=True)
    flat = torch.cat([part.flatten() for part in gradient])

    def plain(vectors: Tensor, *, batched: bool) -> None:
        torch.autograd.grad(flat, params, vectors, retain_graph=True, is_grads_batched=batched)

    products: Products = {
        "block, graphs kept": lambda: kept @ V,
        "one by one, graphs kept": lambda: [kept @ v for v in columns],
        "block, streaming": lambda: streamed @ V,
        "one by one, streaming": lambda: [streamed @ v for v in columns],
        "vmap over a double backward": lambda: plain(V.T, batched=True),
        "loop over a double backward": lambda: [plain(v, batched=False) for v in columns],
    }
    if theirs := curvlinops_of(model, [(x, y)]):
        in_batches = curvlinops_of(model, batches)["Hess"]
        products["curvlinops, block"] = lambda: theirs["Hess"] @ V
        products["curvlinops, block over four batches"] = lambda: in_batches @ V
    return products


def blocks(report: Report, name: str, *, tiny: bool, repeats: int) -> None:
    """Report a product with a block of columns, and vmap over vectors on a kept graph, against as many products."""
    times = timed_products(block_products(*problem(name, tiny=tiny)), repeats)
    where = f"{name}, Hess, {BLOCK} vectors at a time"
    report.add_times(where, times, "ms", 1e3)
    for ours, theirs, short in BLOCK_RATIOS:
        if theirs in times:
            report.add(where, f"{ours} / {short or theirs}", ratios(times[ours], times[theirs]))


def lanczos(report: Report, name: str, *, tiny: bool, num_steps: int) -> None:
    """Report the share of a FastLanczos run that its products take; kernels and graphs are there already."""
    model, x, y = problem(name, tiny=tiny)
    A = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y)).Hess
    sd.fast_lanczos(A, num_steps=2)
    spent = 0.0
    apply = A.apply

    def timed(v: Tensor) -> Tensor:
        nonlocal spent
        started = time.perf_counter()
        product = apply(v)
        spent += time.perf_counter() - started
        return product

    A.apply = timed  # type: ignore[method-assign]
    measure = sd.fast_lanczos(A, num_steps=num_steps)
    where = f"{name}, FastLanczos, {num_steps} steps, Hess"
    report.add(where, "share of the time in products", spent / measure.seconds, goal=at_least(0.9))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), help=", ".join(NETWORKS))
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--only", choices=("products", "streaming", "blocks", "lanczos"))
    arguments = parser.parse_args()
    report, tiny = Report(__file__, arguments), arguments.tiny
    repeats = 1 if tiny else arguments.repeats
    for name in arguments.networks:
        if arguments.only in (None, "products"):
            compare(report, name, tiny=tiny, repeats=repeats)
        if arguments.only in (None, "streaming"):
            stream(report, name, tiny=tiny, repeats=repeats)
        if arguments.only in (None, "blocks") and name in ("mlp", "cnn"):
            blocks(report, name, tiny=tiny, repeats=repeats)
        if arguments.only in (None, "lanczos") and name in ("mlp", "vgg11"):
            lanczos(report, name, tiny=tiny, num_steps=4 if tiny else arguments.steps)
    report.write()


if __name__ == "__main__":
    main()
