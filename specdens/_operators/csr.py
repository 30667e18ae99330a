"""Sparse matrices in CSR format, whose products are fused with the vector work that follows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from specdens._distributions.interval import Interval
from specdens._operators.base import Operator
from specdens._typing import Array
from specdens._vectors import dispatch, tuning
from specdens._vectors.base import Terms, ThreeTerm
from specdens._vectors.csr_rows import CsrRows
from specdens._vectors.factory import vectors_like


class SparseMatrix(Operator):
    """A SciPy matrix in CSR format: products by compiled kernels where they serve, else by SciPy, in threads."""

    fills_given_memory = is_matrix = True

    def __init__(self, A: Any) -> None:
        super().__init__(A.shape[0], vectors_like(np.empty(0, dtype=A.dtype)))
        self._rows = CsrRows(A)
        self._known_bounds = Interval(*getattr(A, "known_bounds", (-np.inf, np.inf)))  # as `graph_laplacian` sets them

    @property
    def A(self) -> Any:
        """The matrix."""
        return self._rows.csr

    @property
    def known_bounds(self) -> Interval:
        return self._known_bounds

    def apply(self, x: Array) -> Array:
        if x.size < tuning.MIN_THREADED or x.dtype != self.A.dtype:
            return self.A @ x
        y: Array = np.empty(x.shape, x.dtype)
        task = ThreeTerm(y, x, None, Terms(), dots=False, squares=False, matrix=self._rows)
        return self.A @ x if dispatch.three_term(task) is None else y

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        if v.size >= tuning.MIN_THREADED:
            w = np.empty(v.shape, v.dtype) if out is None else out
            sums = dispatch.three_term(ThreeTerm(w, v, v_prev, terms, squares=squares, matrix=self._rows))
            if sums is not None:
                return w, *sums
        return super().three_term(v, v_prev, terms, squares=squares)
