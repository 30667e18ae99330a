"""Products and time of `top_eigenpairs` against ARPACK (SciPy's eigsh), interleaved in one process.

    python benchmarks/top_eigenpairs.py [--tiny] [--goals] [--repeats N] [--json FILE]

Both get the matrix itself, or the same function, with the same rank and tolerance. ARPACK runs with its default basis
size (ncv) and as it was fastest in two rounds: with other sizes, and with all threads of BLAS or with one, as these
threads compete with torch's within a call. Its start vector is made beforehand, ours is in our time.
ARPACK does not look for further copies of multiple eigenvalues, so `trial=False` is the like-for-like figure; "wrong
values" counts those that are off by more than the tolerance, where the spectrum is known. Subspace iteration, the
paper's method, stops after 128 iterations ("at least"), converged or not. Problems of networks need torch and
scikit-learn.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from harness import Report, at_most, fastest, interleaved, options, peer, ratios
from numpy.typing import NDArray
from peers import Work, one_blas_thread

from specdens import as_operator, subspace_iteration, top_eigenpairs
from specdens._eigenpairs.result import preference

Floats = NDArray[np.float64]
_ARPACK = {"magnitude": "LM", "largest": "LA", "smallest": "SA", "both": "BE"}


@dataclass(frozen=True)
class Problem:
    """An operator for us and for ARPACK, what is asked of it, and its eigenvalues where they are known."""

    name: str
    ours: Any
    theirs: Any
    rank: int
    tol: float
    which: str = "magnitude"
    spectrum: Floats | None = None
    has_goal: bool = False

    @property
    def n(self) -> int:
        """The dimension."""
        return int(self.theirs.shape[0])


# -- problems --------------------------------------------------------------------------------------------------------


def planted(n: int, outliers: Floats, tol: float, *, has_goal: bool = False) -> Problem:
    """Return outliers on a bulk that is uniform on [-1, 1], as a sparse diagonal."""
    rng = np.random.default_rng(0)
    diagonal = rng.uniform(-1, 1, n)
    diagonal[rng.choice(n, len(outliers), replace=False)] = outliers
    A = sp.diags_array(diagonal).tocsr()
    name = f"outliers {outliers[0]:g}…{outliers[-1]:g}, n={n:.0e}, {tol:g}"
    return Problem(name, A, A, len(outliers), tol, spectrum=np.sort(diagonal), has_goal=has_goal)


def laplacian(m: int, which: str, rank: int) -> Problem:
    """Return the 2-D Laplacian on m × m points, most of whose eigenvalues are double."""
    T = sp.diags_array([-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1])
    A = (sp.kron(T, sp.eye_array(m)) + sp.kron(sp.eye_array(m), T)).tocsr()
    x = 2 - 2 * np.cos(np.arange(1, m + 1) * np.pi / (m + 1))
    return Problem(f"Laplacian {m}², {which}", A, A, rank, 1e-6, which, np.sort((x[:, None] + x).ravel()))


def random_symmetric(n: int, which: str, rank: int) -> Problem:
    """Return a Gaussian random symmetric matrix: no outliers, only the edge of a semicircle."""
    G = np.random.default_rng(1).standard_normal((n, n))
    S = (G + G.T) / np.sqrt(2 * n)
    return Problem(f"random symmetric {n}, {which}", S, S, rank, 1e-6, which, np.linalg.eigvalsh(S))


def trained(steps: int, width: int, dtype: str) -> tuple[Any, Any, Any]:
    """Return a network trained on scikit-learn's digits, with its data."""
    import torch
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    X, y = (torch.as_tensor(a) for a in load_digits(return_X_y=True))
    X = (X / 16).to(getattr(torch, dtype))
    sizes = [(64, width), (width, width), (width, 10)]
    layers = [layer for shape in sizes for layer in (torch.nn.Linear(*shape), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers[:-1]).to(X.dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(X), y).backward()
        optimizer.step()
    return model.eval(), X, y


def plain_hessian(steps: int, width: int) -> Problem:
    """Return the Hessian of a small network as a function on NumPy arrays: one backward pass per product."""
    import torch

    model, X, y = trained(steps, width, "float64")
    parameters = list(model.parameters())
    loss = torch.nn.functional.cross_entropy(model(X), y)
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, create_graph=True)])
    n = len(gradient)

    def matmul(x: Floats) -> Floats:
        there = torch.from_numpy(np.ascontiguousarray(x).reshape(-1))
        products = torch.autograd.grad(gradient, parameters, there, retain_graph=True)
        return torch.cat([p.flatten() for p in products]).numpy()

    theirs = sla.LinearOperator((n, n), matvec=matmul, dtype=np.float64)
    ours = as_operator(matmul, shape=n, dtype="float64")
    return Problem(f"Hessian of an MLP, p={n}, function, 0.001", ours, theirs, 10, 1e-3, has_goal=True)


