"""What a Lanczos run leaves behind: the measure from which everything a person looks at is derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from specdens._atoms import Atoms
from specdens._bounds import Interval, measure_bounds
from specdens._cdf import Cdf, Floats, mixture, wasserstein
from specdens._chebyshev import chebyshev_density, moments_of_tridiagonal
from specdens._density import Density, edges_around, on_grid
from specdens._draw import adaptive_density, gaussian_density
from specdens._errors import as_choice, as_count
from specdens._lanczos import Recurrence
from specdens._operators import Operator
from specdens._readings import Readings, common_settings
from specdens._refine import refined_slabs
from specdens._rules import Rule

# The interval is chosen when the spectrum is known: room for rounding, and for an edge that has not converged.
_CHEBYSHEV_MARGIN = 1e-3

KERNELS = ("gaussian", "jackson", "lorentz", "dirichlet", "adaptive")


class Convergence(NamedTuple):
    """How far a measure is from its limit, in W1 divided by the width of the spectrum."""

    steps: float
    """Between half of the steps and all of them: what more steps can still change is less."""
    probes: float
    """The mean over probes of the distance to the others; nan for a single probe."""
    sampling: float
    """The expected distance between this measure and the eigenvalues' own, as far as the probes are to blame."""
    bound: float
    """The Chebyshev–Markov–Stieltjes bound on the quadrature error of the raw nodes and weights."""


