"""The part of a curvature operator off the block diagonal, for blocks of parameters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

import specdens as sd
from specdens.adapters import Operator, as_count, probe_block
from specdens_torch._autodiff.product_task import Task
from specdens_torch._operators.products import EngineOperator
from specdens_torch._parameters import Subset


class OffDiagonal(Operator):
    """A − B, with B the blocks of A on its diagonal: what couples one group of parameters with another.

    One pass over the data gives the product with A and with all blocks. The square of the Frobenius norm of A is the
    sum of those of B and of A − B.

    Parameters
    ----------
    A : EngineOperator
        The operator.
    blocks : mapping of str to Subset
        Disjoint groups of its parameters. What is in no group is a block of its own.

    Examples
    --------
    >>> import torch, specdens as sd, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (torch.randn(30, 4), torch.arange(30) % 3))
    >>> coupling = curv.off_diagonal("Hess", by=None)
    >>> 0 < coupling.frobenius_share().value < 1
    True
    """

    def __init__(self, A: EngineOperator, blocks: Mapping[str, Subset]) -> None:
        super().__init__(A.shape[0], A.vectors)
        self.A, self.blocks = A, dict(blocks)
        starts = dict(zip(A.subset.indices, np.cumsum([0, *A.subset.sizes[:-1]]).tolist(), strict=True))
        seen: set[int] = set()
        self._places: dict[str, list[slice]] = {}
        for name, subset in self.blocks.items():
            if seen & set(subset.indices):
                raise ValueError(f"`by` must give groups without a common parameter; {name!r} shares one with another")
            seen |= set(subset.indices)
            pairs = zip(subset.indices, subset.sizes, strict=True)
            self._places[name] = [slice(starts[index], starts[index] + size) for index, size in pairs]

    @property
    def has_block_products(self) -> bool:  # type: ignore[override]
        """As for the operator itself."""
        return self.A.has_block_products

    def apply(self, x: Tensor) -> Tensor:
        """Return (A − B) x."""
        whole, diagonal = self.parts(x)
        return whole.sub_(diagonal)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return A x and B x, from one pass over the data.

        Parameters
        ----------
        x : Tensor
            A vector (n,) or a block (n, k).

        Returns
        -------
        tuple of Tensor
            The products with the operator and with its blocks.
        """
        x = x.detach()
        whole = torch.empty_like(x, memory_format=torch.contiguous_format)
        diagonal = torch.zeros_like(whole)
        columns = [(x, whole, diagonal)]
        if x.dim() == 2:
            columns = [(x[:, j], whole[:, j], diagonal[:, j]) for j in range(x.shape[1])]
        tasks, pieces = [], []
        for column, out, out_diagonal in columns:
            tasks.append(Task(self.A.coefficients, self.A.subset, column, out))
            for name, subset in self.blocks.items():
                part = torch.cat([column[place] for place in self._places[name]])
                piece = torch.empty_like(part)
                tasks.append(Task(self.A.coefficients, subset, part, piece))
                pieces.append((name, piece, out_diagonal))
        self.A.engine.run(tasks)
        for name, piece, out_diagonal in pieces:
            places = self._places[name]
            for place, values in zip(places, piece.split([s.stop - s.start for s in places]), strict=True):
                out_diagonal[place] = values
        return whole, diagonal

    def frobenius_share(self, *, num_probes: int = 8, seed: int = 0) -> sd.Estimate:
        """Return ‖A − B‖² / ‖A‖² in the Frobenius norm: the share of the operator that is off the block diagonal.

        Parameters
        ----------
        num_probes : int, default 8
            The number of random vectors, each of which costs one pass; at least 2.
        seed : int, default 0
            The seed of the random vectors.

        Returns
        -------
        Estimate
            The share, and its standard error by leaving out one probe at a time.
        """
        count = as_count("num_probes", num_probes)
        if count < 2:
            raise ValueError(f"`num_probes` must be at least 2, for a standard error; got {count}")
        squares = np.empty((count, 2))
        for j in range(count):
            v = probe_block(self.vectors, self.shape[0], [j], seed)[:, 0]
            whole, diagonal = self.parts(v)
            off = whole - diagonal
            # E ‖Av‖² = ‖A‖², and the two parts are orthogonal in the Frobenius inner product
            squares[j] = [float(off.double().square().sum()), float(diagonal.double().square().sum())]
        total = squares.sum(0)
        without = total - squares
        shares = without[:, 0] / without.sum(1)
        spread = float(np.sqrt((count - 1) / count * np.sum((shares - shares.mean()) ** 2)))
        return sd.Estimate(float(total[0] / total.sum()), spread)

    def __repr__(self) -> str:
        return f"OffDiagonal({self.A!r}, {len(self.blocks)} blocks)"
