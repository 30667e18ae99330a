"""Operators given by a function that multiplies a vector."""

from __future__ import annotations

from collections.abc import Callable

from specdens._operators.base import Operator
from specdens._operators.products import check_product
from specdens._typing import Array
from specdens._vectors.base import Vectors


class Products(Operator):
    """An operator given by a function x ↦ A x: a matrix's ``@``, a user's function, SciPy's ``matmat``."""

    def __init__(
        self, n: int, vectors: Vectors, matmul: Callable[[Array], Array], *, blocks: bool, is_matrix: bool = False
    ) -> None:
        super().__init__(n, vectors)
        self._matmul = matmul
        self.has_block_products, self.is_matrix = blocks, is_matrix

    def apply(self, x: Array) -> Array:
        if x.ndim == 1 or self.has_block_products:
            return self._matmul(x)
        out = self.vectors.zeros(x.shape)
        for j in range(x.shape[1]):
            column = self._matmul(self.vectors.copy(x[:, j]))
            check_product(self.vectors, x[:, j], column)
            out = self.vectors.assign(out, (..., j), column)
        return out
