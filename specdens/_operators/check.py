"""Checks of an operator in numbers: finite, deterministic, linear, Hermitian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specdens._operators.base import Operator
from specdens._operators.consistency import asymmetry_message, tolerance
from specdens._operators.convert import as_operator
from specdens._operators.products import product_of_copy
from specdens._typing import Array, OperatorLike
from specdens._vectors.probes import gaussian_probe_block


@dataclass(frozen=True)
class OperatorReport:
    """What `check_operator` and `inspect_operator` measure: relative differences that should be near rounding.

    The report is true if there are no problems.

    Attributes
    ----------
    nonlinearity, asymmetry, randomness, block_difference : float
        Relative differences between products that agree for a linear, Hermitian, deterministic operator.
    problems : tuple of str
        The differences beyond rounding, in words.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> report = sd.inspect_operator(np.triu(np.ones((50, 50))))
    >>> bool(report), report.asymmetry > 0.1
    (False, True)
    """

    nonlinearity: float
    """‖A(2x − 3y) − (2Ax − 3Ay)‖ relative to the products."""
    asymmetry: float
    """|⟨u, Av⟩ − ⟨Au, v⟩| for v = Au/‖Au‖, relative to ‖Av‖: of the order of 1 at any n if A is not Hermitian."""
    randomness: float
    """The relative difference of two products with the same vector."""
    block_difference: float
    """The relative difference between a product with a block and with its columns."""
    problems: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.problems


def check_operator(A: OperatorLike, *, seed: int = 0) -> OperatorReport:
    """Check that A is finite, deterministic, linear and Hermitian; raise an error that says what is not, in numbers.

    Costs seven products. The estimators run a cheaper version of it themselves. `inspect_operator` returns the same
    report without raising.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes.
    seed : int
        The seed of the test vectors.

    Returns
    -------
    OperatorReport
        The measured differences, all of them near rounding.

    Raises
    ------
    ValueError
        If A is not finite, deterministic, linear and Hermitian.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> sd.check_operator(np.diag([1.0, 2.0, 3.0])).problems
    ()
    >>> sd.check_operator(np.array([[0.0, 1.0], [0.0, 0.0]]))
    Traceback (most recent call last):
        ...
    ValueError: the operator is not symmetric: ⟨u, Av⟩ and ⟨Au, v⟩ differ by 1 of ‖Av‖
    """
    report = inspect_operator(A, seed=seed)
    if report.problems:
        raise ValueError("; ".join(report.problems))
    return report


def inspect_operator(A: OperatorLike, *, seed: int = 0) -> OperatorReport:
    """Return what `check_operator` measures, whatever it finds.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes.
    seed : int
        The seed of the test vectors.

    Returns
    -------
    OperatorReport
        The measured differences, and in ``problems`` those that are not near rounding, in words.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> sd.inspect_operator(np.array([[0.0, 1.0], [0.0, 0.0]])).problems
    ('the operator is not symmetric: ⟨u, Av⟩ and ⟨Au, v⟩ differ by 1 of ‖Av‖',)
    """
    return _inspect(as_operator(A), seed)


def _inspect(A: Operator, seed: int) -> OperatorReport:
    vectors = A.vectors
    block = gaussian_probe_block(vectors, A.shape[0], (0, 1), seed)
    x, y = vectors.copy(block[:, 0]), vectors.copy(block[:, 1])
    Ax = vectors.copy(product_of_copy(A.__matmul__, A.vectors, x))  # the operator may answer from one buffer
    size = _norm(A, Ax)
    if not np.isfinite(size):
        problem = (
            "the squares of A @ x leave the range of float64; scale the operator, for instance 1e-150 * A"
            if np.isfinite(_norm(A, _sum(A, 0.0, Ax, 2.0**-600, Ax)))
            else "the operator is not finite: A @ x contains nan or inf"
        )
        return OperatorReport(np.nan, np.nan, np.nan, np.nan, (problem,))
    again, Ay, Ab = (
        product_of_copy(A.__matmul__, A.vectors, x),
        product_of_copy(A.__matmul__, A.vectors, y),
        product_of_copy(A.__matmul__, A.vectors, block),
    )
    mixed = product_of_copy(A.__matmul__, A.vectors, _sum(A, 2.0, x, -3.0, y))
    scale = max(size, _norm(A, Ay)) or 1.0
    found = {
        "randomness": _norm(A, _sum(A, 1.0, Ax, -1.0, again)) / scale,
        "nonlinearity": _norm(A, _sum(A, 1.0, mixed, -1.0, _sum(A, 2.0, Ax, -3.0, Ay))) / scale,
        "block_difference": _norm(A, _sum(A, 1.0, vectors.copy(Ab[:, 1]), -1.0, Ay)) / scale,
        "asymmetry": _asymmetry(A, x, Ax),
    }
    message = {
        "randomness": "the operator is not deterministic: two products with one vector differ by {:.2g} of their size",
        "nonlinearity": "the operator is not linear: A(2x − 3y) differs from 2Ax − 3Ay by {:.2g} of the products",
        "block_difference": "the product with a block differs from the products with its columns by {:.2g}",
        "asymmetry": asymmetry_message("⟨u, Av⟩ and ⟨Au, v⟩ differ by {:.2g} of ‖Av‖", is_complex=vectors.is_complex),
    }
    problems = tuple(message[name].format(value) for name, value in found.items() if not value <= tolerance(A))
    return OperatorReport(**found, problems=problems[:1] if found["randomness"] > tolerance(A) else problems)


def _asymmetry(A: Operator, u: Array, Au: Array) -> float:
    """Return |⟨u, Av⟩ − ⟨Au, v⟩| / ‖Av‖ for the v that shows it at any dimension: the direction of Au."""
    length = _norm(A, Au)
    if length == 0:
        return 0.0
    vectors = A.vectors
    v = vectors.scale(vectors.from_host(np.asarray(1.0 / length)), vectors.copy(Au))
    Av = product_of_copy(A.__matmul__, A.vectors, v)
    difference = vectors.to_host(vectors.dot(u, Av)) - vectors.to_host(vectors.dot(Au, v))
    return float(np.abs(difference)) / max(_norm(A, Av), length)


def _norm(A: Operator, x: Array) -> float:
    return float(A.vectors.to_host(A.vectors.norm(x)))


def _sum(A: Operator, a: float, x: Array, b: float, y: Array) -> Array:
    """Return a x + b y as a new vector."""
    vectors = A.vectors
    out = vectors.scale(vectors.from_host(np.asarray(a)), vectors.copy(x))
    return vectors.axpy(vectors.from_host(np.asarray(b)), y, out)
