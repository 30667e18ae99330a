"""Curvature operators: Hess, G, H, the components of G, and their combinations."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse.linalg

from specdens.adapters import CheaperForm, Operator
from specdens_torch._coefficients import Coefficients
from specdens_torch._operators.dual import Dual, dual_form, is_shorter
from specdens_torch._operators.products import EngineOperator


class CurvatureOperator(EngineOperator):
    """A combination h H + JᵀSJ: Hess, G, H, a component of G, or a sum of multiples of them.

    Sums, differences and multiples of operators of one `Curvature` are again one operator, with one product.

    Examples
    --------
    >>> import torch, specdens as sd, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (torch.randn(30, 4), torch.arange(30) % 3))
    >>> rest = curv.G - curv.A1  # one operator, one product
    >>> v = torch.randn(curv.G.shape[0])
    >>> torch.allclose(rest @ v, curv.G @ v - curv.A1 @ v, atol=1e-6)
    True
    """

    def dual(self) -> Dual:
        """Return an operator on the outputs' space with the same non-zero eigenvalues.

        Its vectors have one entry per example and class, in float64. The null space that is known by construction is
        projected out and comes back as an exact atom at zero, so that a density of it is a density of this operator.
        Softmax, squared error and binary cross-entropy have roots in closed form; any other loss must be convex in the
        outputs and a sum over examples, and its Hessian is factorised example by example.

        Returns
        -------
        Dual
            The operator on the outputs' space.

        Raises
        ------
        ValueError
            If the operator is not a non-negative combination of the components of G, or if its dual is not smaller.

        Examples
        --------
        >>> import torch, specdens as sd, specdens_torch as sdt
        >>> x, y = torch.linspace(-1, 1, 12).view(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])
        >>> curv = sdt.Curvature(torch.nn.Linear(2, 3).double(), torch.nn.CrossEntropyLoss(), (x.double(), y))
        >>> curv.subset("weight").G.dual()
        Traceback (most recent call last):
            ...
        ValueError: the dual of G has dimension 12, not below the 6 parameters: use the operator itself
        """
        return Dual(self)

    def cheaper_form(self) -> CheaperForm | None:
        """Return the dual, where it has a closed form and the shorter vectors.

        Whether graphs are kept plays no part: the same call gives the same result whatever the memory. A product with
        the dual is a pass of Jᵀ and then a pass of J. Where graphs are kept, that is the work of the operator itself;
        where they are not, it is a second forward pass, which ``Curvature.density(..., dual=False)`` avoids.
        """
        return dual_form(self.dual()) if is_shorter(self) else None

    def to_scipy(self) -> scipy.sparse.linalg.LinearOperator:
        """Return the operator for SciPy, on NumPy arrays of the host.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator
            The same products, on NumPy arrays.
        """
        dtype = np.dtype(self.vectors.name)

        def matmul(x: Any) -> Any:
            columns = np.ascontiguousarray(x, dtype=dtype).reshape(np.shape(x))
            return self.vectors.to_host(self @ self.vectors.from_host(columns))

        return scipy.sparse.linalg.LinearOperator(
            self.shape, matvec=lambda x: matmul(x.reshape(-1)), rmatvec=lambda x: matmul(x.reshape(-1)),
            matmat=matmul, dtype=dtype,
        )  # fmt: skip

    # -- combinations are again curvature operators --------------------------------------------------------------

    def _with(self, coefficients: Coefficients) -> CurvatureOperator:
        return CurvatureOperator(self.engine, self.subset, coefficients)

    def _combines_with(self, other: Any) -> bool:
        return isinstance(other, CurvatureOperator) and (other.engine, other.subset) == (self.engine, self.subset)

    def __add__(self, other: Any) -> Operator:
        if not self._combines_with(other):
            return super().__add__(other)
        return self._with(self.coefficients.plus(other.coefficients))

    def __sub__(self, other: Any) -> Operator:
        if not self._combines_with(other):
            return super().__sub__(other)
        return self._with(self.coefficients.plus(other.coefficients.times(-1.0)))

    def __mul__(self, factor: float) -> Operator:
        if isinstance(factor, int | float) and np.isfinite(factor):
            return self._with(self.coefficients.times(float(factor)))
        return super().__mul__(factor)

    __rmul__ = __mul__

    def __neg__(self) -> Operator:
        return self._with(self.coefficients.times(-1.0))

    def __repr__(self) -> str:
        kind = f"dtype={self.vectors.name}, device={self.device}"
        return f"CurvatureOperator({self.coefficients}, n={self.shape[0]}, {kind})"
