"""Sparse matrices in CSR format, whose products are fused with what follows them."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from specdens import _fast
from specdens._operators import Operator
from specdens._vectors import Array, Terms, vectors_like


class SparseMatrix(Operator):
    """A SciPy matrix in CSR format: products by compiled kernels where they serve, else by SciPy, in threads."""

    def __init__(self, A: Any) -> None:
        super().__init__(A.shape[0], vectors_like(np.empty(0, dtype=A.dtype)))
        self.A = A

    @property
    def fills_given_memory(self) -> bool:  # type: ignore[override]
        return _fast.serves(self.shape[0])

    def apply(self, x: Array) -> Array:
        kernels = _fast.kernels_for(x)
        if kernels is None and self.shape[0] < _fast.SMALLEST:
            return self.A @ x
        y = np.empty_like(x)
        if kernels is None:
            self._product_in_threads(x, y)
        else:
            kernels.three_term(y, x, None, Terms(), matrix=self.A)
        return y

    def _product_in_threads(self, x: Array, y: Array) -> None:
        parts = self._parts

        def work(first: int, last: int) -> None:
            for rows, part in parts[first:last]:
                y[rows] = part @ x

        _fast.in_threads(work, len(parts), len(parts))

    @cached_property
    def _parts(self) -> list[tuple[slice, Any]]:
        """The rows in one part per thread, each a matrix that shares the memory of A."""
        A, n, count = self.A, self.shape[0], _fast.num_threads()
        ends = np.searchsorted(A.indptr, np.linspace(0, A.nnz, count + 1))
        ends[0], ends[-1] = 0, n
        parts = []
        for first, last in pairwise(ends.tolist()):
            entries = slice(A.indptr[first], A.indptr[last])
            arrays = A.data[entries], A.indices[entries], A.indptr[first : last + 1] - A.indptr[first]
            parts.append((slice(first, last), scipy.sparse.csr_array(arrays, shape=(last - first, n))))
        return parts

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        kernels = _fast.kernels_for(v, v_prev)
        if kernels is None:
            return super().three_term(v, v_prev, terms, squares=squares)
        w = np.empty_like(v) if out is None else out
        return w, *kernels.three_term(w, v, v_prev, terms, matrix=self.A)
