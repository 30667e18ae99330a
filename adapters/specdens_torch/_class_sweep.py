"""All eigenvalues of A1 + A2 + B1, from the Gram matrix of C (C − 1) vectors of parameters.

With unit vectors e_cc' = √(ω p_ic') / √w_cc' on the examples of class c, A1 + A2 + B1 is X P Xᵀ with P the projection
onto their span, less one null vector per class. Its eigenvalues are those of the Gram matrix of X d for an orthonormal
basis d. A vector X d needs the examples of one class only, so that all of them cost C − 1 passes of Jᵀ over the data.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import specdens as sd
from specdens_torch._autodiff.gradient_buffer import GradientBuffer
from specdens_torch._autodiff.graph import Graph
from specdens_torch._data.batches import Batch
from specdens_torch._data.memory import available_bytes, format_bytes
from specdens_torch._data.pytree import mapped
from specdens_torch._operators.curvature_operator import CurvatureOperator

_log = logging.getLogger("specdens")

Floats = NDArray[np.float64]
ProgressCallback = Callable[[sd.Progress], None]


def sweep_spectrum(operator: CurvatureOperator, progress: ProgressCallback | None) -> tuple[Floats, Floats, int]:
    """Return all non-zero eigenvalues of A1 + A2 + B1, their overlaps with A1, and the number of passes.

    Parameters
    ----------
    operator : CurvatureOperator
        A1 + A2 + B1.
    progress : callable, optional
        Called with a `Progress` after every direction.
    """
    engine = operator.engine
    means = engine.class_means()
    present = [row for row in range(means.num_rows) if float(means.weights[row].sum()) > 0]
    bases = {row: class_directions(means.weights[row], int(means.classes[row])) for row in present}
    num_vectors = sum(len(basis) for basis in bases.values())
    _check_room(operator, num_vectors)
    by_class = _can_sort(operator)
    passes = means.num_classes - 1 if by_class else num_vectors
    _log.info("class_spectrum: %d vectors of parameters, %d passes of Jᵀ over the data", num_vectors, passes)
    Y = torch.empty((num_vectors, operator.shape[0]), dtype=operator.dtype, device=operator.device)
    began, start = time.perf_counter(), 0
    buffers: dict[int, list[GradientBuffer]] = {}
    for row, basis in bases.items():
        buffers[row] = [GradientBuffer(operator.subset, y) for y in Y[start : start + len(basis)]]
        start += len(basis)
    for done, (row, graph) in enumerate(_graphs(operator, present, by_class=by_class), 1):
        _add_directions(graph, operator, row, bases[row], buffers[row])
        if progress is not None:
            progress(sd.Progress("class_spectrum", done, None, time.perf_counter() - began, None))
    for buffer in (buffer for group in buffers.values() for buffer in group):
        buffer.finish(1.0)
    gram = operator.vectors.coefficients(Y.T, Y.T)
    values, vectors = torch.linalg.eigh((gram + gram.T) / 2)
    first = torch.cat([torch.arange(len(basis), device=gram.device) == 0 for basis in bases.values()])
    overlap = (vectors[first] ** 2).sum(0)
    return values.flip(0).cpu().numpy(), overlap.flip(0).cpu().numpy(), passes


def _add_directions(
    graph: Graph, operator: CurvatureOperator, row: int, basis: Tensor, buffers: list[GradientBuffer]
) -> None:
    """Add Jᵀ of the directions of one class over one batch."""
    means = operator.engine.class_means()
    state: Any = graph.evaluate()
    weights = means.weights[row]
    scale = torch.where(weights > 0, weights, 1.0).rsqrt() * (weights > 0)
    mass = state.mass * (state.labels == means.classes[row])[:, None]
    for direction, buffer in zip(basis, buffers, strict=True):
        graph.vjp(operator.subset, state.cotangent(mass * (direction * scale)), buffer)


def _graphs(operator: CurvatureOperator, present: list[int], *, by_class: bool) -> Iterator[tuple[int, Graph]]:
    """Yield the row of a class and a graph with its examples, alone where they can be sorted."""
    engine = operator.engine
    means = engine.class_means()
    if not by_class:
        for graph, _ in engine.cache:
            labels: Any = graph.evaluate().labels  # type: ignore[attr-defined]
            for row in present:
                if bool((labels == means.classes[row]).any()):
                    yield row, graph
        return
    size = max(engine.batches.sizes)
    for row in present:
        for batch in _of_class(engine.batches.kept or [], int(means.classes[row]), size):
            yield row, engine.cache.make_graph(batch, check=False)


def _can_sort(operator: CurvatureOperator) -> bool:
    """Return whether examples can be sorted by class: one label each, in memory, and independent of each other."""
    engine = operator.engine
    kept = engine.batches.kept
    if kept is None or operator.device.type == "meta":
        return False
    if not all(isinstance(b.target, Tensor) and b.target.dim() == 1 and len(b.target) == b.size for b in kept):
        return False
    batch = max(kept, key=lambda b: b.size)
    half = _rows(batch, torch.arange(batch.size // 2, device=batch.target.device))
    try:
        whole, part = engine.forward.values(batch.raw), engine.forward.values(half.raw)
    except (RuntimeError, ValueError, IndexError):
        return False
    tolerance = float(torch.finfo(whole.dtype).eps) ** 0.5
    return part.shape[0] == half.size and bool(
        torch.allclose(whole[: half.size], part, rtol=tolerance, atol=tolerance * float(whole.abs().max()))
    )


def _of_class(batches: list[Batch], c: int, size: int) -> Iterator[Batch]:
    """Yield the examples of one class in batches of at most about a given size."""
    found: list[Batch] = []
    for batch in batches:
        rows = (batch.target == c).nonzero()[:, 0]
        if len(rows):
            found.append(_rows(batch, rows))
        if sum(b.size for b in found) >= size:
            yield from _joined(found)
            found = []
    if found:
        yield from _joined(found)


def _rows(batch: Batch, rows: Tensor) -> Batch:
    n = batch.size
    return Batch(mapped(lambda t: t[rows] if t.dim() and t.shape[0] == n else t, batch.raw), batch.target[rows])


def _joined(batches: list[Batch]) -> Iterator[Batch]:
    """Yield one batch, or the batches as they are where their tensors have other shapes."""
    try:
        raw = _concatenated([batch.raw for batch in batches], [batch.size for batch in batches])
    except (RuntimeError, TypeError):
        yield from batches
        return
    yield Batch(raw, torch.cat([batch.target for batch in batches]))


def _concatenated(raws: list[Any], sizes: list[int]) -> Any:
    first = raws[0]
    if isinstance(first, Tensor):
        return torch.cat(raws) if first.dim() and first.shape[0] == sizes[0] else first
    if isinstance(first, dict):
        return {key: _concatenated([raw[key] for raw in raws], sizes) for key in first}
    if isinstance(first, list | tuple) and not hasattr(first, "_fields"):
        return type(first)(_concatenated([raw[k] for raw in raws], sizes) for k in range(len(first)))
    raise TypeError(f"cannot join batches of {type(first).__name__}")


def _check_room(operator: CurvatureOperator, num_vectors: int) -> None:
    needed = num_vectors * operator.shape[0] * operator.vectors.itemsize
    room = available_bytes(operator.device)
    if needed > room // 2:
        raise MemoryError(
            f"class_spectrum needs {num_vectors} vectors of parameters ({format_bytes(needed)}), and "
            f"{format_bytes(room)} are free. Ask for the largest eigenvalues with rank=."
        )


def class_directions(weights: Tensor, c: int) -> Tensor:
    """Return C − 1 orthonormal rows orthogonal to (√w_cc')_c', the null vector of the class; the first is A1's."""
    s = weights.sqrt()
    off = s.clone()
    off[c] = 0.0
    unit = torch.zeros_like(s)
    unit[c] = 1.0
    size = off.norm()
    hat = off / size.clamp_min(1e-300)
    first = size * unit - s[c] * hat
    first = first / first.norm().clamp_min(1e-300)
    span = torch.stack([unit, hat], dim=1)
    complement = torch.linalg.qr(torch.cat([span, torch.eye(len(s), dtype=s.dtype, device=s.device)], dim=1))[0][:, 2:]
    return torch.cat([first[None], complement.T])
