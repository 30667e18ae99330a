"""The dual of G and of its components: the same non-zero spectrum on the outputs' space."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import specdens as sd
from specdens.adapters import Atoms, CheaperForm, Operator, residual_denominators
from specdens_torch._coefficients import Coefficients
from specdens_torch._loss.derivatives import DiagonalState
from specdens_torch._loss.softmax_state import SoftmaxState
from specdens_torch._operators.products import EngineOperator
from specdens_torch._parameters import curvature_vectors

# Full reorthogonalisation keeps all vectors; beyond this the dual runs without it.
_BASIS_BYTES = 2**30


class Dual(Operator):
    """D^½ XᵀX D^½ for an operator X D Xᵀ, with X Xᵀ = G and D a combination of orthogonal projections.

    Vectors are rows (one per example) by outputs, in float64. The known null space is projected out: rows without
    weight, the kernel of D, and the combinations of the vectors (√p_ic)_c that lie in the range of D.

    Parameters
    ----------
    primal : EngineOperator
        A combination of the components of G with coefficients of at least 0.

    Examples
    --------
    >>> import torch, specdens as sd, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (torch.randn(12, 4), torch.arange(12) % 3))
    >>> dual = curv.G.dual()
    >>> curv.G.shape, dual.shape
    ((67, 67), (36, 36))
    """

    def __init__(self, primal: EngineOperator) -> None:
        self.primal, self.coefficients = primal, primal.coefficients
        self._check_signs()
        if primal.engine.ranks.size > 1:
            raise ValueError(
                f"the dual of {self.coefficients} lives on the outputs of one process; the data are shared by "
                f"{primal.engine.ranks.size}. Use the operator itself, or group=False with all of the data."
            )
        self._collect(list(primal.engine.states()))
        rows, width = self.shape_of_rows
        dtypes = (*primal.subset.dtypes, *primal.engine.half_dtypes)
        vectors = curvature_vectors(dtypes, torch.float64, primal.engine.batches.device)
        super().__init__(rows * width, vectors)
        self._bulk = self._find_null_space()
        if self._bulk >= primal.shape[0]:
            raise ValueError(
                f"the dual of {self.coefficients} has dimension {self._bulk}, not below the {primal.shape[0]} "
                "parameters: use the operator itself"
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """As for the operator itself."""
        return self.primal.notes

    @property
    def known_bounds(self) -> sd.Interval:
        """From 0 on: D^½ XᵀX D^½ is positive semi-definite."""
        return sd.Interval(0.0, np.inf)

    def _check_signs(self) -> None:
        if not self.coefficients.is_positive:
            raise ValueError(
                "dual() must be asked of G or a sum of its components with coefficients of at least 0; got "
                f"{self.coefficients}"
            )

    def _collect(self, states: list[Any]) -> None:
        self._sizes = [state.num_rows for state in states]
        self.shape_of_rows = (sum(self._sizes), states[0].width)
        self.is_softmax = isinstance(states[0], SoftmaxState)
        if not self.is_softmax:
            return
        self.mass = torch.cat([state.mass for state in states])
        self.sqrt_p = torch.cat([state.p for state in states]).sqrt()
        self.labels: Any = None if states[0].labels is None else torch.cat([state.labels for state in states])
        self.active = torch.cat([state.omega for state in states]) > 0

    # -- the null space ------------------------------------------------------------------------------------------------

    def _find_null_space(self) -> int:
        """Return the dimension in which the spectrum is not known, and prepare the projection onto it."""
        rows, width = self.shape_of_rows
        self._bases: list[tuple[Tensor, Tensor]] = []
        if not self.is_softmax:
            return int(rows * width)
        num_active = _host_sum(self.active)
        if not self.coefficients.coupled:
            return int(num_active * (width - 1))
        if self.mass.is_meta:  # who belongs to which class is not known
            return int(num_active * width)
        means = self.primal.engine.class_means()
        beta = self.coefficients.b2(width)
        a1, a2, b1, _ = (value > 0 for value in self.coefficients.parts)
        # with unequal coefficients the null vectors are D^(-½) times these: left for the recurrence to find
        even = len({*self.coefficients.parts[:3], *beta} - {0.0}) == 1
        bulk = 0
        for row, c in enumerate(means.classes.tolist()):
            members = (self.active[:, 0] & (self.labels == c)).nonzero()[:, 0]
            if len(members) == 0:
                continue
            bulk += a1 + a2 + b1 * (width - 2) + (beta[c] > 0) * width * (len(members) - 1)
            basis = self._not_null(members, c, means.weights[row], (a1, a2, b1, beta[c] > 0))
            if even and basis is not None:
                self._bases.append((members, basis))
                bulk -= len(members) - basis.shape[1]
        return bulk

    def _not_null(self, members: Tensor, c: int, weights: Tensor, kept: tuple[bool, bool, bool, bool]) -> Tensor | None:
        """Return an orthonormal basis of the t for which Σ tᵢ √pᵢ is *not* a null vector in the range of D.

        Such a vector is in the range of D where the excluded components vanish on it: linear conditions on Σ tᵢ pᵢ.
        """
        a1, a2, b1, b2 = kept
        if not b2:
            if not (a1 and a2):
                return None
            # only class means are kept: the vector must be constant within the class
            constant = torch.ones((len(members), 1), dtype=torch.float64, device=members.device)
            return torch.linalg.qr(constant, mode="complete")[0][:, 1:]
        p = self.sqrt_p[members] ** 2
        off = torch.ones(p.shape[1], dtype=torch.bool, device=p.device)
        off[c] = False
        conditions = []
        if not a2:
            conditions.append(p[:, c : c + 1])
        if not a1:
            conditions.append(p[:, off].sum(1, keepdim=True))
        if not b1:
            share = weights[off] / weights[off].sum()
            conditions.append(p[:, off] - p[:, off].sum(1, keepdim=True) * share)
        if not conditions:
            return torch.zeros((len(members), 0), dtype=torch.float64, device=p.device)
        matrix = torch.cat(conditions, dim=1)
        left, singular, _ = torch.linalg.svd(matrix / matrix.norm().clamp_min(1e-300), full_matrices=False)
        # what is kept in doubt costs a dimension, not correctness
        return left[:, singular > 1e-13]

    def project(self, x: Tensor) -> Tensor:
        """Project x onto the complement of the known null space, in place, and return x."""
        if self.is_softmax:
            columns = [x] if x.dim() == 1 else [x[:, j] for j in range(x.shape[1])]
            for column in columns:
                column.copy_(self._projected(column.reshape(self.shape_of_rows)).reshape(-1))
        return x

    def _projected(self, z: Tensor) -> Tensor:
        if not self.is_softmax:
            return z
        z = z * self.active
        if not self.coefficients.coupled:
            for _ in range(2):  # twice: the second pass removes what rounding left of a large component
                z = z - (self.sqrt_p * z).sum(1, keepdim=True) * self.sqrt_p
            return z * self.active
        kept = tuple(float(value > 0) for value in self.coefficients.parts)
        b2 = self.coefficients.parts[3]
        classes = tuple((c, 1.0) for c, value in self.coefficients.classes if kept[3] == 0 and b2 + value > 0)
        z = self._combined(z, Coefficients(0.0, kept, classes))  # type: ignore[arg-type]
        for members, basis in self._bases:
            t = (self.sqrt_p[members] * z[members]).sum(1)
            t = t - basis @ (basis.T @ t)
            z[members] -= t[:, None] * self.sqrt_p[members]
        return z

    def _combined(self, z: Tensor, coefficients: Coefficients) -> Tensor:
        """Return Σ c_k P_k z: the class means in coordinates scaled by √(ω p)."""
        if not coefficients.coupled:
            return coefficients.parts[0] * z
        root = self.mass.sqrt()
        means = self.primal.engine.class_means()
        table, beta = means.table(means.sums(root * z, self.labels), coefficients)
        rows = means.rows(self.labels)
        return beta[rows] * z + root * table[rows]

    # -- products --------------------------------------------------------------------------------------------------

    def apply(self, x: Tensor) -> Tensor:
        if x.dim() == 1:
            return self._apply(x.detach())
        return torch.stack([self._apply(x[:, j].detach()) for j in range(x.shape[1])], dim=1)

    def _apply(self, x: Tensor) -> Tensor:
        root = _root(self.coefficients)
        z = self._projected(x.reshape(self.shape_of_rows))
        z = self._combined(self.gram(self._combined(z, root)), root)
        return self._projected(z).reshape(-1)

    def gram(self, z: Tensor) -> Tensor:
        """Return XᵀX z for rows z."""
        found = self.primal.engine.differential(self.primal.subset, self._transposed(z))
        return torch.cat([state.root_transposed(u) for state, u in found])  # type: ignore[attr-defined]

    def _transposed(self, z: Tensor) -> Tensor:
        """Return X z, a vector of parameters."""
        subset, parts = self.primal.subset, z.split(self._sizes)
        y = torch.empty(subset.num_entries, dtype=self.primal.dtype, device=z.device)
        return self.primal.engine.transposed(subset, lambda number, state: state.root(parts[number]), y)

    def lift(self, pairs: sd.EigenPairs) -> sd.EigenPairs:
        """Return eigenpairs of the dual as those of the operator: vectors of parameters, with their residuals.

        For an eigenvector z of D^½ XᵀX D^½ that is X D^½ z, normalised; every pair costs one product more.
        """
        primal, k = self.primal, pairs.rank
        V = torch.empty((primal.shape[0], k), dtype=primal.dtype, device=primal.device)
        order = np.argsort(-np.abs(pairs.values), kind="stable")  # what is nearly null gives way to the others
        for j, i in enumerate(order):
            z = self._projected(pairs.vectors[:, i].reshape(self.shape_of_rows))
            V[:, j] = self._transposed(self._combined(z, _root(self.coefficients)))
        V = primal.vectors.orthonormalize(V)[:, torch.as_tensor(np.argsort(order), device=V.device)].contiguous()
        residuals = np.array([float((primal @ V[:, j] - float(pairs.values[j]) * V[:, j]).norm()) for j in range(k)])
        relative = residuals / residual_denominators(
            pairs.values, float(np.max(np.abs(pairs.values), initial=0.0)), self.vectors.eps
        )
        return replace(pairs, vectors=V, residuals=relative, num_products=pairs.num_products + k)

    @property
    def dimension(self) -> int:
        return self.primal.shape[0]

    @property
    def bulk_dimension(self) -> int:
        return self._bulk

    @property
    def known_atoms(self) -> Atoms:
        n = self.dimension
        return Atoms(np.array([0.0]), np.array([(n - self._bulk) / n]))

    has_block_products = False

    def __repr__(self) -> str:
        return f"Dual({self.coefficients}, n={self.shape[0]}, bulk={self._bulk}, of {self.dimension} parameters)"


def is_shorter(A: EngineOperator) -> bool:
    """Return whether the dual exists and has the shorter vectors."""
    if not A.coefficients.is_positive or A.engine.ranks.size > 1:
        return False
    length = 0
    for state in A.engine.states():
        if not isinstance(state, SoftmaxState | DiagonalState):
            return False
        length += state.num_rows * state.width
    return length < A.shape[0]


def has_dual(A: EngineOperator) -> bool:
    """Return whether an operator may have a dual: G and its components with coefficients of at least 0."""
    return A.coefficients.is_positive


def dual_form(D: Dual) -> CheaperForm:
    """Return the dual as a form of its operator that the front door can use."""
    lengths = f"vectors of {D.shape[0]} entries instead of {D.dimension}"
    note = f"by the dual of {D.coefficients}: {lengths}, exact atom at zero"
    return CheaperForm(D, note, max(0, _BASIS_BYTES // (8 * D.shape[0]) - 3), D.lift)


def _root(coefficients: Coefficients) -> Coefficients:
    """Return the coefficients of the square root: projections are orthogonal, so coefficients take their roots."""
    a = [value**0.5 for value in coefficients.parts]
    classes = tuple((c, (coefficients.parts[3] + value) ** 0.5 - a[3]) for c, value in coefficients.classes)
    return Coefficients(0.0, (a[0], a[1], a[2], a[3]), classes)


def _host_sum(mask: Tensor) -> int:
    return mask.numel() if mask.is_meta else int(mask.sum())