def adapter_hessian(steps: int, width: int) -> Problem:
    """Return the Hessian of a larger network in float32, as the torch adapter makes it."""
    import specdens_torch as sdt
    import torch

    model, X, y = trained(steps, width, "float32")
    A = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (X, y)).Hess
    name = f"Hessian of an MLP, p={A.shape[0]}, adapter, 0.001"
    return Problem(name, A, A.to_scipy(), 10, 1e-3, has_goal=True)


# -- methods ---------------------------------------------------------------------------------------------------------


def arpack(problem: Problem, operator: Any, ncv: int | None) -> tuple[Floats, Floats]:
    """Return values and vectors of eigsh; the start vector is made beforehand."""
    v0 = _start(problem)
    return sla.eigsh(operator, k=problem.rank, which=_ARPACK[problem.which], tol=problem.tol, ncv=ncv, v0=v0)


_starts: dict[tuple[int, Any], Floats] = {}


def _start(problem: Problem) -> Floats:
    key = (problem.n, problem.theirs.dtype)
    if key not in _starts:
        _starts[key] = np.random.default_rng(0).standard_normal(problem.n).astype(problem.theirs.dtype)
    return _starts[key]


def arpack_products(problem: Problem, ncv: int | None) -> int:
    """Return how many products eigsh makes."""
    count, A = 0, sla.aslinearoperator(problem.theirs)

    def counted(x: Floats) -> Floats:
        nonlocal count
        count += 1
        return A.matvec(x)

    arpack(problem, sla.LinearOperator(A.shape, matvec=counted, dtype=A.dtype), ncv)
    return count


def ours(problem: Problem, *, trial: bool = True) -> Any:
    return top_eigenpairs(problem.ours, rank=problem.rank, which=problem.which, tol=problem.tol, trial=trial)


# -- figures ---------------------------------------------------------------------------------------------------------


def true_residual(problem: Problem, values: Floats, V: Any) -> float:
    """Return the largest ‖Av − θv‖ / |θ|, from fresh products."""
    V = np.asarray(V)
    norms = [np.linalg.norm(problem.theirs @ v - theta * v) for theta, v in zip(values, V.T, strict=True)]
    return float(np.max(np.array(norms) / np.abs(values)))


def num_wrong(problem: Problem, spectrum: Floats, values: Floats) -> int:
    """Return how many values differ from the known spectrum by more than the tolerance."""
    exact = np.sort(spectrum[preference(spectrum, problem.which)[: problem.rank]])
    return int(np.sum(np.abs(np.sort(values) - exact) > problem.tol * np.abs(exact)))


def rivals_of(problem: Problem) -> dict[str, tuple[Work, int | None]]:
    """Return ARPACK with every size of its basis, with BLAS's threads and with one, and that size."""
    sizes = {"default ncv": None} | {f"ncv={ncv}": ncv for ncv in (25, 30, 40)}
    found: dict[str, tuple[Work, int | None]] = {}
    for name, ncv in sizes.items():
        found[name] = (lambda ncv=ncv: arpack(problem, problem.theirs, ncv)), ncv
        if (limited := one_blas_thread(found[name][0])) is not None:
            found[f"{name}, one BLAS thread"] = limited, ncv
    return found


