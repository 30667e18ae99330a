"""What every spectral measure holds, and the distributions derived from it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.special import binom

from specdens._distributions.atoms import Atoms, merge_atoms
from specdens._distributions.cdf import Cdf, Floats, mixture
from specdens._distributions.interval import Interval
from specdens._exceptions import SpecdensWarning
from specdens._measure.isolated import Isolated, converged_ranges, find_isolated, largest_multiplicity
from specdens._measure.known_moments import corrected
from specdens._measure.quadrature import Rule
from specdens._measure.refined_cdf import refined_cdf
from specdens._measure.resolved import Resolved

RANDOM_PROBES = ("gaussian", "rademacher")
"""Start vectors whose measures differ from that of the eigenvalues by sampling."""

# Ritz values of an exact run differ by less: units of rounding of the vectors, and of the coefficients
_VECTOR_ROOM, _COEFFICIENT_ROOM = 16, 1e3


class MeasureCore(ABC):
    """The fields and the derived distributions on which all readings of a measure are built."""

    dimension: int
    bulk_dimension: int
    known_atoms: Atoms
    dtype: str
    probes: str
    seed: int
    block_size: int
    num_products: int
    seconds: float
    notes: tuple[str, ...]
    is_simple: bool = False
    has_residuals: bool = True
    known_moments: tuple[float, ...] | None = None

    # -- what a subclass provides --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def rules(self) -> tuple[Rule, ...]:
        """Per probe the quadrature rule for smooth functions."""

    @property
    @abstractmethod
    def probe_cdfs(self) -> tuple[Cdf, ...]:
        """Per probe the best estimate of the distribution function of the bulk, of mass 1."""

    @abstractmethod
    def bounds(self, *, margin: float = 0.0) -> Interval:
        """Return an interval that contains the spectrum outside the known atoms.

        Parameters
        ----------
        margin : float, default 0
            What is added at either end, as a share of the width.

        Returns
        -------
        Interval
            Of a Lanczos run the outermost Ritz values, each widened by its residual; of `kpm` the interval of the
            moments; of an average the hull of its members' bounds. Widened by the margin.
        """

    @abstractmethod
    def shortened(self, cut: Callable[[int], int]) -> MeasureCore:
        """Return the measure after `cut(k)` of every probe's k steps; exact probes stay whole."""

    # -- masses --------------------------------------------------------------------------------------------------

    @property
    def num_probes(self) -> int:
        """The number of start vectors."""
        return len(self.rules)

    @property
    def eps(self) -> float:
        """The unit of rounding of the vectors."""
        return float(np.finfo(self.dtype).eps)

    @property
    def probe_mass(self) -> float:
        """The share of the whole that each probe's measure stands for."""
        return self.bulk_dimension / self.dimension / max(self.num_probes, 1)

    @property
    def smooth_rules(self) -> tuple[Rule, ...]:
        """The rules of the probes that are not exact."""
        return tuple(rule for rule in self.rules if not rule.exact)

    @property
    def smooth_cdfs(self) -> tuple[Cdf, ...]:
        """The best estimates of the distribution functions of the probes that are not exact."""
        return tuple(cdf for cdf, rule in zip(self.probe_cdfs, self.rules, strict=True) if not rule.exact)

    @cached_property
    def atoms(self) -> Atoms:
        """The point masses: the known atoms, and all nodes of a probe whose recurrence ended."""
        return self._merged([self.known_atoms, *self._exact_atoms()])

    @property
    def exact_levels(self) -> Atoms:
        """The nodes of the probes whose recurrences ended, with their share of the whole."""
        return self._merged(self._exact_atoms())

    def _exact_atoms(self) -> list[Atoms]:
        return [_as_atoms(rule).scaled(self.probe_mass) for rule in self.rules if rule.exact]

    def _merged(self, groups: list[Atoms]) -> Atoms:
        scale = max((float(np.max(np.abs(a.positions))) for a in groups if a.positions.size), default=0.0)
        # two probes find the same eigenvalue to rounding, with room for its growth over the steps
        return merge_atoms(groups, tolerance=self.eps**0.75 * scale)

    @cached_property
    def isolated(self) -> Isolated | None:
        """The isolated eigenvalues that the probes have found, with their multiplicities; None if there are none."""
        if self.probes != "gaussian" or not self.has_residuals:  # weights of other probes are not χ² variables
            return None
        is_complex = self.dtype.startswith("complex")
        return find_isolated(
            self.rules, dimension=self.bulk_dimension, eps=self.eps, is_complex=is_complex, simple=self.is_simple
        )

    @cached_property
    def hidden_mass(self) -> float:
        """The mass of an atom that may lie unseen in a bulk: as heavy as the multiple eigenvalues that were found."""
        if self.probes != "gaussian" or not self.has_residuals:
            return 0.0
        is_complex = self.dtype.startswith("complex")
        largest = largest_multiplicity(self.rules, dimension=self.bulk_dimension, eps=self.eps, is_complex=is_complex)
        return 0.8 * largest / max(self.bulk_dimension, 1)

    @cached_property
    def converged_ranges(self) -> tuple[Floats, Floats, Floats]:
        """Where the nodes of every converged eigenvalue begin and end, and how far it may be from them."""
        rules = self.rules if self.has_residuals else ()
        return converged_ranges(rules, dimension=self.bulk_dimension, eps=self.eps)

    @cached_property
    def resolved(self) -> Resolved:
        """The best estimate of the spectrum: isolated eigenvalues apart, with the masses that multiplicities allow."""
        isolated = self.isolated
        if isolated is None:
            plain = Resolved(self, None, self.rules, self.probe_cdfs)
        else:
            rules = tuple(rule for rule in isolated.rests if rule.nodes.size)
            plain = Resolved(self, isolated, rules, self._rest_cdfs(rules, isolated))
        if self.known_moments is None or plain.sampling_variance == 0 or not plain.rules:
            return plain
        return self._with_moments(plain, np.asarray(self.known_moments))

    def _with_moments(self, plain: Resolved, moments: Floats) -> Resolved:
        """Return the best estimate with the known moments of the whole spectrum."""
        ends, degrees = self.bounds(), np.arange(1, moments.size + 1)
        center, scale = ends.center, ends.width / 2 or 1.0
        shifted = [
            sum(binom(k, j) * (-center) ** (k - j) * (moments[j - 1] if j else 1.0) for j in range(k + 1)) / scale**k
            for k in degrees
        ]
        masses = plain.share / len(plain.rules)
        parts = [self.known_atoms, plain.atoms, *(Atoms(r.nodes, masses * r.weights) for r in plain.rules)]
        seen = [sum(float(a.masses @ ((a.positions - center) / scale) ** k) for a in parts) for k in degrees]
        fixed = corrected(
            plain.rules, plain.isolated, residual=np.subtract(shifted, seen), center=center, scale=scale,
            dimension=self.dimension, share=plain.share, variance=plain.sampling_variance,
        )  # fmt: skip
        cdfs = self._rest_cdfs(fixed.rules, fixed.isolated)
        return Resolved(self, fixed.isolated, fixed.rules, cdfs, fixed.controls)

    def _rest_cdfs(self, rules: tuple[Rule, ...], isolated: Isolated | None) -> tuple[Cdf, ...]:
        """Return the distribution function of what is left of every probe; removed nodes still count as neighbors."""
        rests = self.rules if isolated is None else isolated.rests
        wholes = [whole for whole, rest in zip(self.rules, rests, strict=True) if rest.nodes.size]
        return tuple(refined_cdf(rule, eps=self.eps, whole=whole) for rule, whole in zip(rules, wholes, strict=True))

    @cached_property
    def bulk_cdf(self) -> Cdf:
        """The best estimate of the distribution function outside the known atoms, of mass 1."""
        resolved, bulk = self.resolved, max(self.bulk_dimension, 1) / self.dimension
        rest = [(resolved.share / bulk, resolved.rest_cdf)] if resolved.cdfs else []
        return mixture([*rest, (1.0 / bulk, Cdf.of_atoms(*resolved.atoms))])

    @cached_property
    def probes_cdf(self) -> Cdf:
        """The distribution function of the probes' own measure, with the weights that they saw."""
        return mixture([(1.0 / self.num_probes, cdf) for cdf in self.probe_cdfs])

    @property
    def whole_cdf(self) -> Cdf:
        """The best estimate of the distribution function of all eigenvalues, of mass 1."""
        return self.resolved.cdf

    @property
    def rounding_room(self) -> float:
        """How far rounding may move an eigenvalue: one at x counts as at or below x."""
        ends = self.bounds()
        room = _VECTOR_ROOM * self.eps + _COEFFICIENT_ROOM * float(np.finfo(np.float64).eps)
        return room * max(abs(ends.lo), abs(ends.hi))

    def warn_of_weights(self, reading: str, instead: str) -> None:
        """Warn that a number of eigenvalues, or a sum over them, was asked of given start vectors."""
        if self.probes != "given" or self.num_probes >= self.bulk_dimension:
            return
        warnings.warn(
            f"`{reading}` of given start vectors is {self.dimension} times their weight, not a sum over the "
            f"eigenvalues, unless the vectors are random. `{instead}` is theirs. Leave `probes` out for eigenvalues.",
            SpecdensWarning,
            stacklevel=3,
        )

    # -- sampling ------------------------------------------------------------------------------------------------

    @property
    def sampling_variance(self) -> float:
        """The variance of the mean of f over all probes, in units of the variance of f over the bulk."""
        return self.variance_of_probes(self.bulk_dimension)

    def variance_of_probes(self, n: float) -> float:
        """Return `sampling_variance` as it is for n eigenvalues."""
        if self.probes not in RANDOM_PROBES or n <= 0:
            return 0.0
        one = 2.0 / (n + 2)
        if self.probes == "rademacher":
            one *= 1 + 2 / n  # an upper bound: Rademacher probes do not err on diagonal matrices
        elif self.dtype.startswith("complex"):
            one = 1.0 / (n + 1)
        return one / self.num_probes

    def sampling_distance(self) -> float:
        """Return the expected W1 distance between the best estimate and the eigenvalues, due to the random probes."""
        return self.resolved.sampling_distance() * self.dimension / max(self.bulk_dimension, 1)


def _as_atoms(rule: Rule) -> Atoms:
    """Return the nodes of an exact rule as atoms; nodes of rounding weight are left out."""
    heavy = rule.weights > 100 * np.finfo(np.float64).eps
    return Atoms(rule.nodes[heavy], rule.weights[heavy] / np.sum(rule.weights[heavy]))
