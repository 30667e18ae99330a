"""Products with Hess and G of a small language model, as ratios to curvlinops, in one process and interleaved.

The shape of GPT-2 with 4 blocks, width 128 and 5,000 words, on two batches of 4×128 tokens. Hess of curvlinops is wrong
by some percent on weights of layer norms (forward mode over backward), so that only G is compared with its result.
"""

from __future__ import annotations

import specdens_torch as sdt
import torch
from harness import Report, at_most, options, peer, ratios
from torch import Tensor, nn
from torch_products import timed_products
from vocabulary_memory import Model


class Flat(nn.Module):
    """The model with one row of logits per token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).flatten(0, 1)


def compare(report: Report, *, tiny: bool, repeats: int) -> None:
    """Report the ratios with graphs kept and streamed."""
    blocks, width, words, tokens = (1, 64, 50, 8) if tiny else (4, 128, 5000, 128)
    torch.manual_seed(0)
    model = Flat(Model(blocks, width, words, tokens))
    ids = torch.randint(0, words, (2, 4, tokens + 1))
    data = [(batch[:, :-1].contiguous(), batch[:, 1:].flatten()) for batch in ids]
    loss, curvlinops = nn.CrossEntropyLoss(), peer("curvlinops")
    kept, streamed = (sdt.Curvature(model, loss, data, cache=cache) for cache in ("auto", "off"))
    v = torch.randn(kept.Hess.shape[0])
    v /= v.norm()
    products = {}
    for kind in ("Hess", "G"):
        products[kind] = lambda kind=kind: getattr(kept, kind) @ v
        products[f"{kind}, streaming"] = lambda kind=kind: getattr(streamed, kind) @ v
    if curvlinops is not None:
        makers = {"Hess": curvlinops.HessianLinearOperator, "G": curvlinops.GGNLinearOperator}
        theirs = {
            kind: make(model, loss, list(model.parameters()), data, check_deterministic=False, num_data=2 * 4 * tokens,
                       batch_size_fn=lambda x: x.numel())
            for kind, make in makers.items()
        }  # fmt: skip
        error = float((kept.G @ v - theirs["G"] @ v).norm() / (kept.G @ v).norm())
        if not error < 1e-4:
            raise RuntimeError(f"G differs from curvlinops by {error:.1e}")
        products |= {f"curvlinops {kind}": lambda kind=kind: theirs[kind] @ v for kind in theirs}
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        times = timed_products(products, repeats)
    where = f"language model, {v.numel():,} parameters, 2 batches of 4x{tokens} tokens, {words} words"
    report.add_times(where, times, "ms", 1e3)
    for kind in ("Hess", "G") if curvlinops is not None else ():
        for ours in (kind, f"{kind}, streaming"):
            goal = at_most(0.5) if ours == kind else None
            ratio = ratios(times[ours], times[f"curvlinops {kind}"])
            report.add(where, f"{ours} / curvlinops", ratio, goal=goal)


if __name__ == "__main__":
    arguments = options(__doc__, repeats=5).parse_args()
    report = Report(__file__, arguments)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        compare(report, tiny=arguments.tiny, repeats=1 if arguments.tiny else arguments.repeats)
    report.write()
