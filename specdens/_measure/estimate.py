"""Estimates with their standard error."""

from __future__ import annotations

from typing import NamedTuple

from specdens._distributions.cdf import Floats


class Estimate(NamedTuple):
    """A value and its standard error.

    Attributes
    ----------
    value : float
        The estimate.
    stderr : float
        Its standard error.
    """

    value: float
    stderr: float


class Estimates(NamedTuple):
    """Several values and their standard errors.

    Attributes
    ----------
    value : ndarray
        The estimates.
    stderr : ndarray
        Their standard errors, of the same shape.
    """

    value: Floats
    stderr: Floats
