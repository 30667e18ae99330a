"""Lanczos steps of the peers, each at its best, and as one would write them in NumPy.

A function returned here makes further steps of recurrences that have begun, as ours do, or, where a peer makes whole
runs only, such runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.linalg.blas
import scipy.sparse.linalg
from harness import peer

from specdens._vectors.threads import num_threads

Work = Callable[[], object]


def start(n: int, dtype: Any, num_probes: int = 1) -> Any:
    """Return unit vectors: of shape (n,), or the columns of a block."""
    x = np.random.default_rng(0).standard_normal((n, num_probes)).astype(dtype)
    x /= np.linalg.norm(x, axis=0)
    return x[:, 0].copy() if num_probes == 1 else x


def one_blas_thread(work: Work) -> Work | None:
    """Return the same work with BLAS limited to one thread, or None without threadpoolctl.

    The libraries are looked up here, once; the limit is set and lifted once for each call.
    """
    if (threadpoolctl := peer("threadpoolctl")) is None:
        return None
    controller = threadpoolctl.ThreadpoolController()

    def limited() -> None:
        with controller.limit(limits=1, user_api="blas"):
            work()

    return limited


def run_in_threads(runs: Sequence[Work]) -> Work | None:
    """Return a function that makes all runs at once, each in a thread of Python, with BLAS limited to one thread."""
    threads = ThreadPoolExecutor(len(runs))
    return one_blas_thread(lambda: list(threads.map(lambda run: run(), runs)))


def textbook_steps(product: Callable[[Any], Any], n: int, dtype: Any, num_steps: int) -> Work:
    """Return Lanczos as in a textbook: every line makes its temporaries."""
    v, v_prev, beta = start(n, dtype), np.zeros(n, dtype), 0.0

    def steps() -> None:
        nonlocal v, v_prev, beta
        for _ in range(num_steps):
            w = product(v) - beta * v_prev
            alpha = v @ w
            w = w - alpha * v
            beta = np.linalg.norm(w)
            v_prev, v = v, w / beta

    return steps


def blas_steps(product: Callable[[Any], Any], n: int, dtype: Any, num_steps: int) -> Work:
    """Return Lanczos with in-place BLAS, which has threads of its own; nrm2 has none, and dot is faster.

    In float32 the inner products accumulate in float32: faster, and less accurate, than ours.
    """
    axpy, dot, scal = scipy.linalg.blas.get_blas_funcs(("axpy", "dot", "scal"), dtype=np.dtype(dtype))
    v, v_prev, beta = start(n, dtype), np.zeros(n, dtype), 0.0

    def steps() -> None:
        nonlocal v, v_prev, beta
        for _ in range(num_steps):
            w = product(v)
            if axpy(v_prev, w, a=-beta) is not w:
                raise RuntimeError("BLAS has made a copy")
            axpy(v, w, a=-dot(v, w))
            beta = float(np.sqrt(dot(w, w)))
            scal(1 / beta, w)
            v_prev, v = v, w

    return steps


def inplace_block_steps(A: Any, num_probes: int, num_steps: int) -> Work:
    """Return Lanczos on a block with SciPy's block product, in place but for one temporary, reused."""
    v = start(A.shape[0], A.dtype, num_probes)
    v_prev, scratch, beta = np.zeros_like(v), np.empty_like(v), np.zeros(num_probes, A.dtype)

    def steps() -> None:
        nonlocal v, v_prev, beta
        for _ in range(num_steps):
            w = A @ v
            w -= np.multiply(v_prev, beta, out=scratch)
            w -= np.multiply(v, np.einsum("ij,ij->j", v, w), out=scratch)
            beta = np.sqrt(np.einsum("ij,ij->j", w, w))
            w /= beta
            v_prev, v = v, w

    return steps


def torch_steps(torch: Any, product: Callable[[Any], Any], n: int, dtype: Any, num_steps: int) -> Work:
    """Return Lanczos with torch's in-place operations, which have threads of their own."""
    v = torch.from_numpy(start(n, dtype))
    v_prev, beta = torch.zeros_like(v), 0.0

    def steps() -> None:
        nonlocal v, v_prev, beta
        for _ in range(num_steps):
            w = product(v)
            w.sub_(v_prev, alpha=beta)
            w.sub_(v, alpha=float(torch.dot(v, w)))
            beta = float(torch.dot(w, w)) ** 0.5
            w.mul_(1 / beta)
            v_prev, v = v, w

    return steps


def primate_runs(primate_lanczos: Any, A: Any, num_probes: int, num_steps: int) -> Work:
    """Return runs of primate, which is fastest on a `LinearOperator`, with contiguous start vectors.

    It has no threads; several probes run in threads of Python.
    """
    operator = scipy.sparse.linalg.aslinearoperator(A)
    v = start(A.shape[0], A.dtype)

    def run(_: int) -> None:
        primate_lanczos.lanczos(operator, v0=v, deg=num_steps, rtol=0.0, orth=0, dtype=A.dtype)

    def runs() -> None:
        if num_probes == 1:
            run(0)
        else:
            with ThreadPoolExecutor(num_threads()) as threads:
                list(threads.map(run, range(num_probes)))

    return runs


def imate_run(imate: Any, A: Any, num_probes: int, num_steps: int) -> Work:
    """Return stochastic Lanczos quadrature of imate: tr A, as the cheapest function, all threads, fixed numbers."""

    def run() -> None:
        imate.trace(
            A, p=1.0, method="slq", min_num_samples=num_probes, max_num_samples=num_probes, error_rtol=1e-30,
            lanczos_degree=num_steps, lanczos_tol=0.0, orthogonalize=0, num_threads=num_threads(), seed=0,
        )  # fmt: skip

    return run
