"""Densities drawn from Chebyshev moments with the kernels of the kernel polynomial method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from specdens._chebyshev.kernels import kernel_cells, kernel_coefficients, kernel_table
from specdens._chebyshev.moments import angles, chebyshev_cdf
from specdens._density.density import Density
from specdens._density.estimators import finish
from specdens._density.grid import uniform_edges
from specdens._density.smoothing import local_mean, standard_error, variance_masses
from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval

if TYPE_CHECKING:
    from specdens._measure.base import Measure
    from specdens._measure.quadrature import Rule

_ENTRIES = 2**20  # of a matrix that is made at once


def chebyshev_density(
    measure: Measure,
    mus: Floats,
    interval: Interval,
    kernel: str,
    *,
    num_points: int = 1024,
    edges: Floats | None = None,
) -> Density:
    """Draw moments, one row for every smooth rule, with a kernel; the default grid spans the interval.

    The moments are exact, so that the only error against the exact spectrum drawn with the same kernel is that of
    sampling.
    """
    edges = uniform_edges(interval.lo, interval.hi, num_points) if edges is None else edges
    g = kernel_coefficients(kernel, mus.shape[1])
    if mus.shape[0]:
        values = np.diff(chebyshev_cdf(mus.mean(axis=0) * g, interval, edges)) / np.diff(edges)
        if kernel != "dirichlet":
            values = np.maximum(values, 0.0)  # the other kernels are positive, to rounding
        spread = _kernel_spread(g, measure.smooth_rules, edges, interval, measure.bulk_dimension)
        stderr = standard_error(values, measure.sampling_variance * spread)
    else:
        values = stderr = np.zeros(edges.size - 1)
    words, resolution = f"{kernel.capitalize()}, {mus.shape[1]} moments", jackson_width(g.size, edges, interval)
    return finish(measure, values, stderr, edges, kernel=words, resolution=resolution)


def _kernel_spread(g: Floats, rules: Sequence[Rule], edges: Floats, interval: Interval, dimension: int) -> Floats:
    """Return the variance over the spectrum of the kernel's average over every cell.

    It takes the probes' Gauss rules; these are a comb at the scale of the kernel, so the result is averaged over four
    widths of it.
    """
    table = kernel_table(g)
    first, second = np.zeros((2, edges.size - 1))
    step = max(1, _ENTRIES // edges.size)
    for rule in rules:
        masses = variance_masses(rule.weights, dimension)
        for start in range(0, rule.nodes.size, step):
            j = slice(start, start + step)
            cells = kernel_cells(table, edges, rule.nodes[j], interval)
            first += cells @ rule.weights[j] / len(rules)
            second += np.square(cells) @ masses[j] / len(rules)
    return local_mean(edges, np.maximum(second - first**2, 0.0), 2 * jackson_width(g.size, edges, interval))


def jackson_width(num_moments: int, edges: Floats, interval: Interval) -> Floats:
    """Return the standard deviation of the Jackson kernel at every cell [Weiße et al. 2006, section II.C.3]."""
    q, phi = np.pi / num_moments, angles((edges[1:] + edges[:-1]) / 2, interval)
    return np.asarray(interval.width / 2 * q * np.hypot(np.sin(phi), q))
