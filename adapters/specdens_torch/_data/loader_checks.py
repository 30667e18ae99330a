"""Checks that a loader gives the same data set in every pass; errors name the cause and the remedy.

Curvature is a sum over examples. Where batches are read once and kept, their order does not matter, and a loader may
shuffle. Random transforms and random sampling are refused: every pass would see another data set.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from specdens_torch._data.pytree import tensors_in

Digest = tuple[tuple[float, ...], tuple[float, ...]]
"""Sums over the examples of a batch, of the inputs and of the targets."""

ONCE = "or take what one pass gives, with data=list(loader)"

# Examples read twice to find random transforms: one that hits a tenth of them is missed once in 600 runs.
_NUM_EXAMPLES = 32
_CHUNK = 2**22


def is_fixed(data: Any) -> bool:
    """Return whether the data is in memory already, so that every pass gives the same."""
    return isinstance(data, list | tuple)


def is_iterator(data: Any) -> bool:
    """Return whether the data can be read only once."""
    return iter(data) is data if hasattr(data, "__next__") else False


def has_indices(data: Any) -> bool:
    """Return whether a loader reads a data set by index, so that its indices can be compared instead of its data."""
    return (
        isinstance(data, DataLoader)
        and not isinstance(data.dataset, IterableDataset)
        and data.batch_sampler is not None
    )


def why_empty(data: Any) -> str:
    """Return why a loader may have given no batch."""
    if not has_indices(data):
        return "An iterator can be read only once." if is_iterator(data) else "It is empty."
    count = len(data.dataset)
    if count and data.drop_last:
        return f"drop_last=True leaves out all of its {count} examples: they fill no batch. Set drop_last=False."
    return "Its data set is empty." if not count else "Its sampler gives no indices."


# -- loaders that are kept: by index ---------------------------------------------------------------------------------


def check_indices(loader: Any) -> bool:
    """Return whether a loader shuffles; refuse one that gives other examples, or transforms them at random."""
    first, second = ([list(indices) for indices in loader.batch_sampler] for _ in range(2))
    drawn = [sorted(i for batch in batches for i in batch) for batches in (first, second)]
    left_out = len(loader.dataset) - len(drawn[0])  # both passes may have the same order by chance
    if drawn[0] != drawn[1] or (left_out > 0 and _drops_at_random(loader)):
        _refuse_draws(loader, left_out)
    if first:
        _check_transforms(loader, first[0][:_NUM_EXAMPLES])
    return first != second or isinstance(_sampler(loader), RandomSampler)


def _sampler(loader: Any) -> Any:
    return getattr(loader.batch_sampler, "sampler", loader.batch_sampler)


def _drops_at_random(loader: Any) -> bool:
    sampler = _sampler(loader)
    return isinstance(sampler, RandomSampler) and not sampler.replacement and getattr(loader, "drop_last", False)


def _refuse_draws(loader: Any, left_out: int) -> None:
    if _drops_at_random(loader):
        raise ValueError(
            f"`data` shuffles and has drop_last=True: it leaves out {left_out} of {len(loader.dataset)} examples, "
            f"others in every pass. Set drop_last=False or shuffle=False, {ONCE}."
        )
    raise ValueError(
        f"`data` draws other examples in every pass ({type(_sampler(loader)).__name__}): the curvature would be that "
        f"of a random data set. Give a loader that reads every example once, {ONCE}."
    )


def _check_transforms(loader: Any, indices: list[Any]) -> None:
    """Read a few examples twice, as the loader does, and compare them: random transforms make them differ."""
    twice: Any = DataLoader(
        loader.dataset, batch_sampler=[indices, indices], num_workers=min(1, loader.num_workers),
        collate_fn=loader.collate_fn, worker_init_fn=loader.worker_init_fn, timeout=loader.timeout,
        multiprocessing_context=loader.multiprocessing_context,
    )  # fmt: skip
    one, other = (list(tensors_in(raw)) for raw in twice)
    if len(one) != len(other) or not all(_identical(a, b) for a, b in zip(one, other, strict=True)):
        raise ValueError(
            f"`data` gave the same {len(indices)} examples differently when they were read twice: the loader augments "
            f"its data. Switch random transforms off (in the data set or in collate_fn), {ONCE}."
        )


def _identical(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(a, b)) or (
        a.is_floating_point() and bool(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))
    )


# -- loaders of any kind: by a second pass ---------------------------------------------------------------------------


def check_second_pass(first: list[Digest], second: list[Digest], *, streamed: bool) -> bool:
    """Return whether a second pass had another order; refuse other data, and another order of streamed batches."""
    if len(first) == len(second) and all(_close(a, b) for a, b in zip(first, second, strict=True)):
        return False
    inputs, targets = (_same_total([d[k] for d in first], [d[k] for d in second]) for k in (0, 1))
    if inputs and targets:
        if streamed:
            raise ValueError(
                "`data` gave the same data in another order on a second pass: the loader shuffles, and its batches are "
                "streamed. Set shuffle=False, or keep the batches with keep_data=True."
            )
        return True
    if targets:
        cause = "the same targets with other inputs on a second pass: the loader augments its data"
        remedy = "Switch random transforms off"
    else:
        cause, remedy = "different data on a second pass", "Make the loader give the same data every time"
    raise ValueError(f"`data` gave {cause}. {remedy}, {ONCE}.")


def digest(inputs: Any, targets: Any) -> Digest:
    """Return sums over examples that random transforms change and the order of examples does not."""
    return _sums(inputs), _sums(targets)


def _sums(pytree: Any) -> tuple[float, ...]:
    """Return Σ tᵢ and Σ tᵢ² of tᵢ = ⟨w, xᵢ⟩ for every tensor: w sees a flip, the squares see mixed examples."""
    values: list[float] = []
    for t in tensors_in(pytree):
        if t.is_meta:
            continue
        total = torch.zeros(2, dtype=torch.float64, device=t.device)
        t = t.detach() if t.layout is torch.strided else t.detach().to_dense()
        rows = torch.view_as_real(t) if t.is_complex() else t
        rows = rows.reshape(rows.shape[0], -1) if rows.dim() else rows.reshape(1, 1)
        w = _weights(rows.shape[1]).to(t.device)
        for part in rows.split(max(1, _CHUNK // max(1, rows.shape[1]))):
            projected = part.to(torch.float64) @ w
            total += torch.stack([projected.sum(), (projected**2).sum()])
        values += total.tolist()
    return tuple(values)


@functools.lru_cache(maxsize=8)
def _weights(length: int) -> Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(length), dtype=torch.float64)


def _close(first: Digest, second: Digest) -> bool:
    return all(_agree(a, b, [abs(x) for x in a]) for a, b in zip(first, second, strict=True))


def _same_total(first: list[tuple[float, ...]], second: list[tuple[float, ...]]) -> bool:
    if len({len(sums) for sums in (*first, *second)}) > 1:
        return False
    one, other = ([sum(column) for column in zip(*sums, strict=True)] for sums in (first, second))
    return _agree(one, other, [sum(map(abs, column)) for column in zip(*first, strict=True)])


def _agree(first: Sequence[float], second: Sequence[float], sizes: Sequence[float]) -> bool:
    """Return whether sums are the same up to rounding: other neighbours in a matrix product round differently."""
    return len(first) == len(second) and all(
        abs(a - b) <= 1e-9 * max(size, 1.0) or (math.isnan(a) and math.isnan(b))
        for a, b, size in zip(first, second, sizes, strict=True)
    )
