"""Peak memory of one product with the Hessian and with G of a language model with a large vocabulary.

A network of the shape of GPT-2 small (12 blocks, width 768, 50,257 words, tied embedding) on 1×256 tokens. Every case
runs in a process of its own; the figure is the peak resident memory above the model and the vector, divided by that
of a plain float32 double backward. The goal is 1.3.

    python benchmarks/vocabulary_memory.py [--blocks 12] [--width 768] [--words 50257] [--tokens 256]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import specdens_torch as sdt
import torch
from torch import Tensor, nn

CASES = ("plain", "Hess kept", "Hess streamed", "G kept", "G streamed")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = width // 64

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, 64).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """The shape of GPT-2, with the embedding as its head."""

    def __init__(self, blocks: int, width: int, words: int, tokens: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        for embedding in (self.words, self.places):
            nn.init.normal_(embedding.weight, std=0.02)
        self.blocks, self.norm = nn.Sequential(*(Block(width) for _ in range(blocks))), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        h = self.words(x) + self.places.weight[: x.shape[1]]
        return nn.functional.linear(self.norm(self.blocks(h)), self.words.weight)


def resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise SystemExit("/proc/self/status has no " + field)


def plain_product(model: nn.Module, x: Tensor, y: Tensor, v: Tensor) -> None:
    parameters = list(model.parameters())
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        gradient = torch.autograd.grad(loss, parameters, create_graph=True)
        parts = [part.view_as(p) for part, p in zip(v.split([p.numel() for p in parameters]), parameters, strict=True)]
        product = torch.autograd.grad(gradient, parameters, parts)
    torch.cat([t.reshape(-1) for t in product])


def run(case: str, options: argparse.Namespace) -> dict[str, float]:
    torch.manual_seed(0)
    model = Model(options.blocks, options.width, options.words, options.tokens)
    x = torch.randint(0, options.words, (1, options.tokens + 1))
    v = torch.randn(sum(p.numel() for p in model.parameters()))
    data = (x[:, :-1], x[:, 1:])
    small = torch.nn.Linear(2, 2)
    torch.autograd.grad(small(torch.ones(2)).sum(), list(small.parameters()))  # libraries are loaded
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    started = time.perf_counter()
    if case == "plain":
        plain_product(model, *data, v)
    else:
        name, mode = case.split()
        curv = sdt.Curvature(
            model, nn.CrossEntropyLoss(), [data], cache="auto" if mode == "kept" else "off",
            jvp_route="double backward",
        )  # fmt: skip
        A = getattr(curv, name)
        _ = A @ v
    return {"peak": resident("VmHWM") - before, "seconds": time.perf_counter() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("blocks", 12), ("width", 768), ("words", 50257), ("tokens", 256)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--case", choices=CASES)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run(options.case, options)))
        return
    sizes = [f"--{name}={getattr(options, name)}" for name in ("blocks", "width", "words", "tokens")]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    logits = 4 * options.words * options.tokens
    plain = 0.0
    print(f"{'case':16}{'MiB':>8}{'logits':>8}{'ratio':>8}{'seconds':>9}")
    for case in CASES:
        command = [sys.executable, __file__, *sizes, "--case", case]
        output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        found = json.loads(output.splitlines()[-1])
        plain = plain or found["peak"]
        row = f"{found['peak'] / 2**20:8.0f}{found['peak'] / logits:8.1f}{found['peak'] / plain:8.2f}"
        print(f"{case:16}{row}{found['seconds']:9.1f}", flush=True)


if __name__ == "__main__":
    main()
