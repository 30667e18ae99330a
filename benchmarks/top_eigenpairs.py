"""Products and time of `top_eigenpairs` and `subspace_iteration` against ARPACK (SciPy's eigsh), in one process.

    python benchmarks/top_eigenpairs.py [--tiny]

Every method gets the same operator, rank and tolerance. "wrong" counts the values that are off by more than the
tolerance, where the spectrum is known: ARPACK stops with the wrong copies of multiple eigenvalues. Subspace iteration
stops after 128 iterations, converged or not.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from specdens import as_operator, subspace_iteration, top_eigenpairs
from specdens._top_eigenpairs import preference

Floats = NDArray[np.float64]
_ARPACK = {"magnitude": "LM", "largest": "LA", "smallest": "SA", "both": "BE"}


@dataclass(frozen=True)
class Problem:
    """An operator, what is asked of it, and its eigenvalues where they are known."""

    name: str
    matmul: Callable[[Any], Any]
    n: int
    rank: int
    tol: float
    which: str = "magnitude"
    spectrum: Floats | None = None


def planted(n: int, outliers: Floats, tol: float, name: str) -> Problem:
    """Return outliers on a bulk that is uniform on [-1, 1], as a sparse diagonal."""
    rng = np.random.default_rng(0)
    diagonal = rng.uniform(-1, 1, n)
    diagonal[rng.choice(n, len(outliers), replace=False)] = outliers
    A = sp.diags_array(diagonal).tocsr()
    return Problem(f"{name}, n={n:.0e}", A.__matmul__, n, len(outliers), tol, spectrum=np.sort(diagonal))


def laplacian(m: int, which: str, rank: int) -> Problem:
    """Return the 2-D Laplacian on m × m points, most of whose eigenvalues are double."""
    T = sp.diags_array([-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1])
    A = (sp.kron(T, sp.eye_array(m)) + sp.kron(sp.eye_array(m), T)).tocsr()
    x = 2 - 2 * np.cos(np.arange(1, m + 1) * np.pi / (m + 1))
    return Problem(
        f"Laplacian {m}², {which}", A.__matmul__, m * m, rank, 1e-6, which, np.sort((x[:, None] + x).ravel())
    )


def random_symmetric(n: int, which: str, rank: int) -> Problem:
    """Return a Gaussian random symmetric matrix: no outliers, only the edge of a semicircle."""
    G = np.random.default_rng(1).standard_normal((n, n))
    S = (G + G.T) / np.sqrt(2 * n)
    return Problem(f"random symmetric {n}, {which}", S.__matmul__, n, rank, 1e-6, which, np.linalg.eigvalsh(S))


def network_hessian(steps: int, width: int) -> Problem:
    """Return the Hessian of a small network trained on scikit-learn's digits."""
    import torch
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    X, y = (torch.as_tensor(a) for a in load_digits(return_X_y=True))
    X = X.double() / 16
    model = torch.nn.Sequential(
        torch.nn.Linear(64, width),
        torch.nn.Tanh(),
        torch.nn.Linear(width, width),
        torch.nn.Tanh(),
        torch.nn.Linear(width, 10),
    ).double()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.2, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(X), y).backward()
        optimizer.step()
    loss = torch.nn.functional.cross_entropy(model(X), y)
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, create_graph=True)])

    def matmul(x: Floats) -> Floats:
        products = torch.autograd.grad(
            gradient, parameters, torch.from_numpy(np.ascontiguousarray(x)), retain_graph=True
        )
        return torch.cat([p.flatten() for p in products]).numpy()

    return Problem(f"Hessian of an MLP, p={len(gradient)}", matmul, len(gradient), 10, 1e-3)


def arpack(problem: Problem) -> tuple[Floats, float, int, float]:
    """Return values, largest residual, products and seconds of eigsh."""
    count = 0

    def counted(x: Floats) -> Floats:
        nonlocal count
        count += 1
        return problem.matmul(x.ravel())

    operator = sla.LinearOperator((problem.n, problem.n), matvec=counted, dtype=np.float64)
    v0 = np.random.default_rng(0).standard_normal(problem.n)
    start = time.perf_counter()
    values, V = sla.eigsh(operator, k=problem.rank, which=_ARPACK[problem.which], tol=problem.tol, v0=v0)
    seconds, products = time.perf_counter() - start, count
    return values, true_residual(problem, values, V), products, seconds


def true_residual(problem: Problem, values: Floats, V: Floats) -> float:
    """Return the largest ‖Av − θv‖ / |θ|, from fresh products."""
    norms = [np.linalg.norm(problem.matmul(v) - theta * v) for theta, v in zip(values, V.T, strict=True)]
    return float(np.max(np.array(norms) / np.abs(values)))


def num_wrong(problem: Problem, values: Floats) -> str:
    """Return how many values differ from the known spectrum by more than the tolerance."""
    if problem.spectrum is None:
        return "?"
    exact = np.sort(problem.spectrum[preference(problem.spectrum, problem.which)[: problem.rank]])
    return str(int(np.sum(np.abs(np.sort(values) - exact) > problem.tol * np.abs(exact))))


def report(problem: Problem) -> None:
    """Print one row."""
    values, residual, products, seconds = arpack(problem)
    A = as_operator(problem.matmul, shape=problem.n, dtype="float64")
    ours = top_eigenpairs(A, rank=problem.rank, which=problem.which, tol=problem.tol)
    paper = "-"
    if problem.which == "magnitude":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs = subspace_iteration(A, rank=problem.rank, tol=problem.tol)
        paper = f"{pairs.num_products}{'' if pairs.converged.all() else '+'}"
    print(
        f"{problem.name:33} {ours.num_products:6} {products:6} {ours.num_products / products:6.2f} {paper:>8} "
        f"{ours.seconds / seconds:6.2f} {true_residual(problem, ours.values, np.asarray(ours.vectors)):9.1e} "
        f"{residual:9.1e} {num_wrong(problem, ours.values):>6} {num_wrong(problem, values):>6}",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small problems, for continuous integration")
    tiny = parser.parse_args().tiny
    n, m, size = (10_000, 20, 200) if tiny else (1_000_000, 40, 800)
    print(f"{'':33} {'products':>20} {'subspace':>8} {'time':>6} {'residual':>19} {'wrong':>13}")
    print(
        f"{'problem':33} {'ours':>6} {'ARPACK':>6} {'ratio':>6} {'iter.':>8} {'ratio':>6} {'ours':>9} {'ARPACK':>9} ",
        end="",
    )
    print(f"{'ours':>6} {'ARPACK':>6}")
    report(network_hessian(*((100, 16) if tiny else (500, 32))))
    report(planted(n, np.linspace(2, 20, 10), 1e-6, "outliers 2…20"))
    report(planted(n, np.linspace(2, 20, 10), 1e-3, "outliers 2…20"))
    report(planted(n // 10, np.linspace(1.2, 2, 10), 1e-6, "outliers 1.2…2"))
    for which in _ARPACK:
        report(random_symmetric(size, which, 10))
        report(laplacian(m, which, 10))


if __name__ == "__main__":
    main()
