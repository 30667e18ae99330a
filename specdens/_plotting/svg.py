"""A density in a notebook: what it says of itself, and a small picture that needs no plotting library."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from specdens._distributions.cdf import Floats

if TYPE_CHECKING:
    from specdens._density.density import Density

_WIDTH, _HEIGHT, _FOOT, _POINTS = 420, 120, 18, 210


def density_html(density: Density) -> str:
    """Return the text of a density under a picture of it."""
    # the colours of page and text are the notebook's own, light or dark: currentColor
    return f"<div>{_picture(density)}<pre>{html.escape(repr(density))}</pre></div>"


def _picture(density: Density) -> str:
    """Return the curve, its band and its atoms as SVG."""
    lo, hi = float(density.edges[0]), float(density.edges[-1])
    lo = min([lo, *density.atoms.positions.tolist()])
    hi = max([hi, *density.atoms.positions.tolist()])
    step = max(1, -(-density.grid.size // _POINTS))
    starts = np.arange(0, density.grid.size, step)
    x = _across(density.grid[np.minimum(starts + step // 2, density.grid.size - 1)], lo, hi)
    peak = float(np.max(density.values, initial=0.0)) or 1.0
    curve, upper, lower = (
        _up(np.maximum.reduceat(y, starts) / peak)
        for y in (density.values, density.values + 2 * density.stderr, density.values - 2 * density.stderr)
    )
    stems = "".join(
        f'<path d="M{at:.1f} {_HEIGHT}V{_HEIGHT * 0.3:.1f}"/><circle cx="{at:.1f}" cy="{_HEIGHT * 0.3:.1f}" r="2.5"/>'
        for at in _across(density.atoms.positions, lo, hi)
    )
    band = _points(np.concatenate([x, x[::-1]]), np.concatenate([upper, lower[::-1]]))
    axis = html.escape(density.axis)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 -4 {_WIDTH + 8} {_HEIGHT + _FOOT + 4}" '
        f'width="{_WIDTH}" fill="none" stroke="currentColor" role="img" aria-label="density per unit {axis}">'
        f'<polygon points="{band}" fill="#2a8fd0" fill-opacity="0.3" stroke="none"/>'
        f'<polyline points="{_points(x, curve)}" stroke="#2a8fd0" stroke-width="1.5"/>'
        f'<g stroke="#d55e00">{stems}</g><path d="M0 {_HEIGHT}H{_WIDTH}"/>'
        f'<g fill="currentColor" stroke="none" font-size="11" font-family="sans-serif">'
        f'<text x="0" y="{_HEIGHT + 14}">{_tick(lo, hi)}</text>'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT + 14}" text-anchor="middle">{axis}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 14}" text-anchor="end">{_tick(hi, lo)}</text></g></svg>'
    )


def _across(x: Floats, lo: float, hi: float) -> Floats:
    return (x - lo) / (hi - lo) * _WIDTH if hi > lo else np.full(x.shape, _WIDTH / 2)


def _up(share: Floats) -> Floats:
    return _HEIGHT * (1 - np.clip(share, 0.0, 1.0) * 0.95)


def _tick(end: float, other: float) -> str:
    """Return an end of the axis in four digits; what is zero beside the other end is 0."""
    return "0" if abs(end) <= 1e-9 * abs(other) else f"{end:.4g}"


def _points(x: Floats, y: Floats) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
