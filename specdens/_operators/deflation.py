"""Low-rank deflation: known eigenpairs are taken out and come back as atoms [Papyan 2019, LowRankDeflation]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specdens._distributions.atoms import Atoms
from specdens._operators.projection import Projected
from specdens._typing import OperatorLike

if TYPE_CHECKING:
    from specdens._eigenpairs.result import EigenPairs


class Deflated(Projected):
    """The operator (I − QQᴴ)A(I − QQᴴ) on the complement of known eigenvectors Q.

    Measures of it are measures of A: the pairs are atoms of mass 1/n each, and the bulk lives on n − rank dimensions.
    The paper subtracts Σ λ v vᵀ, which leaves spurious mass at zero and the errors of the pairs in the operator.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes.
    pairs : EigenPairs
        Eigenpairs of A with orthonormal vectors.

    Attributes
    ----------
    pairs : EigenPairs
        The eigenpairs that were taken out.

    Raises
    ------
    ValueError
        If there are more pairs than dimensions.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.r_[np.linspace(0, 1, 500), 10.0])
    >>> rest = sd.deflate(A, sd.top_eigenpairs(A, rank=1))
    >>> sd.fast_lanczos(rest, num_steps=20).known_atoms.positions.round(6).tolist()
    [10.0]
    """

    def __init__(self, A: OperatorLike, pairs: EigenPairs) -> None:
        super().__init__(A, pairs.vectors)
        self.pairs = pairs
        if pairs.values.size > self.A.bulk_dimension:
            raise ValueError(
                f"`pairs` must have at most {self.A.bulk_dimension} eigenpairs, the dimension; got {pairs.values.size}"
            )

    def _check_basis(self) -> None:
        """Check nothing: solvers orthonormalise their vectors, as far as they have converged."""

    def _atoms_of_basis(self) -> Atoms:
        return Atoms(self.pairs.values, np.full(self.pairs.values.size, 1.0 / self.dimension))


def deflate(A: OperatorLike, pairs: EigenPairs) -> Deflated:
    """Return A on the complement of the given eigenpairs, which every measure of it carries as atoms of mass 1/n.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes.
    pairs : EigenPairs
        Eigenpairs of A with orthonormal vectors, from `top_eigenpairs` or `subspace_iteration`.

    Returns
    -------
    Deflated
        The operator on the complement.

    Raises
    ------
    ValueError
        If there are more pairs than dimensions.

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
    return Deflated(A, pairs)
