"""SubspaceIteration of the paper, with Rayleigh–Ritz."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from specdens._eigenpairs.result import EigenPairs, check_finite, denominators, warn_unconverged
from specdens._operators.base import Operator
from specdens._operators.consistency import check_range, check_symmetry, tolerance
from specdens._operators.convert import as_operator
from specdens._operators.products import product_of_copy
from specdens._running.monitor import Monitor, Snapshot, Stage
from specdens._running.three_term_state import checked_vectors
from specdens._validate import as_count, as_positive, as_seed
from specdens._vectors.base import Array
from specdens._vectors.probes import FIRST_EIGEN_PROBE, probe_block


def subspace_iteration(
    A: Any,
    *,
    rank: int,
    num_iters: int = 128,
    tol: float = 1e-3,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> EigenPairs:
    r"""Return the eigenpairs of largest magnitude by subspace iteration, the paper's algorithm.

    Every iteration multiplies a block of `rank` orthonormal vectors, Q ← qr(A Q). A pair converges by the factor
    \|λ_{rank+1} / λᵢ\| per iteration, and one iteration costs `rank` products: `top_eigenpairs` gives the same answer
    for far fewer products. Memory: four blocks of `rank` vectors.

    Parameters
    ----------
    A : OperatorLike
        Anything that `as_operator` takes; Hermitian.
    rank : int
        How many pairs: the C outliers of a classifier with C classes.
    num_iters : int, default 128
        At most so many iterations, of `rank` products each.
    tol : float, default 1e-3
        The relative residual at which iterations stop: ‖Av − θv‖ ≤ tol · \|θ\| for every pair.
    seed : int, default 0
        The start vectors are a function of (seed, column).
    monitor : Monitor, optional
        Progress and checkpoints, as for `fast_lanczos`.

    Returns
    -------
    EigenPairs
        Ordered by descending magnitude, with signs. The residuals are computed from the vectors and their products.

    Raises
    ------
    ValueError
        If `rank` exceeds the dimension, or a product is not finite.

    Notes
    -----
    [Papyan 2019, Algorithm 5] returns ‖A v‖ as the eigenvalue, which turns −10 into +10; Rayleigh–Ritz on QᴴAQ keeps
    the sign, separates eigenvalues of nearly equal magnitude and gives the residuals [Saad 2011, §5].

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> pairs = sd.subspace_iteration(np.diag([1.0, -10.0, 3.0, 0.5]), rank=2)
    >>> pairs.values.round(3).tolist()
    [-10.0, 3.0]
    """
    A = as_operator(A)
    seed = as_seed(seed)
    rank = as_count("rank", rank, maximum=A.bulk_dimension)
    _check_whole(A)
    num_iters = as_count("num_iters", num_iters)
    tol = as_positive("tol", tol)
    settings = {"rank": rank, "tol": tol, "seed": seed}
    with (monitor or Monitor()).stage("subspace_iteration", A, settings, total=num_iters * rank) as stage:
        pairs = _iterate(A, rank, num_iters, tol, seed, stage)
    warn_unconverged(
        pairs,
        tol=tol,
        remedy="Raise `num_iters` or `tol`, lower `rank`, or use `top_eigenpairs`, which converges faster.",
    )
    return pairs


def _check_whole(A: Operator) -> None:
    """Refuse vectors of which this process has only some rows: QR takes whole ones."""
    if A.vectors.whole_length(A.shape[0]) != A.shape[0]:
        raise TypeError("`A` must not be distributed over processes for subspace_iteration; use top_eigenpairs")


def _iterate(A: Operator, rank: int, num_iters: int, tol: float, seed: int, stage: Stage) -> EigenPairs:
    start = time.perf_counter()
    vectors = A.vectors
    first, AV = _begin(A, rank, seed, num_iters, stage)
    for iteration in range(first, num_iters + 1):  # SubspaceIteration, lines 5 to 7
        # what an iteration begins with is all there is to save: the last one is done again after a resumption
        begun = {"iteration": partial(np.asarray, iteration), "AV": partial(vectors.to_host, AV)}
        stage.after_step((iteration - 1) * rank, partial(Snapshot, begun))
        Q = vectors.orthonormalize(AV)  # lines 4 and 7: Q ← QR(V)
        AQ = product_of_copy(A.__matmul__, vectors, Q)  # line 6: V ← A Q
        # lines 8 and 9 have λ_c = ‖v_c‖, which loses signs; here Rayleigh–Ritz on QᴴAQ, in every iteration
        if iteration == first:
            check_range(A, AQ)
        theta, Y, largest = _rayleigh_ritz(A, Q, AQ, iteration * rank)
        V, AV = vectors.combine(Q, Y), vectors.combine(AQ, Y)
        scales = denominators(theta, largest, vectors.eps)
        residuals = _residual_norms(A, V, AV, theta) / scales
        if (residuals <= tol).all():
            break
    stage.save()
    seconds = time.perf_counter() - start
    return EigenPairs(
        theta, V, residuals, residuals <= tol, iteration * rank, seconds, notes=stage.notes, scales=scales
    )


def _begin(A: Operator, rank: int, seed: int, num_iters: int, stage: Stage) -> tuple[int, Array]:
    """Return the number of the first iteration and the block it begins with."""
    if stage.saved:
        with stage.restoring():
            iteration, AV = int(stage.read("iteration")), checked_vectors(A, stage.read("AV"))
            if AV.shape != (A.shape[0], rank) or iteration < 1:
                raise ValueError(f"a block of shape {AV.shape} in iteration {iteration}")
        if iteration <= num_iters:
            return iteration, A.vectors.from_host(AV)
    return 1, probe_block(A.vectors, A.shape[0], range(FIRST_EIGEN_PROBE, FIRST_EIGEN_PROBE + rank), seed)


def _rayleigh_ritz(A: Operator, Q: Array, AQ: Array, num_products: int) -> tuple[Any, Array, float]:
    """Return the Ritz values by descending magnitude, their coefficients on the device, and the largest magnitude."""
    vectors = A.vectors
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is reported below
        T = vectors.to_host(vectors.coefficients(Q, AQ))
    finite = np.isfinite(T).all(axis=0)
    check_finite(bool(finite.all()), num_products - len(finite) + 1 + int(np.argmin(finite)))
    names, scale = ("⟨v, A w⟩", "⟨A v, w⟩"), float(np.abs(T).max())
    check_symmetry(T, T.conj().T, A, names=names, scale=scale, rtol=tolerance(A))
    theta, Y = np.linalg.eigh((T + T.conj().T) / 2)
    order = np.argsort(-np.abs(theta), kind="stable")
    theta, Y = theta[order], Y[:, order]
    return theta, vectors.from_host(Y, vectors.wide), float(abs(theta[0]))


def _residual_norms(A: Operator, V: Array, AV: Array, theta: Any) -> Any:
    """Return ‖A v − θ v‖ of every column."""
    vectors = A.vectors
    R = vectors.axpy(vectors.from_host(-theta), V, vectors.copy(AV))
    return np.asarray(vectors.to_host(vectors.norm(R)), dtype=np.float64)
