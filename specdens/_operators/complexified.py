"""A real operator on complex vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from specdens._distributions.atoms import Atoms
from specdens._distributions.interval import Interval
from specdens._operators.base import Operator
from specdens._typing import Array
from specdens._vectors.base import dtype_name
from specdens._vectors.factory import complex_vectors


class Complexified(Operator):
    """A real symmetric operator that multiplies the real and the imaginary part of a complex vector."""

    def __init__(self, A: Operator) -> None:
        super().__init__(A.shape[0], complex_vectors(A.vectors))
        self._real = A
        self.has_block_products = A.has_block_products

    @property
    def dimension(self) -> int:
        return self._real.dimension

    @property
    def bulk_dimension(self) -> int:
        return self._real.bulk_dimension

    @property
    def known_atoms(self) -> Atoms:
        return self._real.known_atoms

    @property
    def known_bounds(self) -> Interval:
        return self._real.known_bounds

    @property
    def is_matrix(self) -> bool:  # type: ignore[override]
        return self._real.is_matrix

    def project(self, x: Array) -> Array:
        projected = self._by_parts(self._real.project, x)
        return self.vectors.assign(x, (...,), projected)

    def apply(self, x: Array) -> Array:
        return self._by_parts(self._real.__matmul__, x)

    def _by_parts(self, product: Any, x: Array) -> Array:
        xp, vectors = self.vectors.xp, self._real.vectors
        real, imaginary = (product(vectors.copy(part)) for part in (xp.real(x), xp.imag(x)))
        return real + 1j * imaginary


def with_vectors_of(A: Operator, probes: Any) -> Operator:
    """Return A, on complex vectors if it is real and the given start vectors are complex."""
    if isinstance(probes, str) or A.vectors.is_complex:
        return A
    dtype = probes.dtype if hasattr(probes, "dtype") else np.asarray(probes).dtype
    return Complexified(A) if dtype_name(dtype).startswith("complex") else A
