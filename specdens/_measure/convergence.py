"""How far a measure is from its limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from specdens._distributions.cdf import Cdf, mixture, wasserstein
from specdens._distributions.interval import Interval
from specdens._measure.quadrature import Rule

if TYPE_CHECKING:
    from specdens._measure.base import Measure


class Convergence(NamedTuple):
    """How far a measure is from its limit, in W1 divided by the width of the spectrum.

    Attributes
    ----------
    steps : float
        The distance between half of the steps and all of them: what more steps can still change is less.
    probes : float
        The mean over probes of the distance to the others; nan for a single probe.
    sampling : float
        The expected distance between this measure and that of the eigenvalues, due to the random probes.
    bound : float
        The Chebyshev–Markov–Stieltjes bound on the quadrature error of the raw nodes and weights.
    advice : str
        What to add next, steps or probes, and what it would bring.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> convergence = sd.fast_lanczos(np.diag(np.linspace(0, 1, 5000)), num_steps=64, num_probes=4).convergence()
    >>> convergence.steps < convergence.sampling  # more probes would help, more steps would not
    True
    """

    steps: float
    probes: float
    sampling: float
    bound: float

    @property
    def advice(self) -> str:
        """What to add next, and what it would bring, in words."""
        left = self.steps / 2  # if the error falls like 1 / steps
        errors = f"error of about {math.hypot(left, self.sampling):.1g} of the width: steps {left:.1g}, "
        errors += f"probes {self.sampling:.1g}"
        if left == self.sampling == 0:
            return "exact: neither steps nor probes would add anything"
        if left > self.sampling:
            return f"{errors}. More steps: twice as many would bring it to {math.hypot(left / 2, self.sampling):.1g}."
        return f"{errors}. More probes: twice as many would bring it to {math.hypot(left, self.sampling / 2**0.5):.1g}."


def assess_convergence(measure: Measure) -> Convergence:
    """Return how far a measure is from its limit."""
    width = measure.bounds().width
    if not measure.num_probes or width == 0:
        return Convergence(0.0, float("nan"), 0.0, 0.0)
    half = measure.shortened(lambda k: k // 2)
    is_shorter = any(a.nodes.size < b.nodes.size for a, b in zip(half.rules, measure.rules, strict=True))
    bound = float(np.mean([_quadrature_bound(rule, measure.bounds()) for rule in measure.rules])) / width
    cdfs = measure.probe_cdfs
    between = [wasserstein(cdf, mixture(_others(cdfs, j))) for j, cdf in enumerate(cdfs)] if len(cdfs) > 1 else [np.nan]
    return Convergence(
        # one step has no shorter run to compare with
        steps=wasserstein(half.probes_cdf, measure.probes_cdf) / width if is_shorter else bound,
        probes=float(np.mean(between)) / width,
        sampling=measure.sampling_distance() / width,
        bound=bound,
    )


def _others(cdfs: Sequence[Cdf], j: int) -> list[tuple[float, Cdf]]:
    return [(1.0 / (len(cdfs) - 1), cdf) for i, cdf in enumerate(cdfs) if i != j]


def _quadrature_bound(rule: Rule, interval: Interval) -> float:
    """Return Σ max(ω_j, ω_{j+1})(θ_{j+1} − θ_j), the ends of the spectrum included (Chebyshev–Markov–Stieltjes)."""
    if rule.exact:
        return 0.0
    nodes = np.concatenate([[interval.lo], rule.nodes, [interval.hi]])
    weights = np.concatenate([[0.0], rule.weights, [0.0]])
    return float(np.sum(np.maximum(weights[:-1], weights[1:]) * np.diff(nodes)))
