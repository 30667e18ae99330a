"""Eigenpairs with their residuals: the result of `subspace_iteration` and `top_eigenpairs`, and what both share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._exceptions import SpecdensWarning
from specdens._operators.base import Operator
from specdens._vectors.base import Array, dtype_name

Floats = NDArray[np.float64]

_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class EigenPairs:
    """Some eigenvalues of a Hermitian operator, their eigenvectors, and how far each pair is from being exact.

    A residual bounds the distance from the value to *an* eigenvalue: there is one within `absolute_residuals` of θ.

    Attributes
    ----------
    values : ndarray
        The eigenvalues θ with their signs, float64, in the order that was asked for.
    vectors : array
        Orthonormal columns, of shape (n, rank), in the array library and on the device of the operator.
    residuals : ndarray
        Relative residuals ‖Av − θv‖ / |θ| of every pair, in the unit of `tol`. Where θ is zero to working precision
        (|θ| below ε^⅔ of the largest |θ| seen) this ratio means nothing, and the residual is
        relative to the largest |θ| instead.
    converged : ndarray of bool
        Which residuals are within the tolerance.
    num_products : int
        How many products with the operator were spent; a product with a block counts its columns.
    seconds : float
        Wall time.
    notes : tuple of str
        What the run has to say of how it was made.
    scales : ndarray or None
        What the residuals are relative to, |θ| if None.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> pairs = sd.top_eigenpairs(np.diag([1.0, 2.0, -7.0, 4.0]), rank=2)
    >>> pairs.values.round(9).tolist(), pairs.vectors.shape, bool(pairs.converged.all())
    ([-7.0, 4.0], (4, 2), True)
    """

    values: Floats
    vectors: Array
    residuals: Floats
    converged: NDArray[np.bool_]
    num_products: int
    seconds: float
    notes: tuple[str, ...] = ()
    scales: Floats | None = None

    @property
    def rank(self) -> int:
        """The number of pairs."""
        return len(self.values)

    @property
    def absolute_residuals(self) -> Floats:
        """‖Av − θv‖ of every pair, in the unit of the eigenvalues."""
        return self.residuals * (np.abs(self.values) if self.scales is None else self.scales)

    def transformed(self, factor: float, shift: float) -> EigenPairs:
        """Return the pairs of factor · A + shift · I, with residuals relative to the new values.

        Parameters
        ----------
        factor : float
            What every eigenvalue is multiplied by.
        shift : float
            What is added to it.

        Returns
        -------
        EigenPairs
            The same vectors with the new values.
        """
        values = factor * self.values + shift
        eps = float(np.finfo(dtype_name(self.vectors.dtype)).eps)
        scales = denominators(values, float(np.max(np.abs(values), initial=0.0)), eps)
        residuals = self.absolute_residuals * abs(factor) / scales
        return replace(self, values=values, residuals=residuals, scales=scales)

    def state(self, A: Operator) -> dict[str, Callable[[], NDArray[Any]]]:
        """Return the whole state as named arrays, each made when it is written."""
        fixed = {
            "values": self.values,
            "residuals": self.residuals,
            "converged": self.converged,
            "spent": np.array([self.num_products, self.seconds]),
            "scales": np.abs(self.values) if self.scales is None else self.scales,
        }
        arrays: dict[str, Callable[[], NDArray[Any]]] = {name: partial(np.asarray, x) for name, x in fixed.items()}
        arrays["vectors"] = partial(A.vectors.to_host, self.vectors)
        return arrays

    @classmethod
    def from_state(cls, A: Operator, read: Callable[[str], NDArray[Any]]) -> EigenPairs:
        """Return the pairs from their saved arrays, with the vectors on the operator's device."""
        num_products, seconds = read("spent")
        vectors = read("vectors")
        values, residuals, converged, scales = (read(name) for name in ("values", "residuals", "converged", "scales"))
        if vectors.shape != (A.shape[0], values.size) or vectors.dtype != A.vectors.name:
            raise ValueError(f"eigenvectors of dtype {vectors.dtype} and shape {vectors.shape}")
        if not values.shape == residuals.shape == converged.shape == scales.shape == (values.size,):
            raise ValueError("eigenpairs of different number")
        there = A.vectors.from_host(vectors)
        return cls(values, there, residuals, converged.astype(bool), int(num_products), float(seconds), scales=scales)

    def __repr__(self) -> str:
        head = (
            f"EigenPairs({self.rank} pairs, {int(self.converged.sum())} converged, {self.num_products} products, "
            f"{self.seconds:.3g} s)"
        )
        rows = [
            f"{i:>5}  {value:>14.7g}  {residual:>9.1e}{'' if done else '  not converged'}"
            for i, (value, residual, done) in enumerate(zip(self.values, self.residuals, self.converged, strict=True))
        ]
        if len(rows) > 4 * _SHOWN:
            rows[2 * _SHOWN : -2 * _SHOWN] = ["    ⋮"]
        return "\n".join([head, "    #           value   residual", *rows])


def preference(theta: Floats, which: str) -> NDArray[np.intp]:
    """Return the order of eigenvalues by how much they are wanted."""
    if which == "magnitude":
        return np.argsort(-np.abs(theta), kind="stable")
    ascending = np.argsort(theta, kind="stable")
    if which == "smallest":
        return ascending
    if which == "largest":
        return ascending[::-1]
    return np.stack([ascending[::-1], ascending], axis=1).ravel()[: len(theta)]


def denominators(theta: Floats, largest: float, eps: float) -> Floats:
    """Return what the residual norms of Ritz values `theta` are divided by: |θ|, or the largest |θ| where θ is zero.

    Parameters
    ----------
    theta : array of float
        The Ritz values.
    largest : float
        The largest magnitude of an eigenvalue, as far as it is known.
    eps : float
        The machine precision of the vectors. Values up to ε^⅔ times the largest count as zero.

    Returns
    -------
    array of float
        Positive numbers, one per Ritz value.

    Examples
    --------
    >>> import numpy as np
    >>> from specdens.adapters import residual_denominators
    >>> residual_denominators(np.array([8.0, -2.0, 1e-15]), largest=8.0, eps=2.2e-16).tolist()
    [8.0, 2.0, 8.0]
    """
    magnitudes = np.abs(theta)
    # rounding alone leaves ε |θ|max of a zero eigenvalue; ε^⅔ is ARPACK's line between small and zero
    relative = np.where(magnitudes > eps ** (2 / 3) * largest, magnitudes, largest)
    return np.where(relative > 0, relative, 1.0)


def check_finite(finite: bool, product: int) -> None:
    """Refuse a product with nan or infinities, by its number."""
    if not finite:
        raise ValueError(
            f"A @ x returned nan or inf at product {product}: the operator, or the model behind it, is not finite."
        )


def warn_unconverged(pairs: EigenPairs, *, tol: float, remedy: str) -> None:
    """Warn about the pairs that did not converge, by index, value and residual."""
    missed = np.flatnonzero(~pairs.converged)
    if not missed.size:
        return
    named = [f"{i} (value {pairs.values[i]:.6g}, residual {pairs.residuals[i]:.1e})" for i in missed[:_SHOWN]]
    if len(missed) > _SHOWN:
        named.append(f"and {len(missed) - _SHOWN} more")
    warnings.warn(
        f"{len(missed)} of {pairs.rank} eigenpairs did not reach tol={tol:g} in {pairs.num_products} products: "
        f"pairs {', '.join(named)}. {remedy}",
        SpecdensWarning,
        stacklevel=3,
    )
