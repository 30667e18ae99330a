"""Operators of the family, with products through the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse.linalg
import torch
from torch import Tensor

from specdens._operators import CheaperForm, Operator
from specdens_torch._engine import Engine
from specdens_torch._mix import Mix
from specdens_torch._params import Subset, curvature_vectors, vector_dtype
from specdens_torch._task import Task

if TYPE_CHECKING:
    from specdens_torch._dual import Dual


class CurvatureOperator(Operator):
    """A member of the family h H + JᵀSJ: Hess, G, H, a component of G, or a combination of them.

    Sums, differences and multiples of operators of one `Curvature` are again one operator, with one product.
    """

    def __init__(self, engine: Engine, subset: Subset, mix: Mix) -> None:
        vectors = curvature_vectors(subset.dtypes, vector_dtype(subset.dtypes), engine.batches.device)
        super().__init__(subset.num_entries, vectors)
        self.engine, self.subset, self.mix = engine, subset, mix

    @property
    def has_block_products(self) -> bool:  # type: ignore[override]
        """Where graphs are not kept, a block makes them once for all of its columns."""
        return not self.engine.keeps_all

    def apply(self, x: Tensor) -> Tensor:
        x = x.detach()
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        columns = [(x, out)] if x.dim() == 1 else [(x[:, j], out[:, j]) for j in range(x.shape[1])]
        self.engine.run([Task(self.mix, self.subset, column, place) for column, place in columns])
        return out

    def dual(self) -> Dual:
        """Return an operator on the outputs' space with the same non-zero eigenvalues (math.md §1).

        Its vectors have one entry per example and class, in float64; the null space that is known by construction is
        projected out and comes back as an exact atom at zero, so that a density of it is a density of this operator.
        Softmax, squared error and binary cross-entropy have roots in closed form; any other loss must be convex in the
        outputs and a sum over examples, and its Hessian is factorised example by example.

        Examples
        --------
        >>> import torch, specdens as sd, specdens_torch as sdt
        >>> x, y = torch.linspace(-1, 1, 12).view(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])
        >>> curv = sdt.Curvature(torch.nn.Linear(2, 3).double(), torch.nn.CrossEntropyLoss(), (x.double(), y))
        >>> curv.subset("weight").G.dual()
        Traceback (most recent call last):
            ...
        ValueError: the dual of G has dimension 12, not below the 6 parameters: use the operator itself
        """
        from specdens_torch._dual import Dual

        return Dual(self)

    def cheaper_form(self) -> CheaperForm | None:
        """Return the dual, where it has a closed form, the shorter vectors and products that cost no more.

        A product with the dual is a pass of Jᵀ and then a pass of J. Where graphs are kept that is the work of the
        operator itself; where they are made anew it is a second forward pass, which only the class components over
        several batches need anyway. There ask for `dual()`, or ``Curvature.density(…, dual=True)``.
        """
        from specdens_torch._dual import dual_form, is_shorter

        same_passes = self.engine.keeps_all or (self.mix.coupled and len(self.engine.batches) > 1)
        return dual_form(self.dual()) if same_passes and is_shorter(self) else None

    def to_scipy(self) -> scipy.sparse.linalg.LinearOperator:
        """Return the operator for SciPy, on NumPy arrays of the host."""
        dtype = np.dtype(self.vectors.name)

        def matmul(x: Any) -> Any:
            columns = np.ascontiguousarray(x, dtype=dtype).reshape(np.shape(x))
            return self.vectors.to_host(self @ self.vectors.from_host(columns))

        return scipy.sparse.linalg.LinearOperator(
            self.shape, matvec=lambda x: matmul(x.reshape(-1)), rmatvec=lambda x: matmul(x.reshape(-1)),
            matmat=matmul, dtype=dtype,
        )  # fmt: skip

    # -- the family is closed under these ---------------------------------------------------------------------------

    def _with(self, mix: Mix) -> CurvatureOperator:
        return CurvatureOperator(self.engine, self.subset, mix)

    def _is_family(self, other: Any) -> bool:
        return isinstance(other, CurvatureOperator) and (other.engine, other.subset) == (self.engine, self.subset)

    def __add__(self, other: Any) -> Operator:
        return self._with(self.mix.plus(other.mix)) if self._is_family(other) else super().__add__(other)

    def __sub__(self, other: Any) -> Operator:
        return self._with(self.mix.plus(other.mix.times(-1.0))) if self._is_family(other) else super().__sub__(other)

    def __mul__(self, factor: float) -> Operator:
        if isinstance(factor, int | float) and np.isfinite(factor):
            return self._with(self.mix.times(float(factor)))
        return super().__mul__(factor)

    __rmul__ = __mul__

    def __neg__(self) -> Operator:
        return self._with(self.mix.times(-1.0))

    def __repr__(self) -> str:
        return f"CurvatureOperator({self.mix}, n={self.shape[0]}, dtype={self.vectors.name}, device={self.device})"


class SideBySide(Operator):
    """Several operators of one engine, each on its own column: probes in lockstep share the passes over the data."""

    def __init__(self, operators: Sequence[CurvatureOperator]) -> None:
        first = operators[0]
        super().__init__(first.shape[0], first.vectors)
        self.operators = tuple(operators)

    def apply(self, x: Tensor) -> Tensor:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        if x.dim() == 1:
            return self.operators[0].apply(x)
        count = len(self.operators)
        tasks = [
            Task(self.operators[j % count].mix, self.operators[0].subset, x[:, j], out[:, j]) for j in range(x.shape[1])
        ]
        self.operators[0].engine.run(tasks)
        return out
