"""Sparse matrices in CSR format, whose products are fused with what follows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from specdens import _fast, _passes
from specdens._operators import Operator
from specdens._vectors import Array, Terms, quietly, vectors_like


class SparseMatrix(Operator):
    """A SciPy matrix in CSR format: products by compiled kernels where they serve, else by SciPy, in threads."""

    fills_given_memory = True

    def __init__(self, A: Any) -> None:
        super().__init__(A.shape[0], vectors_like(np.empty(0, dtype=A.dtype)))
        self.A = A
        self._parts: dict[int, list[_passes.RowsOfMatrix]] = {}
        self._parts_of: tuple[Any, ...] = ()  # the arrays that they are parts of

    def apply(self, x: Array) -> Array:
        if x.size < _fast.IN_THREADS or x.dtype != self.A.dtype or not x.flags.c_contiguous:
            return self.A @ x
        y: Array = np.empty_like(x)
        self._three_term(y, x, None, Terms(), dots=False, squares=False)
        return y

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        if v.size < _fast.IN_THREADS:
            return super().three_term(v, v_prev, terms, squares=squares)
        w = np.empty(v.shape, v.dtype) if out is None else out
        return w, *self._three_term(w, v, v_prev, terms, squares=squares)

    @quietly
    def _three_term(
        self, w: Array, v: Array, z: Array, terms: Terms, *, dots: bool = True, squares: bool = True
    ) -> tuple[Array, Array]:
        kernels = _fast.kernels_for(w, v, z)
        if kernels is not None:
            return kernels.three_term(w, v, z, terms, matrix=self.A)  # type: ignore[no-any-return]
        return _passes.three_term(
            w, v, z, terms, dots=dots, squares=squares, matrix=self._in_parts(_passes.row_parts(w))
        )

    def _in_parts(self, parts: list[slice]) -> list[_passes.RowsOfMatrix]:
        """Return parts of the rows as matrices that share the entries of A, which SciPy may have replaced since."""
        arrays, length = (self.A.data, self.A.indices, self.A.indptr), parts[0].stop
        if [id(x) for x in arrays] != [id(x) for x in self._parts_of]:
            self._parts, self._parts_of = {}, arrays
        if length not in self._parts:
            self._parts[length] = [(rows, _rows(self.A, rows)) for rows in parts]
        return self._parts[length]


def _rows(A: Any, rows: slice) -> Any:
    """Return some rows of A; SciPy would copy the entries, made from arrays or sliced."""
    ends = A.indptr[rows.start : rows.stop + 1]
    part = scipy.sparse.csr_array((rows.stop - rows.start, A.shape[1]), dtype=A.dtype)
    part.data, part.indices = A.data[ends[0] : ends[-1]], A.indices[ends[0] : ends[-1]]
    part.indptr = ends - ends[0]
    return part
