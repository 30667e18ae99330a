"""The Jacobi matrix of a set of atoms: the inverse of Golub and Welsch's computation of nodes and weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dsytrd, dsytrd_lwork

from specdens._distributions.atoms import Atoms, merge_atoms
from specdens._distributions.cdf import Floats

_ROUNDING = 100.0  # units: eigenvalues that are closer are copies of one


def atoms_of_eigenvalues(eigenvalues: ArrayLike, *, num_zeros: int = 0, eps: float) -> Atoms:
    """Return eigenvalues and so many zeros as atoms, those that agree to rounding as one of larger mass."""
    values = np.asarray(eigenvalues)
    if values.ndim != 1 or not values.size or np.iscomplexobj(values):
        raise ValueError(
            f"`eigenvalues` must be a vector of at least one real number; got {values.dtype} of shape {values.shape}"
        )
    values = values.astype(np.float64)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"`eigenvalues` must be finite; got {values[~np.isfinite(values)][0]}")
    room = _ROUNDING * eps * float(np.max(np.abs(values)))
    n = values.size + num_zeros
    zeros = Atoms(np.zeros(1), np.array([num_zeros / n])) if num_zeros else Atoms.none()
    return merge_atoms([Atoms(values, np.full(values.size, 1.0 / n)), zeros], tolerance=room)


def jacobi_of_atoms(atoms: Atoms) -> tuple[Floats, Floats]:
    """Return diagonal and off-diagonal of the Jacobi matrix whose Gauss rule is a set of atoms.

    Householder's reduction of [[0, √w], [√w, Θ]] keeps the first unit vector; what is left below it is the matrix.

    Examples
    --------
    >>> alphas, betas = jacobi_of_atoms(Atoms(np.array([-1.0, 1.0]), np.array([0.5, 0.5])))
    >>> alphas.round(12) + 0.0, betas.round(12)
    (array([0., 0.]), array([1.]))
    """
    k = atoms.positions.size
    arrow = np.zeros((k + 1, k + 1))
    arrow[0, 1:] = arrow[1:, 0] = np.sqrt(atoms.masses)
    arrow[np.arange(1, k + 1), np.arange(1, k + 1)] = atoms.positions
    lwork = int(dsytrd_lwork(k + 1, lower=1)[0])
    _, diagonal, off_diagonal, _, _ = dsytrd(arrow.T, lower=1, lwork=lwork, overwrite_a=1)
    return diagonal[1:].copy(), np.abs(off_diagonal[1:])
