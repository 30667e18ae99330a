"""The largest eigenvalues of every mini-batch on its own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

import specdens as sd
from specdens.adapters import as_count
from specdens_torch._operators.curvature_operator import CurvatureOperator

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
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

    Examples
    --------
    >>> import torch, specdens as sd, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
    >>> batches = [(torch.randn(9, 4), torch.arange(9) % 3) for _ in range(3)]
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), batches)
    >>> found = curv.minibatch_eigenvalues(rank=2)
    >>> found.values.shape, found.sizes.tolist()
    ((3, 2), [9, 9, 9])
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

    def __repr__(self) -> str:
        head = f"MinibatchEigenvalues({len(self.values)} batches, {self.num_products} products)"
        columns = zip(self.mean, self.stderr, *(self.quantile(q) for q in (0.1, 0.5, 0.9)), strict=True)
        rows = [
            f"{k:>5}" + "".join(f"  {value:>10.{digits}g}" for value, digits in zip(row, (4, 2, 4, 4, 4), strict=True))
            for k, row in enumerate(columns)
        ]
        return "\n".join([head, "    #        mean      stderr        10 %      median        90 %", *rows])

    def plot(self, ax: Any = None) -> Any:
        """Draw the distribution over batches of every eigenvalue, as boxes with a point for each batch.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The Axes to draw in; by default those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError("pictures need matplotlib: pip install specdens[plot]") from error
            ax = plt.subplots(layout="constrained")[1]
        places = np.arange(self.values.shape[1])
        ax.boxplot(self.values, positions=places, showfliers=False)
        # points side by side in the order of the batches, so that equal ones do not hide each other
        offsets = np.linspace(-0.2, 0.2, len(self.values)) if len(self.values) > 1 else np.zeros(1)
        ax.plot(places + offsets[:, None], self.values, ".", color="#0072b2", alpha=0.6)
        ax.set(xlabel="eigenvalue number", ylabel=f"eigenvalue of each of {len(self.values)} batches")
        return ax


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
