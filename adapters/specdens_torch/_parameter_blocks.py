"""Blocks of parameters and batches of data: what couples blocks, and how batches differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specdens_torch._minibatches import MinibatchEigenvalues, minibatch_eigenvalues
from specdens_torch._operator_family import OperatorFamily
from specdens_torch._operators.curvature_operator import CurvatureOperator
from specdens_torch._operators.off_diagonal import OffDiagonal
from specdens_torch._parameter_groups import parameter_groups


class ParameterBlocks(OperatorFamily):
    """The part of `Curvature` that compares blocks of parameters and batches of data."""

    def off_diagonal(
        self, operator: str = "Hess", *, by: int | str | Mapping[str, Iterable[str]] | None = "block"
    ) -> OffDiagonal:
        """Return the part of an operator off its block diagonal: what couples groups of parameters with each other.

        Parameters
        ----------
        operator : str
            As for `density`, by name.
        by : int, str or mapping, optional
            The groups, as for `layer_densities`.

        Returns
        -------
        OffDiagonal
            An operator for `specdens.spectral_density`, with `frobenius_share`.

        Raises
        ------
        ValueError
            If there is no such operator, or groups share a parameter.
        """
        groups = parameter_groups(self._engine.forward.model, self.names, by)
        return OffDiagonal(
            self.operator(operator), {name: self.subset(params)._subset for name, params in groups.items()}
        )

    def minibatch_eigenvalues(
        self,
        operator: str | CurvatureOperator = "Hess",
        *,
        rank: int = 1,
        which: str = "magnitude",
        num_batches: int | None = None,
        tol: float | None = None,
        seed: int = 0,
    ) -> MinibatchEigenvalues:
        """Return the largest eigenvalues of every mini-batch on its own: their distribution over batches.

        Parameters
        ----------
        operator : str or CurvatureOperator
            As for `density`.
        rank : int, default 1
            The number of eigenvalues of every batch.
        which, tol, seed
            As for `specdens.top_eigenpairs`.
        num_batches : int, optional
            The first batches only; by default all.

        Returns
        -------
        MinibatchEigenvalues
            One row of eigenvalues per batch.

        Examples
        --------
        >>> import torch, specdens_torch as sdt
        >>> _ = torch.manual_seed(0)
        >>> x, y = torch.randn(40, 4).double(), torch.arange(40) % 3
        >>> data = list(zip(x.split(10), y.split(10)))
        >>> curv = sdt.Curvature(torch.nn.Linear(4, 3).double(), torch.nn.CrossEntropyLoss(), data)
        >>> curv.minibatch_eigenvalues(rank=2).values.shape
        (4, 2)
        """
        A = self.operator(operator)
        return minibatch_eigenvalues(A, rank=rank, which=which, num_batches=num_batches, tol=tol, seed=seed)
