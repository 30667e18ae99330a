"""Point masses of a picture as stems on an axis of their own, with their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from specdens._distributions.cdf import Floats
from specdens._plotting.axes import LOG_AXIS

if TYPE_CHECKING:
    from specdens._density.density import Density

_MASSES = "specdens: point masses"  # the label by which a picture's axis of masses is found again
_LABELS = 12  # values that are written in a picture
_LISTED = 12  # and in a legend
_CROWDED = 20  # stems from which on they are thin and pale
_SHOWN_ERROR = 0.02  # of the height of a stem
STEMS = "eigenvalues that stand apart (right axis)"
_APART = 0.035  # of the width of the picture: labels closer than that would overlap


def masses_axis(ax: Any) -> Any:
    """Return the right-hand axis of point masses that belongs to an Axes, or None."""
    same_place = (other for other in ax.figure.axes if other.get_label() == _MASSES)
    return next((other for other in same_place if ax.get_shared_x_axes().joined(ax, other) and _over(ax, other)), None)


def _over(ax: Any, other: Any) -> bool:
    return ax.get_subplotspec() == other.get_subplotspec() and bool(
        np.allclose(ax.get_position().bounds, other.get_position().bounds)
    )


def draw_atoms(ax: Any, density: Density, color: Any, label: str | None, *, linestyle: str = "-") -> None:
    """Draw the atoms as stems against a second vertical axis: a mass is not a density.

    Those of several densities stand in one another's place where they agree: a dashed stem shows the one below it,
    and the rings around its head grow.
    """
    positions, heights, errors, name = *_stems(density), _stem_name(density)
    if not positions.size:
        return
    twin = masses_axis(ax)
    if twin is None:
        twin = ax.twinx()
        twin.set_label(_MASSES)
        ax.set_zorder(twin.get_zorder() + 1)  # curves before stems
        ax.patch.set_visible(False)
        twin.set_ylabel(_fitting(name, ax), fontsize="small")
    elif twin.get_ylabel() != _fitting(name, ax):
        twin.set_ylabel(_fitting("number of eigenvalues (stems)", ax), fontsize="small")
    size = 4.5 + 2.5 * len(twin.lines)
    twin.vlines(positions, 0.0, heights, color=color, linewidth=1.2, linestyles=linestyle, alpha=0.8)
    twin.plot(positions, heights, "o", color=color, markersize=size, fillstyle="none", label=label or "_nolegend_")
    if np.any(errors > _SHOWN_ERROR * heights):
        lower, upper = np.maximum(heights - errors, 0.0), heights + errors
        twin.vlines(positions, lower, upper, color=color, linewidth=3.0, alpha=0.3)
    if sum(len(line.get_xdata()) for line in twin.lines) > _CROWDED:
        for stems in twin.collections:
            stems.set(linewidth=0.6, alpha=0.4)
        for heads in twin.lines:
            heads.set_markersize(3.5)
    shown = np.concatenate([line.get_ydata() for line in twin.lines])
    lowest, highest = float(np.min(shown)), float(np.max(shown))
    if highest > 30 * lowest:
        twin.set_yscale("log")
        twin.set_ylim(lowest / 3, highest * 30)
    else:
        twin.set_ylim(0.0, 1.6 * highest)
        twin.yaxis.get_major_locator().set_params(integer=density.measure.probes != "given")


def _fitting(name: str, ax: Any) -> str:
    """Return a name of the axis of masses, or a short one where the Axes are too low for it."""
    room = ax.get_window_extent().height / ax.figure.dpi  # inches, of which a small letter takes 0.07
    return name if 0.07 * len(name) <= room or name.startswith("mass") else "eigenvalues (stems)"


def name_stems(ax: Any) -> None:
    """Add one entry to the legend that says what the stems of several densities are."""
    masses_axis(ax).plot([], [], "o", color="grey", markersize=4.5, fillstyle="none", label=STEMS)


def _stems(density: Density) -> tuple[Floats, Floats, Floats]:
    """Return positions, heights and errors of the atoms, without those of less than half an eigenvalue and their error.

    A converged eigenvalue is there, however little is known of its multiplicity.
    """
    atoms, errors = density.atoms, density.atom_stderr
    errors = np.zeros(atoms.masses.size) if errors is None else errors
    unit = density.measure.dimension if density.measure.probes != "given" else 1
    shown = (atoms.masses > errors) | (unit * atoms.masses > 0.5)
    return atoms.positions[shown], unit * atoms.masses[shown], unit * errors[shown]


def _stem_name(density: Density) -> str:
    if density.measure.probes == "given":
        return "mass (stems)"
    known = density.measure.probes == "exact"
    known = known or density.atoms.positions.size <= density.measure.known_atoms.positions.size
    return f"{'' if known else 'estimated '}number of eigenvalues\n(stems), of {density.measure.dimension}"


# -- names -------------------------------------------------------------------------------------------------------------


def annotate(ax: Any, density: Density, values: Floats, color: Any, label: str) -> None:
    """Write eigenvalues beside their stems, or over a mark on the axis where they have none.

    Those of the largest mass come first, then zero, then the largest. What finds no room beside the others is listed in
    the legend.
    """
    places = _places(density, values)
    stems, heights, _ = _stems(density)
    faint = density.atoms.positions[~np.isin(density.atoms.positions, stems)]
    places = [(x, value) for x, value in places if x not in faint]
    twin = masses_axis(ax)
    across = ax.get_xaxis_transform()
    named = [text.xy[0] for text in ax.texts if hasattr(text, "xy")]
    room, left_out = len(named) + _LABELS, []
    masses = dict(zip(density.atoms.positions.tolist(), density.atoms.masses.tolist(), strict=True))
    single = 1.5 / density.measure.dimension  # masses of single eigenvalues differ by their errors alone

    def rank(place: tuple[float, float]) -> tuple[float, bool, float]:
        mass = masses.get(place[0], 0.0)
        return -mass if mass > single else 0.0, format_eigenvalue(place[1], density) != "0", -abs(place[1])

    for x, value in sorted(places, key=rank):
        pixels = [abs(np.diff(across.transform([(x, 0.0), (other, 0.0)])[:, 0])[0]) for other in named]
        if len(named) == room or any(distance < _APART * ax.bbox.width for distance in pixels):
            left_out.append(value)
            continue
        named.append(x)
        at = np.flatnonzero(stems == x)
        height = float(heights[at[0]]) if at.size else 0.0
        ax.annotate(
            format_eigenvalue(value, density), (x, height if at.size else 0.0), xytext=(0, 7),
            textcoords="offset points", xycoords=twin.transData if at.size and twin is not None else across,
            rotation=90, ha="center", va="bottom", fontsize="small",
        )  # fmt: skip
    free = [x for x, _ in places if not np.any(density.atoms.positions == x)]
    if free:
        ax.plot(free, np.zeros(len(free)), "^", color=color, markersize=5, transform=across,
                clip_on=False, label=label)  # fmt: skip
    if left_out and label != "_nolegend_":
        ax.plot([], [], " ", label=_listed(left_out, density))


def _listed(values: list[float], density: Density) -> str:
    words = [format_eigenvalue(value, density) for value in sorted(values)]
    shown = words if len(words) <= _LISTED else [*words[: _LISTED // 2], "…", *words[-_LISTED // 2 :]]
    rows = [", ".join(shown[i : i + 4]) for i in range(0, len(shown), 4)]
    return "not labelled: " + ",\n".join(rows)


def format_eigenvalue(value: float, density: Density) -> str:
    """Return an eigenvalue in four digits; what is zero to rounding is 0."""
    scale = max(abs(float(density.edges[0])), abs(float(density.edges[-1])))
    # a Ritz value is as exact as its residual squared; what a linear axis cannot show is rounding
    rounding = 1e3 * density.measure.eps if density.axis in (LOG_AXIS, "|λ|") else density.measure.eps**0.5
    return "0" if abs(value) <= rounding * scale else f"{value:.4g}"


def _places(density: Density, values: Floats) -> list[tuple[float, float]]:
    """Return pairs of place on the axis and eigenvalue, those at the same place once."""
    x = np.array(PLACES[density.axis](values, density.epsilon or 0.0))
    for i, place in enumerate(x):  # an atom is where it is drawn, to the last bit
        near = np.isclose(density.atoms.positions, place, rtol=1e-9, atol=1e-9 * np.max(np.abs(density.edges)))
        if np.any(near):
            x[i] = density.atoms.positions[near][0]
    return list(dict(zip(x.tolist(), values.tolist(), strict=True)).items())


PLACES: dict[str, Callable[[Floats, float], Floats]] = {
    "λ": lambda x, _: x,
    "|λ|": lambda x, _: np.abs(x),
    LOG_AXIS: lambda x, epsilon: np.log(np.abs(x) + epsilon),
}
"""From an eigenvalue to its place on an axis, given ε."""
