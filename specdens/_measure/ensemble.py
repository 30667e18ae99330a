"""The average of the measures of several operators: disorder, bootstrap samples, seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from specdens._density.average import average_densities, common_grid
from specdens._density.density import Density
from specdens._distributions.atoms import Atoms, merge_atoms
from specdens._distributions.cdf import Cdf, Floats, mixture
from specdens._distributions.interval import Interval
from specdens._distributions.weighted import combine_errors
from specdens._measure.base import Measure
from specdens._measure.convergence import Convergence
from specdens._measure.drawings import Draw
from specdens._measure.estimate import Count, Estimate
from specdens._measure.quadrature import Rule
from specdens._measure.resolved import Resolved
from specdens._measure.resolvent import Resolvent


def average(measures: Sequence[Measure | Density], *, weights: ArrayLike | None = None) -> EnsembleMeasure:
    """Return the average of the measures of several operators, with all readings and errors.

    Parameters
    ----------
    measures : sequence of Measure or Density
        Measures of operators of the same dimension, for instance of several samples of disorder; of densities those
        that they were drawn from.
    weights : array_like, optional
        The weights of the measures, scaled to sum 1; by default equal.

    Returns
    -------
    EnsembleMeasure
        A measure. Its errors are the larger of two: those of the measures, combined as independent, and the standard
        error of the mean that the spread between the measures gives.

    Raises
    ------
    TypeError
        If something is neither a measure nor a density.
    ValueError
        If there is none, their dimensions differ, or the weights are not positive numbers, one per measure.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> rng = np.random.default_rng(0)
    >>> chain = np.eye(200, k=1) + np.eye(200, k=-1)
    >>> runs = [sd.fast_lanczos(chain + np.diag(rng.uniform(-1, 1, 200)), num_steps=50) for _ in range(8)]
    >>> ensemble = sd.average(runs)
    >>> value, stderr = ensemble.count(-1, 1)
    >>> round(ensemble.density().mass(), 6)
    1.0
    """
    members = tuple(each.measure if isinstance(each, Density) else each for each in measures)
    if not members:
        raise ValueError("`measures` must hold at least one measure; got none")
    for each in members:
        if not isinstance(each, Measure):
            raise TypeError(f"`measures` must be measures or densities; got {type(each).__name__}")
    dimensions = {each.dimension for each in members}
    if len(dimensions) > 1:
        raise ValueError(f"`measures` must be of operators of one dimension; got {sorted(dimensions)}")
    shares = np.ones(len(members)) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(members),) or not np.all(np.isfinite(shares)) or not np.all(shares > 0):
        raise ValueError(f"`weights` must be {len(members)} positive numbers, one per measure; got {weights!r}")
    return EnsembleMeasure(members, shares / np.sum(shares))


@dataclass(frozen=True, eq=False, repr=False)
class EnsembleMeasure(Measure):
    """The weighted average of several measures: the result of `average`.

    Attributes
    ----------
    members : tuple of Measure
        The measures.
    shares : ndarray
        Their weights, of sum 1.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> rng = np.random.default_rng(0)
    >>> samples = [sd.fast_lanczos(np.diag(rng.random(1000)), num_steps=32) for _ in range(4)]
    >>> ensemble = sd.average(samples)
    >>> value, stderr = ensemble.count(0, 0.5)
    >>> bool(abs(value - 500) < 3 * stderr)
    True
    """

    members: tuple[Measure, ...]
    shares: Floats

    def __post_init__(self) -> None:
        first = self.members[0]
        kinds = {each.probes for each in self.members}
        facts: dict[str, Any] = {
            "dimension": first.dimension,
            "bulk_dimension": max(each.bulk_dimension for each in self.members),
            "known_atoms": merge_atoms(
                [each.known_atoms.scaled(w) for each, w in zip(self.members, self.shares, strict=True)], tolerance=0.0
            ),
            "dtype": max((each.dtype for each in self.members), key=lambda name: float(np.finfo(name).eps)),
            "probes": kinds.pop() if len(kinds) == 1 else "mixed",
            "seed": first.seed,
            "block_size": first.block_size,
            "num_products": sum(each.num_products for each in self.members),
            "seconds": sum(each.seconds for each in self.members),
            "notes": tuple(dict.fromkeys(note for each in self.members for note in each.notes)),
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of all probes of all members."""
        return tuple(rule for each in self.members for rule in each.rules)

    @property
    def probe_cdfs(self) -> tuple[Cdf, ...]:
        """The best estimates of all probes of all members."""
        return tuple(cdf for each in self.members for cdf in each.probe_cdfs)

    @property
    def num_steps(self) -> int:
        """The largest number of steps of a member."""
        return max(each.num_steps for each in self.members)

    @cached_property
    def resolved(self) -> Resolved:
        """The readings of the average."""
        return _AveragedReadings(self, self.members, self.shares)  # type: ignore[return-value]

    @cached_property
    def bulk_cdf(self) -> Cdf:
        """The distribution function of the average."""
        return self.resolved.cdf

    def bounds(self, *, margin: float = 0.0) -> Interval:
        ends = [each.bounds() for each in self.members]
        interval = Interval(min(end.lo for end in ends), max(end.hi for end in ends))
        return interval.widened(margin) if margin else interval

    def chebyshev_moments(self, num_moments: int | None = None) -> tuple[Floats, Interval]:
        raise TypeError("an average has no moments of its own; draw its members")

    def truncated(self, num_steps: int) -> EnsembleMeasure:
        return replace(self, members=tuple(each.truncated(num_steps) for each in self.members))

    def shortened(self, cut: Callable[[int], int]) -> EnsembleMeasure:
        """Return the average of the shortened members."""
        return replace(self, members=tuple(each.shortened(cut) for each in self.members))

    def resolvent(self, z: ArrayLike, *, terminator: Literal["auto", "sqrt"] | None = None) -> Resolvent:
        parts = [each.resolvent(z, terminator=terminator) for each in self.members]
        values = np.array([part.value for part in parts])
        errors = np.array([part.stderr for part in parts])
        mean = np.asarray(np.tensordot(self.shares, values, axes=1))
        real, imaginary = (
            combine_errors(self.shares, part, errors / np.sqrt(2)) for part in (values.real, values.imag)
        )
        return Resolvent(mean, np.hypot(real, imaginary), tuple(flag for part in parts for flag in part.terminated))

    def convergence(self) -> Convergence:
        parts = np.array([each.convergence() for each in self.members], dtype=np.float64)
        steps, probes, sampling, bound = (float(self.shares @ column) for column in parts.T)
        return Convergence(steps, probes, min(sampling, float(np.linalg.norm(self.shares * parts[:, 2]))), bound)

    def _draw(self, draw: Draw, num_points: int, grid: ArrayLike | None) -> Density:
        """Draw every member on one grid, and average."""
        if grid is None:
            grid = common_grid([each._draw(draw, num_points, None) for each in self.members], num_points)
        return average_densities([each._draw(draw, num_points, grid) for each in self.members], self.shares, self)

    @property
    def settings(self) -> dict[str, Any]:
        """What made this measure, and how many members it has."""
        return {**super().settings, "method": "average", "num_members": len(self.members), "num_steps": self.num_steps}

    def __getitem__(self, index: int) -> Measure:
        return self.members[index]

    def __repr__(self) -> str:
        return (
            f"EnsembleMeasure({len(self.members)} measures, dimension={self.dimension}, "
            f"probes={self.num_probes} {self.probes}, products={self.num_products})"
        )