def compare(report: Report, problem: Problem, repeats: int) -> None:
    """Report one problem."""
    every = rivals_of(problem)
    best = fastest(interleaved({name: work for name, (work, _) in every.items()}, min(2, repeats)))
    rivals = {name: every[name] for name in dict.fromkeys(("default ncv", best))}
    work: dict[str, Work] = {"ours": lambda: ours(problem), "without trial": lambda: ours(problem, trial=False)}
    times = interleaved(work | {f"ARPACK, {name}": rival for name, (rival, _) in rivals.items()}, repeats)
    pairs, short = ours(problem), ours(problem, trial=False)
    goals = (at_most(1.3), at_most(1.0)) if problem.has_goal else (None, None)
    for name, (_, ncv) in rivals.items():
        products, theirs = arpack_products(problem, ncv), times[f"ARPACK, {name}"]
        against = f"ARPACK, {name} ({products} products)"
        report.add(problem.name, f"products / {against}", pairs.num_products / products, goal=goals[0])
        report.add(problem.name, f"time / {against}", ratios(times["ours"], theirs), goal=goals[1])
        without = f"without trial ({short.num_products} products), time / ARPACK, {name}"
        report.add(problem.name, without, ratios(times["without trial"], theirs))
    report.add_times(problem.name, times, "ms", 1e3)
    quickest = fastest({name: times[f"ARPACK, {name}"] for name in rivals})
    theirs = arpack(problem, problem.theirs, rivals[quickest][1])
    found = {"ours": (pairs.values, pairs.vectors), "without trial": (short.values, short.vectors), "ARPACK": theirs}
    check(report, problem, found)
    if problem.which == "magnitude":
        compare_subspace(report, problem, pairs.num_products)


def compare_subspace(report: Report, problem: Problem, num_products: int) -> None:
    """Report how many times our products subspace iteration makes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slow = subspace_iteration(problem.ours, rank=problem.rank, tol=problem.tol)
    least = "" if slow.converged.all() else ", at least"
    report.add(problem.name, f"products of subspace iteration / ours{least}", slow.num_products / num_products)


def check(report: Report, problem: Problem, found: dict[str, tuple[Floats, Any]]) -> None:
    """Report the residuals and, where the spectrum is known, the values that are wrong."""
    for name, (values, V) in found.items():
        report.add(problem.name, f"residual / tolerance, {name}", true_residual(problem, values, V) / problem.tol)
        if problem.spectrum is not None:
            report.add(problem.name, f"wrong values, {name}", num_wrong(problem, problem.spectrum, values))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--goals", action="store_true", help="only the problems that have a goal")
    arguments = parser.parse_args()
    tiny, repeats = arguments.tiny, 1 if arguments.tiny else arguments.repeats
    n, m, size = (10_000, 20, 200) if tiny else (1_000_000, 40, 800)
    report = Report(__file__, arguments)
    compare(report, planted(n, np.linspace(2, 20, 10), 1e-6, has_goal=True), repeats)
    if None not in (peer("torch"), peer("sklearn.datasets")):
        compare(report, plain_hessian(*((100, 16) if tiny else (500, 32))), repeats)
        compare(report, adapter_hessian(*((100, 16) if tiny else (300, 300))), repeats)
    if not arguments.goals:
        compare(report, planted(n, np.linspace(2, 20, 10), 1e-3), repeats)
        compare(report, planted(n // 10, np.linspace(1.2, 2, 10), 1e-6), repeats)
        for which in _ARPACK:
            compare(report, random_symmetric(size, which, 10), repeats)
            compare(report, laplacian(m, which, 10), repeats)
    report.write()


if __name__ == "__main__":
    main()
