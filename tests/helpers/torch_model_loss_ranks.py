"""Run by processes of torch.distributed (gloo): losses that the model computes itself, compared with one process."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import specdens_torch as sdt
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch_rank_script import run_rank


class Language(nn.Module):
    """Embedding, norm and a head; the loss is that of the next token, and that of a router if asked for."""

    def __init__(self, *, routes: bool) -> None:
        super().__init__()
        self.embedding, self.hidden, self.norm = nn.Embedding(11, 6), nn.Linear(6, 9), nn.LayerNorm(9)
        self.head = nn.Linear(9, 11, bias=False)
        self.router = nn.Parameter(torch.randn(9, 4) / 3) if routes else None

    def forward(self, input_ids, labels=None):
        h = self.norm(torch.tanh(self.hidden(self.embedding(input_ids))))
        logits, loss = self.head(h), None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, 11), labels[:, 1:].reshape(-1))
            if self.router is not None:
                loss = loss + 0.3 * torch.softmax(h @ self.router, -1).mean((0, 1)).square().sum()
        return SimpleNamespace(logits=logits, loss=loss)


def model(*, routes: bool) -> nn.Module:
    torch.manual_seed(0)
    return Language(routes=routes).double().eval()


def batches():
    generator, made = torch.Generator().manual_seed(3), []
    for size in (3, 2, 4):
        tokens = torch.randint(0, 11, (size, 5), generator=generator)
        labels = tokens.clone()
        labels[0, 3] = -100  # an ignored one, so that batches do not count by their sizes
        made.append({"input_ids": tokens, "labels": labels})
    return made


def check(loss, part, *, routes: bool) -> None:
    """Compare products where ranks share the data, the vectors, and the rows of parameters."""
    alone = sdt.Curvature(model(routes=routes), loss, batches(), group=False)
    x = torch.randn(alone.Hess.shape[0], generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for made, shard_vectors in (
        (model(routes=routes), None),
        (model(routes=routes), True),
        (sdt.shard_parameters(model(routes=routes)), None),
    ):
        curv = sdt.Curvature(made, loss, part, shard_vectors=shard_vectors)
        np.testing.assert_allclose(curv.loss, alone.loss, rtol=1e-12)
        ranges = curv._subset.ranges if curv._subset.whole_shapes is not None else [range(len(x))]

        def mine(v, ranges=ranges):
            return torch.cat([v[each.start : each.stop] for each in ranges])

        for name in ("Hess", "G", "H"):
            found, expected = curv.operator(name) @ mine(x), mine(alone.operator(name) @ x)
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-13)


def compare() -> None:
    rank = dist.get_rank()
    check("model", [batches()[:1], batches()[1:]][rank], routes=False)
    check("model", [batches()[:2], batches()[2:]][rank], routes=True)
    check("model", [[], batches()][rank], routes=True)
    check(nn.CrossEntropyLoss(), [batches()[:1], batches()[1:]][rank], routes=False)


if __name__ == "__main__":
    run_rank(compare)