class _AveragedReadings:
    """The readings of `Resolved`, averaged over several measures."""

    def __init__(self, measure: EnsembleMeasure, members: Sequence[Measure], shares: Floats) -> None:
        self.measure, self.isolated, self.rules, self.cdfs = measure, None, (), ()
        self._parts, self._shares = [each.resolved for each in members], shares
        self.atoms = Atoms.none()

    @cached_property
    def cdf(self) -> Cdf:
        return mixture([(float(w), part.cdf) for w, part in zip(self._shares, self._parts, strict=True)])

    def values_at(self, x: Floats) -> Floats:
        return np.asarray(np.tensordot(self._shares, [part.values_at(x) for part in self._parts], axes=1))

    def stderr_at(self, x: Floats) -> Floats:
        values, errors = ([getattr(part, name)(x) for part in self._parts] for name in ("values_at", "stderr_at"))
        return combine_errors(self._shares, np.array(values), np.array(errors))

    def quantile(self, q: Floats) -> Floats:
        return self.cdf.quantile(q)

    def quantile_stderr(self, q: Floats) -> Floats:
        x = self.quantile(q)
        stderr = self.stderr_at(x)
        below, above = (self.quantile(np.clip(q + s * stderr, 0.0, 1.0)) for s in (-1.0, 1.0))
        return np.maximum(above - x, x - below)

    def count(self, lo: float, hi: float) -> Count:
        return Count(*self._estimate([part.count(lo, hi) for part in self._parts]))

    def trace(self, f: Callable[[Floats], ArrayLike]) -> Estimate:
        return self._estimate([part.trace(f) for part in self._parts])

    def moments(self, num_moments: int) -> Floats:
        return np.asarray(self._shares @ np.array([part.moments(num_moments) for part in self._parts]))

    def sampling_distance(self) -> float:
        return float(np.linalg.norm(self._shares * np.array([part.sampling_distance() for part in self._parts])))

    def _estimate(self, parts: Sequence[Estimate]) -> Estimate:
        values, errors = (np.array([part[i] for part in parts]) for i in (0, 1))
        return Estimate(float(self._shares @ values), float(combine_errors(self._shares, values, errors)))
