"""The signed quadrature rule of one probe, and estimates with complex values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from specdens._distributions.cdf import Floats
from specdens._measure.error_arithmetic import NumberWithError

Numbers = NDArray[Any]
"""Real or complex numbers in double precision."""


class _Pair(NamedTuple):
    """The fields of an estimate."""

    value: Any
    stderr: float


class CrossEstimate(NumberWithError["CrossEstimate"], _Pair):  # type: ignore[misc]  # as for `Estimate`
    """A real or complex value and its standard error, as an `Estimate`.

    Attributes
    ----------
    value : float or complex
        The estimate.
    stderr : float
        The standard error of its magnitude.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> estimate = sd.cross_measure(A, np.array([1.0, 0.0]), np.array([0.0, 1.0])).weight(0, 2)
    >>> round(estimate.value, 12)
    0.5
    """

    __slots__ = ()

    def _made(self, value: Any, stderr: float) -> CrossEstimate:
        return CrossEstimate(value, stderr)


class CrossRule(NamedTuple):
    """Nodes and weights of one probe; the weights of B² estimate the sampling error of a trace."""

    nodes: Floats
    weights: Numbers
    squares: Floats


def cross_rule(
    alphas: Floats, betas: Floats, overlaps: Numbers, squares: Numbers | None, *, factor: float, fewer: int
) -> CrossRule:
    """Return the rule of a probe after so many steps less; `squares` are the inner products with B²v of a trace.

    V f(T) e₁ approximates f(A) b/‖b‖, with or without reorthogonalisation [Druskin and Knizhnerman 1991], so that
    ⟨a|f(A)|b⟩ is a sum over the Ritz values, with weights of either sign.
    """
    m = max(1, alphas.size - fewer)
    decomposition = scipy.linalg.eigh_tridiagonal(alphas[:m], betas[: m - 1])
    nodes, S = (np.asarray(part, dtype=np.float64) for part in decomposition)
    weights = factor * S[0] * (overlaps[:m] @ S)
    if squares is None:
        return CrossRule(nodes, weights, np.zeros(m))
    return CrossRule(nodes, weights.real, factor * S[0] * (squares[:m].real @ S))  # B is Hermitian: its traces are real
