"""The largest eigenvalues of every mini-batch on its own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

import specdens as sd
from specdens.adapters import as_count
from specdens_torch._operators.curvature_operator import CurvatureOperator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MinibatchEigenvalues:
    """The eigenvalues at the end of the spectrum, batch by batch.

    Attributes
    ----------
    values : ndarray
        One row per batch, in the order of `specdens.top_eigenpairs`.
    residuals : ndarray
        Relative residuals, in the same shape.
    sizes : ndarray
        The number of examples of every batch.
    num_products : int
        The products of all batches together; one costs a pass over one batch.
    """

    values: Floats
    residuals: Floats
    sizes: NDArray[np.int64]
    num_products: int

    @property
    def mean(self) -> Floats:
        """The mean over batches of every eigenvalue."""
        return np.asarray(self.values.mean(0))

    @property
    def stderr(self) -> Floats:
        """The standard error of the mean; nan for a single batch."""
        count = len(self.values)
        spread = self.values.std(0, ddof=1) if count > 1 else np.full(self.values.shape[1], np.nan)
        return np.asarray(spread / np.sqrt(count))

    def quantile(self, q: float) -> Floats:
        """Return a quantile over batches of every eigenvalue.

        Parameters
        ----------
        q : float
            The share, between 0 and 1.

        Returns
        -------
        ndarray
            One number per eigenvalue.
        """
        return np.asarray(np.quantile(self.values, q, axis=0))

    def __str__(self) -> str:
        low, middle, high = (self.quantile(q)[0] for q in (0.1, 0.5, 0.9))
        return (
            f"{len(self.values)} batches: largest eigenvalue {self.mean[0]:.4g} ± {self.stderr[0]:.2g}, "
            f"median {middle:.4g}, from {low:.4g} to {high:.4g} (10 % to 90 %)"
        )


def minibatch_eigenvalues(
    A: CurvatureOperator, *, rank: int, which: str, num_batches: int | None, tol: float | None, seed: int
) -> MinibatchEigenvalues:
    """Return the eigenvalues of the operator of every batch, with the divisor of that batch."""
    rank = as_count("rank", rank)
    count = None if num_batches is None else as_count("num_batches", num_batches)
    A.engine.refresh()
    values, residuals, sizes, num_products = [], [], [], 0
    for batch in islice(A.engine.batches, count):
        alone = CurvatureOperator(A.engine.for_batch(batch), A.subset, A.coefficients)
        pairs = sd.top_eigenpairs(alone, rank=rank, which=which, tol=tol, seed=seed)
        values.append(pairs.values)
        residuals.append(pairs.residuals)
        sizes.append(batch.size)
        num_products += pairs.num_products
    found = A.engine.ranks.gather((values, residuals, sizes, num_products))
    values, residuals, sizes = ([each for rank_found in found for each in rank_found[part]] for part in range(3))
    return MinibatchEigenvalues(
        np.stack(values), np.stack(residuals), np.array(sizes), sum(rank_found[3] for rank_found in found)
    )
