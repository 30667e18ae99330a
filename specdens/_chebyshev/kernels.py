"""Kernels of the kernel polynomial method: Jackson, Lorentz and Dirichlet."""

from __future__ import annotations

import numpy as np

from specdens._chebyshev.moments import angles
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._validate import as_choice

CHEBYSHEV_KERNELS = ("jackson", "lorentz", "dirichlet")

_LORENTZ = 4.0  # the resolution λ of the Lorentz kernel [Weiße et al. 2006, section II.C.3]
_TABLE = 32  # points per period of the highest frequency in a table of a kernel


def kernel_coefficients(kernel: str, num_moments: int) -> Floats:
    """Return the factors g_0 = 1, g_1, … by which a kernel damps the moments [Weiße et al. 2006, table II].

    Parameters
    ----------
    kernel
        "jackson" (positive, the narrowest of these: σ ≈ πd/num_moments), "lorentz" (positive, with the tails of a
        Lorentzian of half width 4d/num_moments), "dirichlet" (no damping: sharp where the density is smooth, rings
        where it is not, and may be negative).
    num_moments
        How many moments there are.
    """
    as_choice("kernel", kernel, CHEBYSHEV_KERNELS)
    m = np.arange(num_moments)
    if kernel == "dirichlet":
        return np.ones(num_moments)
    if kernel == "lorentz":
        return np.asarray(np.sinh(_LORENTZ * (1 - m / num_moments)) / np.sinh(_LORENTZ))
    q = np.pi / (num_moments + 1)  # jackson
    return np.asarray(((num_moments - m + 1) * np.cos(q * m) + np.sin(q * m) / np.tan(q)) / (num_moments + 1))


def num_moments_of_width(kernel: str, width: float, interval: Interval, available: float = np.inf) -> int:
    """Return the number of moments with which a kernel has the given width at the center of the interval.

    Parameters
    ----------
    kernel
        "jackson", whose standard deviation is πd/num_moments, or "lorentz", whose half width is 4d/num_moments.
    width
        The width in units of the axis.
    interval
        The interval [c − d, c + d].
    available
        How many moments there are; by default any number.
    """
    scale = (np.pi if kernel == "jackson" else _LORENTZ) * interval.width / 2
    wanted = max(2, round(scale / width))
    if wanted > available:
        raise ValueError(
            f"`width` must be at least {scale / available:.3g}, which {available:g} moments resolve; got {width:g}. "
            "More steps resolve more."
        )
    return wanted


def kernel_table(g: Floats) -> Floats:
    """Return 2 Σ g_m sin(mt)/m, the periodic part of a kernel's antiderivative, over one period."""
    size = 2 ** int(np.ceil(np.log2(_TABLE * g.size)))
    coefficients = np.zeros(size // 2 + 1, dtype=np.complex128)
    coefficients[1 : g.size] = -1j * g[1:] / np.arange(1, g.size)
    table = np.fft.irfft(coefficients, size) * size
    return np.append(table, table[0])


def kernel_cells(table: Floats, edges: Floats, nodes: Floats, interval: Interval) -> Floats:
    """Return the cell averages of the kernel around every node, from its table: good to 1e-3 of the peak."""

    def periodic(t: Floats) -> Floats:
        place = np.mod(t, 2 * np.pi) * ((table.size - 1) / (2 * np.pi))
        i = np.minimum(place.astype(np.int64), table.size - 2)
        return np.asarray(table[i] + (place - i) * (table[i + 1] - table[i]))

    phi, theta = angles(edges, interval)[:, None], angles(nodes, interval)
    cdf = -(2 * phi + periodic(phi - theta) + periodic(phi + theta)) / (2 * np.pi)
    return np.asarray(np.diff(cdf, axis=0) / np.diff(edges)[:, None])
