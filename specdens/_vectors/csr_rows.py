"""A CSR matrix as vector passes need it: whole, and in parts of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import scipy.sparse


class CsrRows:
    """A SciPy matrix in CSR format, and parts of its rows that share its entries."""

    def __init__(self, csr: Any) -> None:
        self.csr = csr
        self._parts: dict[int, list[tuple[slice, Any]]] = {}
        self._arrays: tuple[Any, ...] = ()  # the arrays that the parts were made from

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle keeps: the matrix, without the parts that share its entries."""
        return {"csr": self.csr, "_parts": {}, "_arrays": ()}

    def parts(self, slices: Sequence[slice]) -> list[tuple[slice, Any]]:
        """Return the given slices of the rows with a matrix for each; SciPy may have replaced the arrays since."""
        arrays, length = (self.csr.data, self.csr.indices, self.csr.indptr), slices[0].stop
        if [id(x) for x in arrays] != [id(x) for x in self._arrays]:
            self._parts, self._arrays = {}, arrays
        if length not in self._parts:
            self._parts[length] = [(rows, _shared_rows(self.csr, rows)) for rows in slices]
        return self._parts[length]


def _shared_rows(A: Any, rows: slice) -> Any:
    """Return some rows of A without a copy of the entries, which SciPy's own slices make."""
    ends = A.indptr[rows.start : rows.stop + 1]
    part = scipy.sparse.csr_array((rows.stop - rows.start, A.shape[1]), dtype=A.dtype)
    part.data, part.indices = A.data[ends[0] : ends[-1]], A.indices[ends[0] : ends[-1]]
    part.indptr = ends - ends[0]
    return part
