"""What the tensors behind a model hold: compared before every product, and restored after every pass."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

# Tensors of so many bytes get a checksum; of larger ones every so many words are added up.
_SMALL, _STRIDE = 2**15, 1021
# Bytes of tensors that are read in every comparison; of further ones only the versions are compared.
_MAX_BYTES = 2**26


class TensorState:
    """The versions and the content of tensors, at the time when this is made.

    Parameters
    ----------
    tensors : sequence of Tensor
        The tensors.
    num_whole : int
        So many of them are read in every comparison whatever their size.
    written : set of int
        The identities of tensors that passes write to and that are restored: their versions do not count.
    """

    def __init__(self, tensors: Sequence[Tensor], *, num_whole: int = 0, written: set[int] | None = None) -> None:
        self._tensors, self.written = tensors, written or set()
        self._fingerprint = Fingerprint(_read_in_comparisons(tensors, num_whole))
        self._versions, self._digest = versions(tensors), self._fingerprint()

    def other_versions(self) -> set[int]:
        """Return the identities of tensors that have been written to, as far as torch counts it."""
        now = versions(self._tensors)
        if now == self._versions:
            return set()
        found = {a[0] for a, b in zip(now, self._versions, strict=True) if a != b}
        return found - self.written

    @property
    def has_changed(self) -> bool:
        return bool(self.other_versions()) or self._fingerprint() != self._digest


def _read_in_comparisons(tensors: Sequence[Tensor], num_whole: int) -> list[Tensor]:
    chosen = list(tensors[:num_whole])
    room = max(_MAX_BYTES, sum(t.numel() * t.element_size() for t in chosen if not _has_no_memory(t)))
    for t in tensors[num_whole:]:
        if not _has_no_memory(t) and t.numel() * t.element_size() <= room:
            room -= t.numel() * t.element_size()
            chosen.append(t)
    return chosen


def written_tensors(tensors: Iterable[Tensor]) -> Callable[[], list[tuple[Tensor, Tensor]]]:
    """Return a function that returns those tensors that were written to until it is called, with copies from before."""
    before = [(t, _num_writes(t), t.detach().clone()) for t in tensors if not (_has_no_memory(t) or t.is_inference())]
    return lambda: [(t, copy) for t, version, copy in before if _num_writes(t) != version or not torch.equal(t, copy)]


def versions(tensors: Iterable[Tensor]) -> tuple[tuple[int, int, int], ...]:
    """Return identities, addresses and version counters: what most changes of a tensor leave traces in."""
    return tuple((id(t), 0 if _has_no_memory(t) else t.data_ptr(), _num_writes(t)) for t in tensors)


class Fingerprint:
    """A digest of what tensors hold, as often as it is asked for; as long as they keep their places in memory.

    Fused optimizers and writes through ``p.data`` do not count as a new version. This sees them, at the cost of reading
    every tensor once: small ones by a checksum, large ones by sums over every 1021st word, which permutations
    of rows or columns change too.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._small: list[memoryview] = []
        self._large: list[Tensor] = []
        for t in tensors:
            if _has_no_memory(t):
                continue
            if t.device.type == "cpu" and t.is_contiguous() and t.numel() * t.element_size() <= _SMALL:
                plain = t.detach().resolve_conj().resolve_neg()
                self._small.append(memoryview(plain.reshape(-1).view(torch.uint8).numpy()))
            else:
                self._large.append(t.detach())

    def __call__(self) -> list[Any]:
        parts: dict[Any, list[Tensor]] = {}  # by device
        for t in self._large:
            parts.setdefault(t.device, []).extend(_digest(t))
        large = [torch.cat(found).cpu().numpy().tobytes() for found in parts.values()]
        return [*(zlib.crc32(memory) for memory in self._small), *large]


def _has_no_memory(t: Tensor) -> bool:
    if isinstance(t, nn.parameter.UninitializedTensorMixin) or t.is_nested:
        return True
    return t.is_meta or t.layout is not torch.strided or t.is_quantized or t.numel() == 0


def _digest(t: Tensor) -> Iterator[Tensor]:
    """Yield sums of the memory of a tensor as 64-bit integers, and what is left over."""
    flat = t.resolve_conj().resolve_neg().reshape(-1).contiguous()
    if flat.data_ptr() % 8:
        flat = flat.clone()
    size = flat.element_size()
    count = flat.numel() * size // (8 * _STRIDE) * 8 * _STRIDE // size
    if count:
        yield flat[:count].view(torch.int64).reshape(-1, _STRIDE).sum(0)
    if count < flat.numel():
        yield flat[count:].view(torch.uint8).to(torch.int64)


def _num_writes(t: Tensor) -> int:
    return -1 if t.is_inference() else t._version
