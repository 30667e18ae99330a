"""`ChebyshevMoments`: the moments that the kernel polynomial method leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike

from specdens._chebyshev.moments import jacobi_of_moments
from specdens._density.density import Density
from specdens._deprecation import deprecate_positional
from specdens._distributions.atoms import Atoms
from specdens._distributions.cdf import Cdf, Floats
from specdens._distributions.interval import Interval
from specdens._measure.base import Measure
from specdens._measure.convergence import Convergence
from specdens._measure.lanczos import SpectralMeasure
from specdens._measure.quadrature import Rule
from specdens._measure.resolvent import Resolvent
from specdens._validate import as_count

if TYPE_CHECKING:
    from specdens._kpm.recurrence import ChebyshevRecurrence


@dataclass(frozen=True, eq=False, repr=False)
class ChebyshevMoments(Measure):
    """The Chebyshev moments of an operator: the result of `kpm`.

    All readings use the Gauss rules with the same moments, see `gauss`; `density` draws the moments with a kernel.

    Attributes
    ----------
    mus : ndarray
        One row per probe: μ_0 = 1, μ_1, …, with μ_i = vᵀ T_i((A − c)/d) v for the interval [c − d, c + d].
    interval : Interval
        The interval, which contains the spectrum.
    dimension : int
        The number of eigenvalues.
    bulk_dimension : int
        The dimension of the space that the probes live in: `dimension` less the number of known eigenvalues.
    known_atoms : Atoms
        Deflated eigenvalues, or a null space known by construction, with their masses.
    dtype : str
        The dtype of the vectors.
    probes : str
        "gaussian", "rademacher" or "given".
    seed : int
        The seed of the probes.
    block_size : int
        The number of probes that ran together.
    num_products : int
        The number of products that were made, those for automatic bounds and for checks included.
    seconds : float
        How long the run took.
    notes : tuple of str
        Remarks on the run, such as a resumption with other versions.
    recurrences : tuple
        The state of the run with its vectors, kept by ``keep_vectors=True`` for `extend`; else empty.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> moments = sd.kpm(np.diag(np.linspace(-1, 1, 2001)), num_moments=64, num_probes=4)
    >>> moments.mus.shape
    (4, 64)
    >>> float(abs(moments.count(-0.5, 0.5).value - 1001)) < 3 * moments.count(-0.5, 0.5).stderr
    True
    """

    mus: Floats
    interval: Interval
    dimension: int
    bulk_dimension: int
    known_atoms: Atoms
    dtype: str
    probes: str
    seed: int
    block_size: int
    num_products: int
    seconds: float
    notes: tuple[str, ...] = ()
    recurrences: tuple[ChebyshevRecurrence, ...] = ()
    has_residuals = False

    default_kernel = "jackson"

    @property
    def num_moments(self) -> int:
        """The number of moments of every probe, μ_0 included."""
        return int(self.mus.shape[1])

    @property
    def num_steps(self) -> int:
        """The number of steps of every probe: each gives two moments."""
        return self.num_moments // 2

    @cached_property
    def gauss(self) -> SpectralMeasure:
        """The measure with the same moments: what Lanczos would have found in num_moments/2 steps."""
        alphas, betas = jacobi_of_moments(self.mus, self.interval, eps=self.eps)
        return SpectralMeasure(
            alphas=tuple(alphas),
            betas=tuple(betas[:, :-1]),
            last_betas=betas[:, -1],
            dimension=self.dimension,
            bulk_dimension=self.bulk_dimension,
            known_atoms=self.known_atoms,
            dtype=self.dtype,
            probes=self.probes,
            seed=self.seed,
            block_size=self.block_size,
            method="kpm",
            num_products=self.num_products,
            seconds=self.seconds,
        )

    @property
    def num_probes(self) -> int:
        """The number of start vectors."""
        return int(self.mus.shape[0])

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Per probe the Gauss rule with the same moments."""
        return self.gauss.rules

    @property
    def probe_cdfs(self) -> tuple[Cdf, ...]:
        """Per probe the best estimate of the distribution function of the bulk, of mass 1."""
        return self.gauss.probe_cdfs

    def bounds(self, *, margin: float = 0.0) -> Interval:
        return self.interval.widened(margin) if margin else self.interval

    @deprecate_positional("kernel", "grid")
    def density(
        self,
        num_points: int = 1024,
        *,
        kernel: Literal["local", "gaussian", "jackson", "lorentz", "dirichlet", "adaptive"] | None = None,
        kappa: float | None = None,
        width: float | None = None,
        grid: ArrayLike | None = None,
    ) -> Density:
        return super().density(num_points, kernel=kernel, kappa=kappa, width=width, grid=grid)

    def chebyshev_moments(self, num_moments: int | None = None) -> tuple[Floats, Interval]:
        """Return the moments of every probe, one row each, and their interval."""
        return self.mus, self.interval

    def _draw_nodes(
        self, kernel: str, *, num_points: int, kappa: float | None, width: float | None, edges: Floats | None
    ) -> Density:
        drawn = self.gauss._draw_nodes(kernel, num_points=num_points, kappa=kappa, width=width, edges=edges)
        return replace(drawn, measure=self)

    def truncated(self, num_steps: int) -> ChebyshevMoments:
        num_steps = as_count("num_steps", num_steps)
        return replace(self, mus=self.mus[:, : 2 * num_steps], recurrences=())

    def shortened(self, cut: Callable[[int], int]) -> Measure:
        """Return the Gauss measure after `cut(k)` of every probe's k steps."""
        return self.gauss.shortened(cut)

    def __getitem__(self, index: int) -> ChebyshevMoments:
        return replace(self, mus=self.mus[[index]], recurrences=())

    def resolvent(self, z: ArrayLike, *, terminator: Literal["auto", "sqrt"] | None = None) -> Resolvent:
        return self.gauss.resolvent(z, terminator=terminator)

    def convergence(self) -> Convergence:
        return self.gauss.convergence()

    @property
    def settings(self) -> dict[str, Any]:
        """What made this measure: method, probes, moments, seed, precision, products, seconds and versions."""
        return {
            **super().settings,
            "method": "kpm",
            "num_moments": self.num_moments,
            "interval": tuple(self.interval),
        }

    def __repr__(self) -> str:
        return (
            f"ChebyshevMoments(dimension={self.dimension}, probes={self.num_probes} {self.probes}, "
            f"moments={self.num_moments} on [{self.interval.lo:.6g}, {self.interval.hi:.6g}], "
            f"products={self.num_products}, {self.dtype})"
        )
