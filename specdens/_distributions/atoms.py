"""Point masses of a measure: eigenvalues that are known, and are never smoothed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Atoms(NamedTuple):
    """Positions and masses of point masses, in increasing order of position.

    Attributes
    ----------
    positions : ndarray
        Where they are.
    masses : ndarray
        Their shares of all eigenvalues.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> positions, masses = sd.spectral_density(np.diag([1.0, 1.0, 1.0, 5.0])).atoms
    >>> positions.round(12).tolist(), masses.round(12).tolist()
    ([1.0, 5.0], [0.75, 0.25])
    """

    positions: NDArray[np.float64]
    masses: NDArray[np.float64]

    @classmethod
    def none(cls) -> Atoms:
        """Return no atoms.

        Returns
        -------
        Atoms
            Empty arrays.
        """
        return _NONE

    def mass(self) -> float:
        """Return the sum of the masses.

        Returns
        -------
        float
            The sum.
        """
        return float(np.sum(self.masses))

    def scaled(self, factor: float) -> Atoms:
        """Return the atoms with their masses multiplied by a factor.

        Parameters
        ----------
        factor : float
            The factor.

        Returns
        -------
        Atoms
            Atoms at the same positions.
        """
        return Atoms(self.positions, self.masses * factor)


_NONE = Atoms(np.empty(0), np.empty(0))  # asked for at every step of a recurrence


def merge_atoms(groups: Iterable[Atoms], *, tolerance: float) -> Atoms:
    """Return the union of several sets of atoms, those within `tolerance` of the first of them as one.

    It stands at their center of mass. Chains of close neighbours that reach further are cut.
    """
    groups = list(groups)
    positions = np.concatenate([group.positions for group in groups] or [np.empty(0)])
    masses = np.concatenate([group.masses for group in groups] or [np.empty(0)])
    if positions.size == 0:
        return Atoms.none()
    order = np.argsort(positions, kind="stable")
    positions, masses = positions[order], masses[order]
    starts = _starts(positions, tolerance)
    merged = np.add.reduceat(masses, starts)
    # the center is taken relative to the first member, so that rounding does not move an atom that stands alone
    offsets = positions - np.repeat(positions[starts], np.diff(np.append(starts, positions.size)))
    safe = np.where(merged > 0, merged, 1.0)
    return Atoms(positions[starts] + np.add.reduceat(masses * offsets, starts) / safe, merged)


def _starts(positions: NDArray[np.float64], tolerance: float) -> NDArray[np.intp]:
    """Return where groups begin: at what is more than `tolerance` beyond the beginning of the last one."""
    starts = np.flatnonzero(np.concatenate([[True], np.diff(positions) > tolerance]))
    ends = np.append(starts[1:], positions.size)
    cuts = list(starts)
    for begin, end in zip(starts, ends, strict=True):
        while positions[end - 1] - positions[begin] > tolerance:  # a chain
            begin += np.searchsorted(positions[begin:end], positions[begin] + tolerance, side="right")
            cuts.append(begin)
    return np.sort(np.array(cuts, dtype=np.intp))
