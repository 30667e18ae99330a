"""What the kernel polynomial method leaves behind: moments, and the Gauss rules that they determine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from numpy.typing import ArrayLike

from specdens._atoms import Atoms
from specdens._bounds import Interval
from specdens._cdf import Cdf, Floats
from specdens._chebyshev import chebyshev_density, jacobi_of_moments
from specdens._density import Density, edges_around, on_grid
from specdens._errors import as_count
from specdens._measure import Convergence, SpectralMeasure
from specdens._readings import Readings, common_settings
from specdens._rules import Rule


@dataclass(frozen=True, eq=False, repr=False)
class ChebyshevMoments(Readings):
    """The Chebyshev moments of an operator, seen by one or more probes: the result of `kpm`.

    Has the reading methods of a `SpectralMeasure`. They read the Gauss rules with as many moments, see `gauss`;
    `density` alone draws the moments with a kernel.
    """

    mus: Floats
    """One row per probe: μ_0 = 1, μ_1, …, with μ_i = vᵀ T_i((A − c)/d) v for the interval [c − d, c + d]."""
    interval: Interval
    """The interval, which contains the spectrum."""
    dimension: int
    bulk_dimension: int
    known_atoms: Atoms
    dtype: str
    probes: str
    seed: int
    block_size: int
    num_products: int
    """All products: those for automatic bounds and for checks included."""
    seconds: float

    @property
    def num_moments(self) -> int:
        """The number of moments of every probe, μ_0 included."""
        return int(self.mus.shape[1])

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
        return int(self.mus.shape[0])

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.gauss.rules

    @property
    def probe_cdfs(self) -> tuple[Cdf, ...]:
        return self.gauss.probe_cdfs

    def bounds(self, *, margin: float = 0.0) -> Interval:
        """Return the interval of the moments, widened by a share `margin` of its width at either end."""
        return self.interval.widened(margin) if margin else self.interval

    def density(
        self,
        num_points: int = 1024,
        kernel: Literal["jackson", "lorentz", "dirichlet"] = "jackson",
        grid: ArrayLike | None = None,
    ) -> Density:
        """Draw the density of the eigenvalues.

        Parameters
        ----------
        num_points
            The number of cells of the default grid, which spans the interval.
        kernel
            "jackson" (positive, close to Gaussian), "lorentz" (positive, with long tails) or "dirichlet" (the bare
            series, which rings). For bumps at the nodes of the Gauss rule: ``moments.gauss.density``.
        grid
            Increasing points around which to draw instead, each standing for the cell half way to its neighbours.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> density = sd.kpm(np.diag(np.linspace(-1, 1, 1000)), num_moments=64).density()
        >>> round(density.mass(), 12)
        1.0
        """
        edges = None if grid is None else edges_around(grid)
        drawn = chebyshev_density(self, self.mus, self.interval, kernel, num_points=num_points, edges=edges)
        return on_grid(drawn, grid)

    def truncated(self, num_moments: int) -> ChebyshevMoments:
        """Return what the first `num_moments` moments say."""
        m = as_count("num_moments", num_moments, minimum=2, maximum=self.num_moments, limit="the moments there are")
        return replace(self, mus=self.mus[:, :m])

    def shortened(self, cut: Callable[[int], int]) -> Readings:
        return self.gauss.shortened(cut)

    def convergence(self) -> Convergence:
        """Return how far the measure is from its limit; ``steps`` compares half of the moments with all of them."""
        return self.gauss.convergence()

    @property
    def settings(self) -> dict[str, Any]:
        return {
            **common_settings(self),
            "method": "kpm",
            "num_moments": self.mus.shape[1],
            "interval": tuple(self.interval),
        }

    def __repr__(self) -> str:
        return (
            f"ChebyshevMoments(dimension={self.dimension}, probes={self.num_probes} {self.probes}, "
            f"moments={self.num_moments} on [{self.interval.lo:.6g}, {self.interval.hi:.6g}], "
            f"products={self.num_products}, {self.dtype})"
        )
