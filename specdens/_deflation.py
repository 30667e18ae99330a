"""Low-rank deflation: known eigenpairs are taken out and come back as atoms [Papyan 2019, LowRankDeflation]."""

from __future__ import annotations

from typing import Any

import numpy as np

from specdens._as_operator import as_operator
from specdens._atoms import Atoms
from specdens._combine import Projected
from specdens._eigenpairs import EigenPairs
from specdens._vectors import Array


class Deflated(Projected):
    """The operator (I − QQᴴ)A(I − QQᴴ) on the complement of known eigenvectors Q.

    The paper subtracts ΣλvvT, which leaves spurious mass at zero and the error of every pair in the operator; here
    the bulk lives on n − rank dimensions and the pairs are atoms of mass 1/n each.
    """

    def __init__(self, A: Any, pairs: EigenPairs) -> None:
        super().__init__(A, pairs.vectors)
        self.pairs = pairs

    @property
    def dimension(self) -> int:
        return self.A.dimension

    @property
    def bulk_dimension(self) -> int:
        return self.A.bulk_dimension - self.pairs.values.size

    @property
    def known_atoms(self) -> Atoms:
        positions = np.concatenate([self.A.known_atoms.positions, self.pairs.values])
        masses = np.concatenate([self.A.known_atoms.masses, np.full(self.pairs.values.size, 1.0 / self.dimension)])
        order = np.argsort(positions, kind="stable")
        return Atoms(positions[order], masses[order])

    def project(self, x: Array) -> Array:
        return self.A.project(super().project(x))

    def apply_within(self, x: Array) -> Array:
        """Return P A x for an x in the range of P: no copy of x is needed."""
        return self.project(self.A.apply_within(x))


def deflate(A: Any, pairs: EigenPairs) -> Deflated:
    """Return A on the complement of the given eigenpairs, which every measure of it carries as atoms of mass 1/n.

    Parameters
    ----------
    A
        Anything that `as_operator` takes.
    pairs
        Eigenpairs of A with orthonormal vectors, from `top_eigenpairs` or `subspace_iteration`.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.concatenate([[50.0, -30.0], np.linspace(-1, 1, 500)]))
    >>> bulk = sd.deflate(A, sd.top_eigenpairs(A, rank=2))
    >>> measure = sd.fast_lanczos(bulk)
    >>> measure.bounds(margin=0.05).hi < 1.2
    True
    >>> measure.atoms.positions.round(6)
    array([-30.,  50.])
    """
    A = as_operator(A)
    if pairs.values.size > A.bulk_dimension:
        raise ValueError(
            f"`pairs` must have at most {A.bulk_dimension} eigenpairs, the dimension; got {pairs.values.size}"
        )
    return Deflated(A, pairs)
