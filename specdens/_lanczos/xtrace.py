"""XTrace: the trace of f(A) where few eigenvalues carry it, from far fewer products than random probes need.

B = f(A) is multiplied with m random vectors, an orthonormal basis Q of the products captures its large part, and B is
multiplied with Q. Each random vector in turn is left out of the basis and estimates what the others miss; the mean over
all is the estimate, and their spread its error [Epperly, Tropp and Webber 2024, XTrace].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from specdens._distributions.cdf import Floats
from specdens._measure.quadrature import apply_function, check_takes_arrays
from specdens._operators.base import Operator
from specdens._operators.consistency import check_range, check_symmetry, tolerance
from specdens._operators.convert import as_operator
from specdens._operators.products import product_of_copy
from specdens._validate import as_count, as_positive, as_seed
from specdens._vectors.base import Array
from specdens._vectors.probes import gaussian_probe_block

_BREAKDOWN = 100.0  # units of rounding: an invariant subspace, on which f is exact
_ROUNDING = 4.0  # units of rounding: the error of the trace of a matrix that the vectors can hold
_DEPENDENT = 1e-12  # a product that is a combination of those before, to rounding: the basis has all of B


@dataclass(frozen=True)
class XTrace:
    """The trace of a function of an operator.

    Attributes
    ----------
    value : float
        The estimate.
    stderr : float
        Its standard error: the spread over the vectors, and what the last steps changed.
    num_products : int
        The number of products with the operator.
    num_steps : int
        The largest number of steps that a product with f(A) took.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> trace = sd.xtrace(np.diag(1.0 / np.arange(1, 301) ** 2), np.expm1)
    >>> bool(abs(trace.value - np.expm1(1.0 / np.arange(1, 301) ** 2).sum()) < 3 * trace.stderr)
    True
    """

    value: float
    stderr: float
    num_products: int
    num_steps: int


def xtrace(
    A: Any,
    f: Callable[[Floats], ArrayLike],
    *,
    num_vectors: int = 16,
    max_steps: int = 100,
    tol: float | None = None,
    seed: int = 0,
) -> XTrace:
    """Return the trace of f(A) for a function that is large on few eigenvalues, such as exp or a high power.

    The mean over s random probes has an error of about √(2/(n s)) of the root mean square of f, whatever f is. Here the
    error falls with the part of f(A) that its `num_vectors` largest eigenvalues do not carry: for the Estrada index of
    a network it is smaller by orders of magnitude. `SpectralMeasure.trace` does as well where these eigenvalues have
    converged, but has to infer their multiplicities, and its standard error allows for that. For functions that are of
    one size on the whole spectrum, such as logarithms, probes are better.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes; real symmetric or complex Hermitian.
    f : callable
        A real function of an array of eigenvalues.
    num_vectors : int, default 16
        The number of random vectors. f(A) is multiplied with twice as many, and `num_vectors` + `max_steps` vectors
        are held.
    max_steps : int, default 100
        The largest number of steps of Lanczos for a product with f(A).
    tol : float, optional
        A product with f(A) ends when two steps in a row have changed it by less than this share. By default 10⁻¹⁰, or
        100 ε if that is larger.
    seed : int, default 0
        The seed of the random vectors.

    Returns
    -------
    XTrace
        The estimate with its standard error and the number of products.

    Raises
    ------
    ValueError
        If A is not symmetric or finite, f is not finite on the spectrum, or there are fewer dimensions than vectors.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> eigenvalues = 12 / np.sqrt(np.arange(1.0, 1001))
    >>> estimate = sd.xtrace(np.diag(eigenvalues), np.exp)
    >>> exact = np.sum(np.exp(eigenvalues))
    >>> bool(abs(estimate.value - exact) < 3 * estimate.stderr < 1e-3 * exact)
    True
    """
    A = as_operator(A)
    n = A.bulk_dimension
    m = as_count("num_vectors", num_vectors, minimum=2, maximum=n)
    limits = (min(as_count("max_steps", max_steps), n), _as_tolerance(A, tol))
    seed = as_seed(seed)
    check_takes_arrays("f", f)
    run = _Products(A, f, *limits)
    block = gaussian_probe_block(A.vectors, A.shape[0], range(m), seed)
    omegas = [A.project(A.vectors.copy(block[:, j])) for j in range(m)]
    basis, R = _orthonormal(A, [run(omega) for omega in omegas])
    W = _inner(A, basis, omegas)
    H = _inner(A, basis, [run(q) for q in basis])
    squares = np.array([float(A.vectors.to_host(A.vectors.norm(omega))) ** 2 for omega in omegas])
    estimates = _left_out(n, (H + H.conj().T) / 2, W, R, squares)
    known = A.shape[0] * A.known_atoms.masses @ apply_function(f, A.known_atoms.positions)
    value = float(np.mean(estimates)) + float(known)
    spread = float(np.std(estimates, ddof=1)) / np.sqrt(m)
    change = (run.change + _ROUNDING * A.vectors.eps) * abs(value)
    return XTrace(value, float(np.hypot(spread, change)), run.num_products, run.num_steps)


def _as_tolerance(A: Operator, tol: float | None) -> float:
    return max(1e-10, 100 * A.vectors.eps) if tol is None else as_positive("tol", tol)


class _Products:
    """Products with f(A), each by Lanczos with full reorthogonalisation until it no longer changes."""

    def __init__(self, A: Operator, f: Callable[[Floats], ArrayLike], max_steps: int, tol: float) -> None:
        self.A, self.f, self.max_steps, self.tol = A, f, max_steps, tol
        self.num_products = 0
        self.num_steps = 0
        self.change = 0.0
        """The largest relative change by the last step of a product."""

    def __call__(self, x: Array) -> Array:
        vectors = self.A.vectors
        length = self._norm(x)
        basis = [self._scaled(1.0 / length, vectors.copy(x))]
        alphas: list[float] = []
        betas: list[float] = []
        c, changes = np.empty(0), [np.inf, np.inf]
        while True:
            w = vectors.copy(product_of_copy(self.A.apply_within, vectors, basis[-1]))
            self.num_products += 1
            if self.num_products == 1:
                check_range(self.A, w)
            w, coefficients = self._orthogonalized(w, basis)
            alphas.append(float(coefficients[-1].real))
            scale = float(np.max(np.abs([*alphas, *betas])))
            if betas:
                above = coefficients[-2] if vectors.is_complex else coefficients[-2].real
                check_symmetry(above, betas[-1], self.A, names=("⟨v, A w⟩", "β"), scale=scale, rtol=tolerance(self.A))
            beta = self._norm(w)
            if not np.isfinite(beta):
                raise ValueError(
                    f"A @ x returned nan or inf at product {self.num_products}: the operator is not finite."
                )
            before, c = c, self._coefficients(alphas, betas)
            size = float(np.linalg.norm(c))
            changes.append(float(np.linalg.norm(c - np.pad(before, (0, 1)))) / size if size else np.inf)
            is_exact = beta <= _BREAKDOWN * vectors.eps * scale or len(basis) == self.A.bulk_dimension
            if is_exact or max(changes[-2:]) <= self.tol or len(basis) == self.max_steps:
                break
            betas.append(beta)
            basis.append(self._scaled(1.0 / beta, w))
        self.num_steps = max(self.num_steps, len(basis))
        self.change = max(self.change, 0.0 if is_exact or not size else changes[-1])
        y = self._scaled(length * c[0], vectors.copy(basis[0]))
        for coefficient, v in zip(c[1:], basis[1:], strict=True):
            y = vectors.axpy(vectors.from_host(np.asarray(length * coefficient)), v, y)
        return y

    def _coefficients(self, alphas: list[float], betas: list[float]) -> Floats:
        """Return f(T) e₁."""
        theta, Y = scipy.linalg.eigh_tridiagonal(np.array(alphas), np.array(betas))
        return np.asarray(Y @ (apply_function(self.f, np.asarray(theta, dtype=np.float64)) * Y[0]))

    def _orthogonalized(self, w: Array, basis: list[Array]) -> tuple[Array, NDArray[Any]]:
        """Return w orthogonal to the basis, twice for rounding, and its first coefficients."""
        first = np.zeros(len(basis), dtype=np.complex128)
        for times in range(2):
            for j, v in enumerate(basis):
                coefficient = self.A.vectors.dot(v, w)
                if times == 0:
                    first[j] = complex(self.A.vectors.to_host(coefficient))
                w = self.A.vectors.axpy(-coefficient, v, w)
        return w, first

    def _norm(self, x: Array) -> float:
        return float(self.A.vectors.to_host(self.A.vectors.norm(x)))

    def _scaled(self, a: float, x: Array) -> Array:
        return self.A.vectors.scale(self.A.vectors.from_host(np.asarray(a)), x)


def _orthonormal(A: Operator, columns: list[Array]) -> tuple[list[Array], NDArray[Any]]:
    """Return an orthonormal basis Q of the columns and the triangle R with columns = Q R (Gram–Schmidt, twice)."""
    vectors, basis = A.vectors, list[Array]()
    R = np.zeros((len(columns), len(columns)), dtype=np.complex128 if vectors.is_complex else np.float64)
    for j, y in enumerate(columns):
        size = float(vectors.to_host(vectors.norm(y)))
        for _ in range(2):
            for i, q in enumerate(basis):
                c = vectors.dot(q, y)
                R[i, j] += vectors.to_host(c)
                y = vectors.axpy(-c, q, y)
        rest = float(vectors.to_host(vectors.norm(y)))
        if rest <= max(_DEPENDENT, _BREAKDOWN * vectors.eps) * size:
            break
        R[j, j] = rest
        basis.append(vectors.scale(vectors.from_host(np.asarray(1.0 / rest)), y))
    return basis, R[: len(basis)]


def _inner(A: Operator, basis: list[Array], columns: list[Array]) -> NDArray[Any]:
    """Return all inner products of two lists of vectors."""
    found = np.array([[A.vectors.to_host(A.vectors.dot(q, x)) for x in columns] for q in basis])
    return found.reshape(len(basis), len(columns))


def _left_out(n: int, H: NDArray[Any], W: NDArray[Any], R: NDArray[Any], squares: Floats) -> Floats:
    """Return one estimate for every vector left out of the basis.

    H = QᴴBQ, W = QᴴΩ and BΩ = QR. Without the i-th vector the basis spans Q less the direction s in it, where s is
    orthogonal to all columns of R but the i-th: G = I − ssᴴ. What the vector ω says of the rest is scaled to the length
    that a random vector in the complement of the others has.
    """
    m, rank = len(squares), len(H)
    if rank < m:  # the basis has all of B: its trace is that of H
        return np.full(m, float(np.trace(H).real))
    S = np.linalg.inv(R).conj().T
    S = S / np.linalg.norm(S, axis=0)
    estimates = np.empty(m)
    for i in range(m):
        s, w, r = S[:, i], W[:, i], R[:, i]
        g = w - s * (s.conj() @ w)  # G w
        inside = (np.trace(H) - s.conj() @ H @ s).real
        outside = (w.conj() @ r - 2 * g.conj() @ r + g.conj() @ H @ g).real
        left = squares[i] - (w.conj() @ g).real
        estimates[i] = inside + outside * ((n - m + 1) / left if left > 1e-12 * squares[i] else 0.0)
    return estimates
