"""Write docs/verified_language_models.md: models of Hugging Face, their losses and cache modes, with the errors.

Products are compared in float64 with plain double backward of losses that are written out by hand (the models are tiny
and random, in tests/helpers/language_models.py). Needs transformers: see .ci/language for an environment.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import specdens_torch as sdt
import torch
import transformers
from torch import Tensor, nn
from torch_table import error, table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from language_models import CASES, Case, make_case  # noqa: E402

PAGE = ROOT / "docs" / "verified_language_models.md"
LOSSES: dict[str, Any] = {'"model"': "model", "CrossEntropyLoss": nn.CrossEntropyLoss()}


def hessian_products(case: Case, V: Tensor) -> Tensor:
    """Return Hess V by plain double backward."""
    parameters = list(case.model.parameters())
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        gradient = torch.autograd.grad(case.loss(case.model), parameters, create_graph=True, allow_unused=True)
    flat = torch.cat([torch.zeros_like(p).reshape(-1) if g is None else g.reshape(-1)
                      for g, p in zip(gradient, parameters, strict=True)])  # fmt: skip
    columns = []
    for v in V.T:
        found = torch.autograd.grad(flat, parameters, v, retain_graph=True, allow_unused=True)
        columns.append(torch.cat([torch.zeros_like(p).reshape(-1) if g is None else g.reshape(-1)
                                  for g, p in zip(found, parameters, strict=True)]))  # fmt: skip
    return torch.stack(columns, dim=1)


def row(name: str) -> list[str]:
    """Return the errors of one model."""
    case = make_case(name)
    size = sum(p.numel() for p in case.model.parameters())
    V = torch.randn(size, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = hessian_products(case, V)
    cells = []
    for loss in LOSSES.values():
        for cache in ("auto", "off"):
            try:
                curv = sdt.Curvature(case.model, loss, case.batches, cache=cache)
            except ValueError:  # a router loss, which cross-entropy is not
                cells.append("refused")
                continue
            hess = curv.Hess @ V
            cells.append(f"{error(hess, expected):.0e}, {error(curv.G @ V + curv.H @ V, hess):.0e}")
    return [name, type(case.model).__name__, *cells]


def page() -> str:
    """Return the whole page."""
    head = ["model", "class", *(f"{loss}, {kept}" for loss in LOSSES for kept in ("kept", "not kept"))]
    rows = table(head, [row(name) for name in CASES])
    return f"""# Verified language models

Written by `benchmarks/language_table.py` with transformers {transformers.__version__} and torch
{torch.__version__.partition("+")[0]}; do not edit. Tiny random models in float64, two batches of unequal size, padded
labels. Every cell has ‖found − true‖/‖true‖ of Hess, compared with plain double backward of the loss written out by
hand, and the difference of Hess and G + H. Norms of Llama, Mixtral, T5 and Mamba compute in float32 whatever the dtype
of the model. Mixtral's loss has a router loss beside cross-entropy: `nn.CrossEntropyLoss` alone is refused there.

{rows}
"""


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv[1:]:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
