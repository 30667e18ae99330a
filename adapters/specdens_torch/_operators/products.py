"""Products of curvature operators through the engine, one operator or several on the columns of a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import specdens as sd
from specdens.adapters import DistributedVectors, Operator
from specdens_torch._autodiff.engine import Engine
from specdens_torch._autodiff.product_task import Task
from specdens_torch._coefficients import Coefficients
from specdens_torch._loss.closed_forms import BinaryCrossEntropy, CrossEntropy, SquaredError
from specdens_torch._parameters import Subset, curvature_vectors, vector_dtype


class EngineOperator(Operator):
    """An operator h H + JᵀSJ whose products an engine computes.

    Parameters
    ----------
    engine : Engine
        Model, loss and data.
    subset : Subset
        The parameters.
    coefficients : Coefficients
        Of H and of the components of G.
    """

    def __init__(self, engine: Engine, subset: Subset, coefficients: Coefficients) -> None:
        dtypes = (*subset.dtypes, *engine.half_dtypes)
        vectors = curvature_vectors(dtypes, vector_dtype(subset.dtypes), engine.batches.device)
        ranks = engine.ranks
        vectors.label = f"{coefficients} of {subset.describe()}"
        if subset.whole_shapes is None:
            vectors.is_first, vectors.agree = ranks.rank == 0, ranks.same if ranks.size > 1 else None
        else:
            vectors = DistributedVectors(
                vectors, ranks.add_, rows=subset.ranges, length=subset.num_whole, is_first=ranks.rank == 0
            )
        super().__init__(subset.num_entries, vectors)
        self.engine, self.subset, self.coefficients = engine, subset, coefficients

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled: its graphs belong to this process. Make the Curvature in every "
            "process and share its data through torch.distributed"
        )

    @property
    def has_block_products(self) -> bool:  # type: ignore[override]
        """Whether a block is cheaper than its columns: where graphs are not kept, it makes them once for all."""
        return not self.engine.keeps_all_graphs

    @property
    def known_bounds(self) -> sd.Interval:
        """From 0 on for G and its components, of a loss that is known to be convex in the outputs."""
        is_convex = isinstance(self.engine.loss, CrossEntropy | SquaredError | BinaryCrossEntropy)
        return sd.Interval(0.0 if self.coefficients.is_positive and is_convex else -math.inf, math.inf)

    @property
    def notes(self) -> tuple[str, ...]:
        """What results should say: that products are rounded to a half precision."""
        return tuple(
            f"the model computes in {str(dtype).removeprefix('torch.')}, which rounds to {torch.finfo(dtype).eps:.2g}: "
            "products have errors of that relative size"
            for dtype in sorted(self.engine.half_dtypes, key=str)
        )

    def apply(self, x: Tensor) -> Tensor:
        """Return the product with a vector (n,) or a block (n, k)."""
        x = x.detach()
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        columns = [(x, out)] if x.dim() == 1 else [(x[:, j], out[:, j]) for j in range(x.shape[1])]
        self.engine.run([Task(self.coefficients, self.subset, column, place) for column, place in columns])
        return out


class SideBySide(Operator):
    """Several operators on the same parameters, column j being for operator j mod their number.

    All columns share the passes over the data, and the columns of one probe start from the same vector.

    Parameters
    ----------
    operators : sequence of EngineOperator
        Operators of one engine and one subset of the parameters.
    """

    def __init__(self, operators: Sequence[EngineOperator]) -> None:
        first = operators[0]
        if any((A.engine, A.subset) != (first.engine, first.subset) for A in operators):
            raise ValueError("`operators` must share one Curvature and one set of parameters to run side by side")
        super().__init__(first.shape[0], first.vectors)
        self.operators = tuple(operators)

    def probe_index(self, column: int) -> int:
        """Return the number of the random vector that a column starts from."""
        return column // len(self.operators)

    def apply(self, x: Tensor) -> Tensor:
        """Return the products of the operators with their columns."""
        if x.dim() == 1:
            return self.operators[0].apply(x)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        first, count = self.operators[0], len(self.operators)
        tasks = [
            Task(self.operators[j % count].coefficients, first.subset, x[:, j], out[:, j]) for j in range(x.shape[1])
        ]
        first.engine.run(tasks)
        return out
