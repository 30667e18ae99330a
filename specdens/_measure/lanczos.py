"""`SpectralMeasure`: the measure that a Lanczos run leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from specdens._density.levels import FEW_LEVELS, run_steps
from specdens._distributions.atoms import Atoms
from specdens._distributions.cdf import Floats
from specdens._measure.convergence import Convergence, assess_convergence
from specdens._measure.jacobi import atoms_of_eigenvalues, jacobi_of_atoms
from specdens._measure.known_moments import as_moments
from specdens._measure.resolvent import Resolvent, resolvent_of
from specdens._measure.ritz_quadrature import RitzQuadrature
from specdens._operators.base import Operator
from specdens._validate import as_count

if TYPE_CHECKING:
    from specdens._lanczos.recurrence import Recurrence


@dataclass(frozen=True, eq=False, repr=False)
class SpectralMeasure(RitzQuadrature):
    """The spectral measure of an operator from a Lanczos run.

    Made by `fast_lanczos` and `slow_lanczos`. It holds the coefficients of the recurrence; nodes, weights and all that
    is read or drawn from them cost no further product.

    Attributes
    ----------
    alphas : tuple of ndarray
        Per probe the diagonal α₁, …, α_M of T.
    betas : tuple of ndarray
        Per probe the off-diagonal β₁, …, β_{M−1} of T.
    last_betas : ndarray
        Per probe β_M, which couples to the next vector; 0 where the recurrence ended because T is exact.
    dimension : int
        The number of eigenvalues.
    bulk_dimension : int
        The dimension of the space that the probes live in: `dimension` less the number of known eigenvalues.
    known_atoms : Atoms
        Deflated eigenvalues, or a null space known by construction, with their masses.
    dtype : str
        The dtype of the vectors.
    probes : str
        "gaussian", "rademacher", "given", or "exact" where all eigenvalues were computed.
    seed : int
        The seed of the probes.
    block_size : int
        The number of probes that ran together.
    method : str
        "fast_lanczos", "slow_lanczos", "kpm" or "exact".
    num_products : int
        The number of products that were made, those for checks included.
    seconds : float
        How long the run took.
    recurrences : tuple
        The state of the run with its vectors, kept by ``keep_vectors=True`` for `extend`; else empty.
    exact_probes : tuple of bool or None
        Which probes are exact, where that is known from a longer run.
    notes : tuple of str
        Remarks on the run, such as a resumption with other versions.
    is_simple : bool
        Whether every eigenvalue is known to be simple; see `assuming_simple`.
    known_moments : tuple of float or None
        Exact means of λ, λ², … over the spectrum; see `with_moments`.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> measure = sd.fast_lanczos(np.diag(np.linspace(0, 1, 2000)), num_steps=16, num_probes=2)
    >>> len(measure.alphas), measure.alphas[0].size, measure.betas[0].size
    (2, 16, 15)
    >>> round(float(measure.weights[0].sum()), 12)
    1.0
    """

    alphas: tuple[Floats, ...]
    betas: tuple[Floats, ...]
    last_betas: Floats
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
    recurrences: tuple[Recurrence, ...] = ()
    exact_probes: tuple[bool, ...] | None = None
    notes: tuple[str, ...] = ()
    is_simple: bool = False
    known_moments: tuple[float, ...] | None = None

    @property
    def has_residuals(self) -> bool:  # type: ignore[override]
        return self.method != "kpm"

    def assuming_simple(self) -> SpectralMeasure:
        """Return the measure for a spectrum that is known to be simple: isolated eigenvalues weigh exactly 1/n each.

        Without this, multiplicities are inferred from the weights that the probes saw, and the doubt about them is
        part of every standard error. A generic matrix without symmetries has a simple spectrum; lattices, graphs and
        operators with symmetries do not.

        Returns
        -------
        SpectralMeasure
            The same measure, read with that knowledge.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> e = np.concatenate([np.linspace(-1, 1, 990), np.arange(10.0, 20.0)])
        >>> measure = sd.fast_lanczos(np.diag(e)).assuming_simple()
        >>> [round(x, 6) for x in measure.count(5, 30)]
        [10.0, 0.0]
        """
        return replace(self, is_simple=True)

    def with_moments(self, known_moments: ArrayLike) -> SpectralMeasure:
        """Return the measure for a spectrum whose first moments are known: weights and errors are corrected by them.

        Parameters
        ----------
        known_moments : array_like
            The exact means of λ, λ², … over the spectrum, up to seven: tr A / n, tr A² / n, …

        Returns
        -------
        SpectralMeasure
            The same measure, read with that knowledge.

        Raises
        ------
        ValueError
            If these cannot be moments.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> e = np.linspace(-1, 1, 2000)
        >>> measure = sd.fast_lanczos(np.diag(e))
        >>> better = measure.with_moments([np.mean(e), np.mean(e**2)])
        >>> bool(better.count(0, 1).stderr < 0.6 * measure.count(0, 1).stderr)
        True
        """
        return replace(self, known_moments=as_moments(known_moments))

    @classmethod
    def from_eigenvalues(cls, eigenvalues: ArrayLike, *, num_zeros: int = 0, dtype: str = "float64") -> SpectralMeasure:
        """Return the exact measure of eigenvalues that are known, for instance from ``eigvalsh`` or an SVD.

        Parameters
        ----------
        eigenvalues : array_like
            All eigenvalues, in any order. Those that agree to rounding become one atom of larger mass.
        num_zeros : int, default 0
            How many further eigenvalues are zero: n − m for XXᵀ whose m × m Gram matrix XᵀX was diagonalized.
        dtype : str, default "float64"
            The precision in which they were computed, which says what agrees to rounding.

        Returns
        -------
        SpectralMeasure
            A measure without error. Its density has a stem for each of up to 32 levels, and is a curve for more, with
            isolated and degenerate levels as stems; `density` takes a width, too.

        Raises
        ------
        ValueError
            If the eigenvalues are not a vector of finite real numbers, or `dtype` is no floating-point type.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> measure = sd.SpectralMeasure.from_eigenvalues([0.0, 1.0, 1.0, 3.0])
        >>> round(measure.count(0.5, 2).value, 9), round(measure.trace(np.square).value, 9)
        (2.0, 11.0)
        """
        if np.dtype(dtype).kind not in "fc":
            raise ValueError(f"`dtype` must be a floating-point type; got {dtype!r}")
        num_zeros = as_count("num_zeros", num_zeros, minimum=0)
        atoms = atoms_of_eigenvalues(eigenvalues, num_zeros=num_zeros, eps=float(np.finfo(dtype).eps))
        alphas, betas = jacobi_of_atoms(atoms)
        n = np.size(eigenvalues) + num_zeros
        return cls(
            alphas=(alphas,), betas=(betas,), last_betas=np.zeros(1), dimension=n, bulk_dimension=n,
            known_atoms=Atoms.none(), dtype=dtype, probes="exact", seed=0, block_size=1, method="exact",
            num_products=0, seconds=0.0,
        )  # fmt: skip

    def scaled(self, factor: float) -> SpectralMeasure:
        """Return the measure of the operator times a number, for instance in units of a bulk edge.

        Parameters
        ----------
        factor : float
            What to multiply all eigenvalues by: finite and not zero; it may be negative.

        Returns
        -------
        SpectralMeasure
            With the same settings. `extend` cannot continue it.

        Raises
        ------
        ValueError
            If `factor` is zero or not finite.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> measure = sd.fast_lanczos(np.diag(np.linspace(-4, 4, 500)))
        >>> edge = sd.analysis.outliers(measure).bulk.hi
        >>> round(measure.scaled(1 / edge).quantile(0.75).item(), 1)
        0.5
        """
        c = float(factor)
        if not np.isfinite(c) or c == 0:
            raise ValueError(f"`factor` must be finite and not zero; got {factor}")
        order = slice(None, None, 1 if c > 0 else -1)  # of the atoms
        moments = self.known_moments
        return replace(
            self,
            alphas=tuple(c * alphas for alphas in self.alphas),
            betas=tuple(abs(c) * betas for betas in self.betas),  # their signs are those of the basis, not of A
            last_betas=abs(c) * self.last_betas,
            known_atoms=Atoms(c * self.known_atoms.positions[order], self.known_atoms.masses[order]),
            known_moments=None if moments is None else tuple(m * c**k for k, m in enumerate(moments, start=1)),
            recurrences=(),
        )

    @classmethod
    def from_recurrences(
        cls,
        A: Operator,
        recurrences: Sequence[Recurrence],
        *,
        method: str,
        probes: str,
        seed: int,
        block_size: int,
        num_products: int,
        seconds: float,
        notes: tuple[str, ...] = (),
    ) -> SpectralMeasure:
        """Collect the coefficients of finished recurrences."""
        columns = [(each, j) for each in recurrences for j in range(len(each.indices))]
        return cls(
            alphas=tuple(np.array(each.alphas[j]) for each, j in columns),
            betas=tuple(np.array(each.betas[j][:-1]) for each, j in columns),
            last_betas=np.array([each.betas[j][-1] if each.active[j] else 0.0 for each, j in columns]),
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
            recurrences=tuple(recurrences),
            notes=notes,
        )

    # -- what readings ask for ------------------------------------------------------------------------------------

    def as_smooth(self) -> SpectralMeasure:
        """Return the measure with the levels of exact probes as nodes like any others, to be smoothed."""
        return replace(self, exact_probes=(False,) * self.num_probes) if any(self._exact) else self

    def at_resolution_of_run(self) -> SpectralMeasure:
        """Return a measure of many known eigenvalues as a run would have left it, else the measure itself."""
        is_many = self.probes == "exact" and self.num_steps > FEW_LEVELS
        return self.truncated(run_steps(self.num_steps)) if is_many else self

    # -- fewer steps or probes -----------------------------------------------------------------------------------

    def truncated(self, num_steps: int) -> SpectralMeasure:
        num_steps = as_count("num_steps", num_steps)
        return self._with_lengths([min(num_steps, alphas.size) for alphas in self.alphas])

    def within(self, num_steps: int, num_probes: int) -> SpectralMeasure:
        """Return the measure that a run of fewer steps or probes would have given."""
        if self.num_probes <= num_probes and self.num_steps <= num_steps:
            return self
        part = replace(
            self,
            alphas=self.alphas[:num_probes],
            betas=self.betas[:num_probes],
            last_betas=self.last_betas[:num_probes],
            recurrences=(),
        )
        return part.truncated(num_steps)

    def shortened(self, cut: Callable[[int], int]) -> SpectralMeasure:
        """Return the measure after `cut(k)` of every probe's k steps; exact probes stay whole."""
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
            recurrences=(),
            exact_probes=None,
        )

    def __getitem__(self, index: int) -> SpectralMeasure:
        j = range(self.num_probes)[index]
        one = slice(j, j + 1)
        return replace(
            self, alphas=self.alphas[one], betas=self.betas[one], last_betas=self.last_betas[one], recurrences=(),
            exact_probes=None if self.exact_probes is None else self.exact_probes[one],
        )  # fmt: skip

    def resolvent(self, z: ArrayLike, *, terminator: Literal["auto", "sqrt"] | None = None) -> Resolvent:
        return resolvent_of(self, z, terminator)

    def convergence(self) -> Convergence:
        return assess_convergence(self)

    @property
    def settings(self) -> dict[str, Any]:
        """What made this measure: method, probes, steps, seed, precision, products, seconds and versions."""
        return {**super().settings, "method": self.method, "num_steps": self.num_steps}

    def __repr__(self) -> str:
        if self.probes == "exact":
            return f"SpectralMeasure(all {self.dimension} eigenvalues, products={self.num_products}, {self.dtype})"
        return (
            f"SpectralMeasure({self.method}, dimension={self.dimension}, probes={self.num_probes} {self.probes}, "
            f"steps={self.num_steps}, products={self.num_products}, {self.dtype})"
        )