@dataclass(frozen=True, eq=False, repr=False)
class SpectralMeasure(Readings):
    """The spectral measure of an operator, seen by one or more probes.

    Made by `fast_lanczos` and `slow_lanczos`. Holds the coefficients of the recurrence; nodes, weights and all that
    is read or drawn from them cost no further product.
    """

    alphas: tuple[Floats, ...]
    """Per probe the diagonal α₁, …, α_M of T."""
    betas: tuple[Floats, ...]
    """Per probe the off-diagonal β₁, …, β_{M−1} of T."""
    last_betas: Floats
    """Per probe β_M, which couples to the next vector; 0 where the recurrence ended because T is exact."""
    dimension: int
    bulk_dimension: int
    known_atoms: Atoms
    dtype: str
    probes: str
    seed: int
    block_size: int
    method: str
    num_products: int
    seconds: float
    runs: tuple[Recurrence, ...] = ()
    exact_probes: tuple[bool, ...] | None = None
    """Which probes are exact, where that is known from a longer run."""

    @classmethod
    def from_runs(
        cls,
        A: Operator,
        runs: Sequence[Recurrence],
        *,
        method: str,
        probes: str,
        seed: int,
        block_size: int,
        num_products: int,
        seconds: float,
    ) -> SpectralMeasure:
        """Collect the coefficients of finished recurrences."""
        probe_runs = [(run, j) for run in runs for j in range(len(run.indices))]
        return cls(
            alphas=tuple(np.array(run.alphas[j]) for run, j in probe_runs),
            betas=tuple(np.array(run.betas[j][:-1]) for run, j in probe_runs),
            last_betas=np.array([run.betas[j][-1] if run.active[j] else 0.0 for run, j in probe_runs]),
            dimension=A.dimension,
            bulk_dimension=A.bulk_dimension,
            known_atoms=A.known_atoms,
            dtype=A.vectors.name,
            probes=probes,
            seed=seed,
            block_size=block_size,
            method=method,
            num_products=num_products,
            seconds=seconds,
            runs=tuple(runs),
        )

    # -- the quadrature rule of every probe ----------------------------------------------------------------------

    @property
    def num_probes(self) -> int:
        return len(self.alphas)

    @property
    def num_steps(self) -> int:
        """The largest number of steps that a probe has made."""
        return max((alphas.size for alphas in self.alphas), default=0)

    @cached_property
    def _decompositions(self) -> tuple[tuple[Floats, Floats, Floats], ...]:
        return tuple(
            _decompose(*coefficients) for coefficients in zip(self.alphas, self.betas, self.last_betas, strict=True)
        )

    @property
    def nodes(self) -> tuple[Floats, ...]:
        """Per probe the Ritz values, increasing. Their number means nothing: converged ones return as ghosts."""
        return tuple(nodes for nodes, _, _ in self._decompositions)

    @property
    def weights(self) -> tuple[Floats, ...]:
        """Per probe the weights of the nodes: the squared first components of T's eigenvectors, of sum 1."""
        return tuple(weights for _, weights, _ in self._decompositions)

    @property
    def residuals(self) -> tuple[Floats, ...]:
        """Per probe and node the norm of (A − θ)y for the Ritz vector y, which bounds the distance to an eigenvalue."""
        return tuple(residuals for _, _, residuals in self._decompositions)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(
            Rule(nodes, weights, np.maximum(residuals, exact * self._noise(nodes)), exact)
            for (nodes, weights, residuals), exact in zip(self._decompositions, self._exact, strict=True)
        )

    @cached_property
    def _exact(self) -> tuple[bool, ...]:
        """Which probes have found an invariant subspace; what is made by leaving steps out goes by the whole."""
        if self.exact_probes is not None:
            return self.exact_probes
        return tuple(
            bool(last == 0) or (self.method != "kpm" and _converged(*decomposition, self.eps))
            for decomposition, last in zip(self._decompositions, self.last_betas, strict=True)
        )

    def _noise(self, nodes: Floats) -> float:
        """Return how far rounding may have moved the nodes of an exact rule."""
        return 30 * self.eps * float(np.max(np.abs(nodes), initial=0.0))

    @cached_property
    def probe_cdfs(self) -> tuple[Cdf, ...]:
        return tuple(
            Cdf.of_atoms(rule.nodes, rule.weights)
            if rule.exact
            else Cdf.of_slabs(*refined_slabs(rule.nodes, rule.weights, rule.residuals, eps=self.eps))
            for rule in self.rules
        )

    def bounds(self, *, margin: float = 0.0) -> Interval:
        """Return an interval that contains the spectrum outside the known atoms.

        Parameters
        ----------
        margin
            What is added at either end, as a share of the width.
        """
        interval = measure_bounds(self)
        return interval.widened(margin) if margin else interval

    # -- pictures --------------------------------------------------------------------------------------------------

    def density(
        self,
        num_points: int = 1024,
        kernel: Literal["gaussian", "jackson", "lorentz", "dirichlet", "adaptive"] = "gaussian",
        kappa: float = 1.25,
        grid: ArrayLike | None = None,
    ) -> Density:
        """Draw the density of the eigenvalues.

        Parameters
        ----------
        num_points
            The number of cells of the default grid, which covers the spectrum with a margin.
        kernel
            "gaussian" (bumps of one width at the nodes), "jackson", "lorentz" or "dirichlet" (the kernel polynomial
            method on the moments of the same run), "adaptive" (Gaussian bumps as wide as the nodes are apart).
        kappa
            The width of the bumps of the kernel "gaussian": larger is narrower. The paper's text has 3, which draws a
            comb; its authors' code 1.25.
        grid
            Increasing points around which to draw instead, each standing for the cell half way to its neighbours.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> density = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 1000))).density()
        >>> round(density.mass() + density.mass_outside, 12)
        1.0
        """
        as_choice("kernel", kernel, KERNELS)
        edges = None if grid is None else edges_around(grid)
        if kernel == "gaussian":
            return on_grid(gaussian_density(self, num_points=num_points, kappa=kappa, edges=edges), grid)
        if kernel == "adaptive":
            return on_grid(adaptive_density(self, num_points=num_points, edges=edges), grid)
        interval = self.bounds(margin=_CHEBYSHEV_MARGIN)
        smooth = [(a, b) for a, b, rule in zip(self.alphas, self.betas, self.rules, strict=True) if not rule.exact]
        num_moments = 2 * min((alphas.size for alphas, _ in smooth), default=1)  # exact for the shortest probe too
        mus = [moments_of_tridiagonal(alphas, betas, interval, num_moments) for alphas, betas in smooth]
        moments = np.array(mus).reshape(len(mus), num_moments)
        drawn = chebyshev_density(self, moments, interval, kernel, num_points=num_points, edges=edges)
        return on_grid(drawn, grid)

    # -- has it converged? ---------------------------------------------------------------------------------------

    def truncated(self, num_steps: int) -> SpectralMeasure:
        """Return the measure as it was after the first `num_steps` steps."""
        num_steps = as_count("num_steps", num_steps)
        return self._with_lengths([min(num_steps, alphas.size) for alphas in self.alphas])

    def within(self, num_steps: int, num_probes: int) -> SpectralMeasure:
        """Return the part of the measure that a run of fewer steps or probes would have given."""
        if self.num_probes <= num_probes and self.num_steps <= num_steps:
            return self
        part = replace(
            self,
            alphas=self.alphas[:num_probes],
            betas=self.betas[:num_probes],
            last_betas=self.last_betas[:num_probes],
            runs=(),
        )
        return part.truncated(num_steps)

    def shortened(self, cut: Callable[[int], int]) -> SpectralMeasure:
        sizes = [alphas.size for alphas in self.alphas]
        lengths = tuple(m if exact else max(1, cut(m)) for m, exact in zip(sizes, self._exact, strict=True))
        if lengths not in self._shortened:
            self._shortened[lengths] = replace(self._with_lengths(lengths), exact_probes=self._exact)
        return self._shortened[lengths]

    @cached_property
    def _shortened(self) -> dict[tuple[int, ...], SpectralMeasure]:
        return {}

    def _with_lengths(self, lengths: Sequence[int]) -> SpectralMeasure:
        last_betas = [
            last if m == betas.size + 1 else betas[m - 1]
            for betas, last, m in zip(self.betas, self.last_betas, lengths, strict=True)
        ]
        return replace(
            self,
            alphas=tuple(alphas[:m] for alphas, m in zip(self.alphas, lengths, strict=True)),
            betas=tuple(betas[: m - 1] for betas, m in zip(self.betas, lengths, strict=True)),
            last_betas=np.array(last_betas),
            runs=(),
            exact_probes=None,
        )

    def convergence(self) -> Convergence:
        """Return how far the measure is from its limit, as shares of the width of the spectrum.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> A = np.diag(np.linspace(-1, 1, 1000))
        >>> sd.fast_lanczos(A, num_steps=40).convergence().steps < 0.01
        True
        """
        width = self.bounds().width
        if not self.alphas or width == 0:
            return Convergence(0.0, float("nan"), 0.0, 0.0)
        half = self.shortened(lambda k: k // 2)
        cdfs = self.probe_cdfs
        between = (
            [wasserstein(cdf, mixture(_others(cdfs, j))) for j, cdf in enumerate(cdfs)] if len(cdfs) > 1 else [np.nan]
        )
        return Convergence(
            steps=wasserstein(half.bulk_cdf, self.bulk_cdf) / width,
            probes=float(np.mean(between)) / width,
            sampling=self.sampling_distance() / width,
            bound=float(np.mean([_quadrature_bound(rule, self.bounds()) for rule in self.rules])) / width,
        )

    @property
    def settings(self) -> dict[str, Any]:
        return {
            **common_settings(self),
            "method": self.method,
            "num_steps": self.num_steps,
        }

    def __repr__(self) -> str:
        return (
            f"SpectralMeasure({self.method}, dimension={self.dimension}, probes={self.num_probes} {self.probes}, "
            f"steps={self.num_steps}, products={self.num_products}, {self.dtype})"
        )


def _decompose(alphas: Floats, betas: Floats, last_beta: float) -> tuple[Floats, Floats, Floats]:
    """Return nodes, weights and residuals of one probe."""
    # divide and conquer, SciPy's default since 1.16; the one before (MRRR) fails on some T with many ghosts
    decomposition = scipy.linalg.eigh_tridiagonal(alphas, betas)
    nodes, vectors = (np.asarray(part, dtype=np.float64) for part in decomposition)
    weights = vectors[0] ** 2
    return nodes, weights / weights.sum(), last_beta * np.abs(vectors[-1])


def _converged(nodes: Floats, weights: Floats, residuals: Floats, eps: float) -> bool:
    """Return whether all mass sits at isolated eigenvalues: an invariant subspace that rounding hid.

    Nodes within reach of each other are copies of one eigenvalue, and must agree to three quarters of the digits.
    """
    heavy = weights > 100 * np.finfo(np.float64).eps
    theta, r = nodes[heavy], residuals[heavy]
    reach = np.maximum(r[1:] + r[:-1], 1e3 * eps * np.max(np.abs(theta)))
    starts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(theta) > reach)])
    ends = np.append(starts[1:], theta.size) - 1
    # eps^¾: room for what the steps make of rounding, and still far below what the precision can resolve
    extents = theta[ends] - theta[starts] + np.maximum.reduceat(r, starts)
    gaps = np.min(theta[starts[1:]] - theta[ends[:-1]], initial=np.inf)
    return bool(np.max(extents) <= min(eps**0.75 * np.max(np.abs(theta)), 1e-3 * gaps))


def _others(cdfs: Sequence[Cdf], j: int) -> list[tuple[float, Cdf]]:
    return [(1.0 / (len(cdfs) - 1), cdf) for i, cdf in enumerate(cdfs) if i != j]


def _quadrature_bound(rule: Rule, interval: Interval) -> float:
    """Return Σ max(ω_j, ω_{j+1})(θ_{j+1} − θ_j), the ends of the spectrum included (Chebyshev–Markov–Stieltjes)."""
    if rule.exact:
        return 0.0
    nodes = np.concatenate([[interval.lo], rule.nodes, [interval.hi]])
    weights = np.concatenate([[0.0], rule.weights, [0.0]])
    return float(np.sum(np.maximum(weights[:-1], weights[1:]) * np.diff(nodes)))
