"""Errors of weighted means."""

from __future__ import annotations

import numpy as np

from specdens._distributions.cdf import Floats


def combine_errors(shares: Floats, values: Floats, errors: Floats) -> Floats:
    """Return the standard error of Σ wᵢ vᵢ over the first axis: the larger of two estimates.

    One combines the errors of the values as independent. The other takes the spread of the values around their mean,
    which has the differences between samples in it.
    """
    own = np.tensordot(shares**2, errors**2, axes=1)
    effective = float(np.sum(shares**2))
    if shares.size == 1:
        return np.asarray(np.sqrt(own))
    mean = np.tensordot(shares, values, axes=1)
    spread = np.tensordot(shares, (values - mean) ** 2, axes=1) * effective / (1.0 - effective)
    return np.asarray(np.sqrt(np.maximum(own, spread)))
