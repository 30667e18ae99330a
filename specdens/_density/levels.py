"""Exact spectra as curves: where bands are, how far apart their levels are, and which levels stand alone.

All eigenvalues are known, so that the resolution of a picture is a choice: a few distances between neighbouring levels.
Gaps between bands stay empty; isolated and degenerate levels are point masses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from specdens._density.kernel_width import Width, interpolated_width
from specdens._density.pieces import Pieces
from specdens._distributions.atoms import Atoms
from specdens._distributions.cdf import Floats

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

FEW_LEVELS = 32
"""So many levels are drawn as they are, each a point mass."""

_CROWDED = 16.0  # eigenvalues of the median level from which on every level is a degenerate one
_HEAVY = 8.0  # multiplicity of a degenerate level, in units of the median of its neighbours'
_MANY = 30.0  # eigenvalues × random probes that such a level stands for: a simple one looks as heavy in one of 10⁷
_SIDE = 24  # levels on either side that a gap or a multiplicity is compared with
_ENOUGH_GAPS = 5  # for a median
_ALONE = 5.0  # gaps on both sides of an isolated level, in units of the median gap beyond them; twice that at random
_WIDE = 10.0  # a gap between bands, likewise
_FEWEST = 8  # levels of a band; fewer are point masses
_MOST_ALONE = 0.25  # share of levels in such small bands from which on they are the spectrum's own structure
_STEPS = 128  # of a run whose resolution a picture of all eigenvalues has
_SPACINGS = 0.6  # kernel width, in units of the distance between the nodes of that run, if levels are evenly spaced
_AT_RANDOM = 4.0  # how much wider it is if simple levels lie at random
_NOISY = 56.0  # eigenvalues × probes within the kernel width: the sampling error is then 10 %
_SHARE = 1 / 6  # widest kernel, as a share of its band: what is folded at one end does not reach the other
_COPIES = 1e-6  # distance of levels that count as one among the neighbours, as a share of the spectrum's width


class Levels(NamedTuple):
    """How to draw an exact spectrum: which levels are point masses, the kernel width, the ends of the bands."""

    alone: Mask
    width: Width
    bands: list[tuple[float, float]]


def run_steps(num_levels: int) -> int:
    """Return the steps of a run whose resolution a picture of so many known levels has."""
    return min(_STEPS, num_levels // 4) if num_levels > FEW_LEVELS else num_levels


def is_few_levels(levels: Atoms, dimension: int) -> bool:
    """Return whether levels are all to be drawn as point masses: there are few, or each is degenerate."""
    k = levels.positions.size
    return k <= FEW_LEVELS or dimension * float(np.median(levels.masses)) >= _CROWDED


def arrange_levels(levels: Atoms, *, dimension: int, num_probes: float) -> Levels:
    """Return how to draw the levels of an exact spectrum.

    Parameters
    ----------
    levels
        All levels that are not known otherwise, in increasing order.
    dimension
        The number of eigenvalues of the whole spectrum.
    num_probes
        The random probes that the masses come from; infinite if these are exact.
    """
    x = levels.positions
    alone = _degenerate(levels.masses) & (num_probes * dimension * levels.masses > _MANY)
    alone[~alone] = _isolated(x[~alone])
    groups = _bands(x[~alone])
    small = [group for group in groups if group.size < _FEWEST]
    if small and sum(group.size for group in small) <= max(FEW_LEVELS, _MOST_ALONE * x.size):
        alone |= np.isin(x, np.concatenate(small))
        groups = [group for group in groups if group.size >= _FEWEST]
    groups = [group for group in groups if group.size > 1]
    alone |= ~np.isin(x, np.concatenate([np.empty(0), *groups]))
    if not groups:
        return Levels(alone, lambda at: np.full(np.shape(at), np.ptp(x) / 100), [])
    count = sum(group.size for group in groups)
    multiplicity = dimension * float(np.sum(levels.masses[~alone])) / count
    number = max(_SPACINGS * max(4.0, count / _STEPS), min(_NOISY / (num_probes * multiplicity), 2.0 * _SIDE))
    widths = np.concatenate([_band_width(group, number, multiplicity) for group in groups])
    bands = [(float(group[0]), float(group[-1])) for group in groups]
    return Levels(alone, interpolated_width(np.concatenate(groups), widths), bands)


def spread_levels(x: Floats, masses: Floats, bands: Sequence[tuple[float, float]]) -> Pieces:
    """Return the masses of the levels of every band spread evenly between neighbours, and between the band's ends.

    The cumulative mass moves by half of one level's at most. Without this, the outermost levels would be peaks.
    """
    parts = []
    for lo, hi in bands:
        own = slice(np.searchsorted(x, lo), np.searchsorted(x, hi, side="right"))
        at, mass = x[own], masses[own]
        if at.size < 2:
            parts.append(Pieces(at, at, mass))
            continue
        between = (mass[1:] + mass[:-1]) / 2
        parts.append(Pieces(at[:-1], at[1:], between * (np.sum(mass) / np.sum(between))))
    return Pieces(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _band_width(x: Floats, number: float, multiplicity: float) -> Floats:
    """Return the kernel width at the levels of one band: `number` times the mean distance of the levels around.

    It is more where simple levels are irregular, so that the curve is smooth.
    """
    irregular = float(np.mean(_irregularity(np.diff(x))))
    number *= max(1.0, (1 + (_AT_RANDOM - 1) * irregular) / multiplicity)
    i, reach = np.arange(x.size), int(np.ceil(2 * number * (1 + 2 * irregular)))
    first, last = np.maximum(i - reach, 0), np.minimum(i + reach, x.size - 1)
    spacing = (x[last] - x[first]) / (last - first)
    floor = 1e-9 * max(float(np.max(np.abs(x))), 1e-300)
    return np.asarray(np.maximum(np.minimum(number * spacing, _SHARE * (x[-1] - x[0])), floor))


def _irregularity(gaps: Floats) -> Floats:
    """Return how irregular the gaps around each are: 0 for even spacing, 0.5 for a random matrix, 1 at random."""
    sums = gaps[1:] + gaps[:-1]
    ratios = np.square(np.diff(gaps) / np.where(sums > 0, sums, 1.0))
    total = np.concatenate([[0.0], np.cumsum(ratios)])
    i = np.arange(gaps.size)
    first, last = np.minimum(np.maximum(i - _SIDE, 0), ratios.size), np.minimum(i + _SIDE, ratios.size)
    return np.asarray(np.minimum(3 * (total[last] - total[first]) / np.maximum(last - first, 1), 1.0))


def _degenerate(masses: Floats) -> Mask:
    """Return which levels are heavy beside their neighbours."""
    if masses.size <= 2 * _ENOUGH_GAPS:
        return np.zeros(masses.size, dtype=np.bool_)
    side = min(_SIDE, masses.size - 1)
    around = sliding_window_view(np.pad(masses, side, mode="reflect"), 2 * side + 1)
    return np.asarray(masses > _HEAVY * np.median(around, axis=1), dtype=np.bool_)


def _isolated(x: Floats) -> Mask:
    """Return which levels have wide gaps on both sides, beside those beyond; at an end of the spectrum on one."""
    alone = np.zeros(x.size, dtype=np.bool_)
    if x.size < 3:
        return alone
    gaps = np.diff(x)
    left, right = _medians(gaps)
    inner = np.fmin(left[:-1], right[1:])  # beyond the gaps beside levels 1, …, K − 2
    factor = 1 + _irregularity(gaps)
    alone[1:-1] = np.minimum(gaps[:-1], gaps[1:]) > _ALONE * np.maximum(factor[:-1], factor[1:]) * inner
    alone[0], alone[-1] = gaps[0] > _WIDE * factor[0] * right[0], gaps[-1] > _WIDE * factor[-1] * left[-1]
    return alone


def _bands(x: Floats) -> list[Floats]:
    """Return the levels of every band: between wide gaps."""
    if x.size < 2:
        return [x] if x.size else []
    gaps = np.diff(x)
    wide = gaps > _WIDE * (1 + _irregularity(gaps)) * np.fmin(*_medians(gaps))
    return np.split(x, np.flatnonzero(wide) + 1)


def _medians(gaps: Floats) -> tuple[Floats, Floats]:
    """Return for every gap the median of those to its left and to its right; nan where there are too few.

    Gaps between copies do not count.
    """
    counted = np.where(gaps > _COPIES * np.sum(gaps), gaps, np.nan)
    pad = np.full(_SIDE, np.nan)
    windows = sliding_window_view(np.concatenate([pad, counted, pad]), _SIDE)  # window i ends before gap i
    return _median_of(windows[: gaps.size]), _median_of(windows[_SIDE + 1 : _SIDE + 1 + gaps.size])


def _median_of(windows: Floats) -> Floats:
    enough = np.sum(np.isfinite(windows), axis=1) >= _ENOUGH_GAPS
    medians = np.full(windows.shape[0], np.nan)
    medians[enough] = np.nanmedian(windows[enough], axis=1)
    return medians
