"""How much the last steps changed a distribution function around a point: what is left to change is less."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import maximum_filter1d

from specdens._distributions.cdf import Floats

if TYPE_CHECKING:
    from specdens._measure.core import MeasureCore

_FEWER: tuple[Callable[[int], int], ...] = (lambda k: k - 1, lambda k: 3 * k // 4, lambda k: k // 2)
_NEGLIGIBLE = 1e-12  # weights of rounding: such nodes are nobody's neighbours
_REACH = 1.5  # nodes of the shortest run on either side among which the largest change is looked for


class StepChange:
    """The largest change of a measure's distribution function by its last quarter and half of steps, around a point.

    The probes are the same before and after, so that their sampling error is not part of it. Both functions are too
    smooth where a spectrum is finer than the resolution of either: what may hide there is not seen.

    Parameters
    ----------
    measure
        The measure, from which shorter runs are taken.
    """

    def __init__(self, measure: MeasureCore) -> None:
        self._measure = measure

    def __call__(self, x: Floats) -> Floats:
        """Return the largest change within one and a half node spacings of the shortest run around every x."""
        points, changes = self._changes
        at = np.clip(np.searchsorted(points, x), 0, points.size - 1)
        return np.maximum(changes[at], changes[np.maximum(at - 1, 0)])

    @cached_property
    def _changes(self) -> tuple[Floats, Floats]:
        whole, shorter = self._measure.probes_cdf, [self._measure.shortened(cut) for cut in _FEWER]
        rules = shorter[-1].rules
        nodes = np.unique(np.concatenate([rule.nodes[rule.weights > _NEGLIGIBLE] for rule in rules]))
        points = np.sort(np.concatenate([nodes, (nodes[1:] + nodes[:-1]) / 2]))
        change = np.zeros(points.shape)
        for each in shorter:
            for side in ("left", "right"):
                change = np.maximum(change, np.abs(each.probes_cdf(points, side=side) - whole(points, side=side)))
        return points, maximum_filter1d(change, 2 * round(2 * _REACH * len(rules)) + 1)
