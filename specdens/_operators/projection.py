"""Operators on the complement of given vectors."""

from __future__ import annotations

import numpy as np

from specdens._distributions.atoms import Atoms
from specdens._operators.base import CheaperForm, Operator
from specdens._operators.consistency import tolerance
from specdens._operators.wrappers import Wrapper
from specdens._typing import Array, OperatorLike
from specdens._vectors.base import Terms


class Projected(Wrapper):
    """The operator P A P with P = I − QQᴴ, for a Q with orthonormal columns.

    P A P is zero on the span of Q. That null space is known: measures carry it as an atom at 0 of mass rank/n, and
    probes are projected onto the other n − rank dimensions.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes.
    Q : array
        Orthonormal columns, of shape (n, rank), in the array library and on the device of A.

    Raises
    ------
    ValueError
        If the shape of Q does not fit, if its columns are not orthonormal, or if A has known eigenvectors to which
        they are not orthogonal.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = sd.Projected(np.diag([1.0, 2.0, 3.0]), np.eye(3)[:, :1])
    >>> A @ np.ones(3)
    array([0., 2., 3.])
    >>> sd.fast_lanczos(A).count(-0.1, 0.1).value
    1.0
    """

    def __init__(self, A: OperatorLike, Q: Array) -> None:
        super().__init__(A)
        n = self.shape[0]
        if Q.ndim != 2 or Q.shape[0] != n or Q.shape[1] > self.vectors.whole_length(n):
            raise ValueError(f"`Q` must have shape ({n}, rank); got {tuple(Q.shape)}")
        self.Q = Q
        self._check_basis()

    def _check_basis(self) -> None:
        """Check that Q is orthonormal and lies in the subspace in which the spectrum of A is not known."""
        vectors, rank = self.vectors, self.Q.shape[1]
        if rank == 0:
            return
        try:
            gram = vectors.to_host(vectors.coefficients(self.Q, self.Q))
        except NotImplementedError:  # arrays without data, such as torch's meta tensors, cannot be checked
            return
        error = float(np.max(np.abs(gram - np.eye(rank))))
        if not error <= tolerance(self):
            raise ValueError(f"`Q` must have orthonormal columns; got QᴴQ − I of size {error:.2g}. Use qr.")
        if self.A.bulk_dimension == self.vectors.whole_length(self.shape[0]):
            return
        lengths = vectors.to_host(vectors.norm(self.A.project(vectors.copy(self.Q))))
        missing = float(np.sqrt(np.max(np.maximum(1.0 - lengths**2, 0.0))))
        if not missing <= tolerance(self) ** 0.5:
            raise ValueError(
                f"`Q` must be orthogonal to the known eigenvectors of A; got a component of size {missing:.2g}. "
                "Project the operator first, then deflate it."
            )

    @property
    def bulk_dimension(self) -> int:
        return self.A.bulk_dimension - int(self.Q.shape[1])

    @property
    def known_atoms(self) -> Atoms:
        known, projected = self.A.known_atoms, self._atoms_of_basis()
        positions = np.concatenate([known.positions, projected.positions])
        masses = np.concatenate([known.masses, projected.masses])
        order = np.argsort(positions, kind="stable")
        return Atoms(positions[order], masses[order])

    def _atoms_of_basis(self) -> Atoms:
        """Return the atoms that stand for the span of Q."""
        rank = int(self.Q.shape[1])
        return Atoms(np.zeros(1), np.array([rank / self.dimension])) if rank else Atoms.none()

    def project(self, x: Array) -> Array:
        """Remove the part of x within the span of Q, in place, and return x."""
        # twice is enough: the second pass removes what rounding left of a large component
        for _ in range(2):
            x = self.vectors.subtract(self.Q, self.vectors.coefficients(self.Q, x), x)
        return self.A.project(x)

    def apply(self, x: Array) -> Array:
        return self.project(super().apply(self.project(self.vectors.copy(x))))

    def apply_within(self, x: Array) -> Array:
        """Return P A x for an x in the range of P: no copy of x is needed."""
        return self.project(super().apply_within(x))

    def three_term(
        self, v: Array, v_prev: Array | None, terms: Terms, *, squares: bool = True, out: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Do the fused step of A, where it has one, and project its result.

        This is the step of P A P, because v and v_prev lie in the range of P. ⟨v, w⟩ does not change by the
        projection; ⟨w, w⟩ does, and is computed after it.
        """
        if not self.fills_given_memory:
            return Operator.three_term(self, v, v_prev, terms, squares=squares, out=out)
        w, vw, _ = super().three_term(v, v_prev, terms, squares=False, out=out)
        w = self.project(w)
        return self.vectors.three_term(w, v, None, Terms()) if squares else (w, vw, None)

    def cheaper_form(self) -> CheaperForm | None:
        """Return None: a form with the spectrum of A does not have that of P A P."""
        return None
