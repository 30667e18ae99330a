"""What of a measure is drawn as point masses and what as a curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from specdens._density.kernel_width import Width, constant_width
from specdens._density.levels import arrange_levels, is_few_levels
from specdens._density.pieces import PointMasses, atom_intervals, standing_apart, union
from specdens._density.run_resolution import width_of_run
from specdens._distributions.atoms import Atoms
from specdens._distributions.interval import Interval

if TYPE_CHECKING:
    from specdens._measure.base import Measure
    from specdens._measure.quadrature import Rule

TAIL = 4.0
"""Widths beyond which a Gaussian has 6e-5 of its mass: a point mass that is further from all else stays one."""


class Plan(NamedTuple):
    """What is drawn as point masses and what as a curve, how wide, between which ends."""

    points: PointMasses
    rules: tuple[Rule, ...]
    """The rules of the curve, if their steps limit it."""
    width: Width | None = None
    bands: Sequence[Interval] = ()
    words: str = "the estimated distribution"


def plan_drawing(measure: Measure, width: float | None, points: PointMasses) -> Plan:
    """Return how to draw a measure.

    Levels of probes that broke down are exact. Where nothing else was asked for, few of them are point masses, and many
    a curve between their gaps. At a width that was asked for all are part of the curve, but for those that stand apart
    at that width, and at the resolution that there is without it.
    """
    levels = measure.exact_levels
    is_exact = not measure.smooth_rules
    known = atom_intervals(measure, measure.known_atoms)
    resolution: Width = constant_width(0.0)
    if is_exact and not is_few(measure):
        num_probes = measure.num_probes if measure.sampling_variance else np.inf
        arranged = arrange_levels(levels, dimension=measure.dimension, num_probes=num_probes)
        alone = Atoms(levels.positions[arranged.alone], levels.masses[arranged.alone])
        points = union(atom_intervals(measure, alone), points)
        resolution = arranged.width
        if width is None:
            bands = [Interval(lo, hi) for lo, hi in arranged.bands]
            return Plan(union(known, points), (), arranged.width, bands, f"all {levels.positions.size} levels")
    elif width is not None and measure.smooth_rules:
        resolution = width_of_run(measure, points, measure.bounds())
    if width is not None:
        points = PointMasses(*np.empty((3, 0))) if is_few(measure) else points
        distance = TAIL * np.maximum(resolution(points.positions), width)
        apart = standing_apart(points, measure.whole_cdf, distance, 0.5 / measure.dimension)
        rules = () if is_exact else measure.smooth_rules
        return Plan(union(known, apart), rules, constant_width(width))
    return Plan(union(atom_intervals(measure, measure.atoms), points), measure.smooth_rules)


def is_few(measure: Measure) -> bool:
    """Return whether all is known and consists of few levels."""
    return not measure.smooth_rules and is_few_levels(measure.exact_levels, measure.dimension)
