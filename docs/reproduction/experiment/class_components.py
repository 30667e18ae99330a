"""Exact spectra of G and of its class components, from the dual XᵀX of G = XXᵀ.

A component is X P Xᵀ with an orthogonal projection P on the space of examples × classes. Its non-zero eigenvalues are
those of P XᵀX P.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Floats = NDArray[np.float64]
COMPONENTS = ("A1", "A2", "B1", "B2")


class ClassComponents:
    """G and its components, for a network, as small dense matrices.

    Parameters
    ----------
    dual
        XᵀX with examples × classes rows, as `gradient_gram.dual_of_G` returns it.
    probabilities
        Softmax outputs, (examples, classes), in float64.
    labels
        The classes.
    """

    def __init__(self, dual: Floats, probabilities: Floats, labels: NDArray[np.int64]) -> None:
        self.dual, self.p, self.labels = (dual + dual.T) / 2, probabilities, labels
        self.num_examples, self.num_classes = probabilities.shape

    def projection(self, *names: str) -> Floats:
        """Return orthonormal columns that span the projections of some of A1, A2 and B1."""
        columns: list[Floats] = []
        for c in range(self.num_classes):
            members = np.flatnonzero(self.labels == c)
            if not len(members):
                continue
            units = self._units(members)
            others = np.delete(np.arange(self.num_classes), c)
            w = np.sqrt(self.p[members][:, others].sum(0))
            w /= np.linalg.norm(w)
            bases = {"A1": w[:, None], "B1": scipy.linalg.null_space(w[None])}
            columns += [units[:, others] @ bases[name] for name in names if name in bases]
            columns += [units[:, [c]] for name in names if name == "A2"]
        return np.concatenate(columns, axis=1)

    def _units(self, members: NDArray[np.intp]) -> Floats:
        """Return for every class c' the unit vector √p_ic' on the given examples."""
        units = np.zeros((self.num_examples, self.num_classes, self.num_classes))
        for c in range(self.num_classes):
            root = np.sqrt(self.p[members, c])
            units[members, c, c] = root / np.linalg.norm(root)
        return units.reshape(-1, self.num_classes)

    def eigenvalues(self, *, without: tuple[str, ...] = ()) -> Floats:
        """Return the eigenvalues, descending, of G less some of its components.

        Components are positive semi-definite and add up to G, so that A1 + A2 + B1 is G without B2. Zeros of the dual's
        null space are included unless B2 is left out.
        """
        if "B2" in without:
            Q = self.projection(*(name for name in COMPONENTS if name not in without))
            return _descending(Q.T @ self.dual @ Q)
        if not without:
            return _descending(self.dual)
        return _descending(self._projected(self.projection(*without)))

    def _projected(self, Q: Floats) -> Floats:
        """Return (I − QQᵀ) XᵀX (I − QQᵀ)."""
        half = self.dual - (self.dual @ Q) @ Q.T
        return half - Q @ (Q.T @ half)

    def top_vectors(self, rank: int) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of G and the dual's eigenvectors, as columns."""
        size = len(self.dual)
        values, vectors = scipy.linalg.eigh(self.dual, subset_by_index=(size - rank, size - 1))
        return values[::-1], vectors[:, ::-1]

    def traces(self) -> dict[str, float]:
        """Return the traces of the components."""
        found = {name: float(np.sum(Q * (self.dual @ Q))) for name in COMPONENTS[:3] for Q in [self.projection(name)]}
        return {**found, "B2": float(self.within_traces().sum())}

    def within_traces(self) -> Floats:
        """Return Tr B2c for every class c."""
        within = np.diag(self._projected(self.projection("A1", "A2", "B1")))
        per_example = within.reshape(self.num_examples, self.num_classes).sum(1)
        return np.bincount(self.labels, weights=per_example, minlength=self.num_classes)


def _descending(matrix: Floats) -> Floats:
    return np.asarray(scipy.linalg.eigvalsh((matrix + matrix.T) / 2)[::-1])
