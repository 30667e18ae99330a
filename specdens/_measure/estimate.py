"""Estimates with their standard error."""

from __future__ import annotations

from typing import NamedTuple

from scipy.special import chdtri, ndtri

from specdens._distributions.cdf import Floats
from specdens._distributions.interval import Interval
from specdens._measure.error_arithmetic import ErrorArithmetic, NumberWithError

_NORMAL = 1e6  # degrees of freedom from which on χ² is normal to all digits that matter


class _Pair(NamedTuple):
    """The fields of an estimate."""

    value: float
    stderr: float


class Estimate(NumberWithError["Estimate"], _Pair):  # type: ignore[misc]  # numbers add where tuples concatenate
    """A value and its standard error.

    It unpacks as the pair ``value, stderr`` and is a number besides: it compares with numbers by its value, and sums
    with numbers, multiples and quotients carry the error along. Two estimates do not add up: their errors may depend on
    each other.

    Attributes
    ----------
    value : float
        The estimate; complex for the trace of a complex function.
    stderr : float
        Its standard error.

    Examples
    --------
    >>> import specdens as sd
    >>> estimate = sd.Estimate(10.0, 1.0)
    >>> estimate, estimate / 4 + 1, f"{estimate:.1f}", estimate > 5
    (10.0 ± 1.0, 3.50 ± 0.25, '10.0 ± 1.0', True)
    >>> value, stderr = estimate
    """

    __slots__ = ()

    def _made(self, value: float, stderr: float) -> Estimate:
        return Estimate(value, stderr)

    def interval(self, level: float = 0.95) -> Interval:
        """Return an interval that contains the exact value with a given probability: symmetric, as errors are normal.

        Parameters
        ----------
        level : float, default 0.95
            The probability.

        Returns
        -------
        Interval
            The ends.

        Raises
        ------
        ValueError
            If `level` does not lie between 0 and 1, or the value is complex.

        Examples
        --------
        >>> import specdens as sd
        >>> sd.Estimate(10.0, 1.0).interval(0.95)
        Interval(lo=8.040036015459947, hi=11.959963984540053)
        """
        if isinstance(self.value, complex):
            raise ValueError("`interval` is for real estimates; take the real or the imaginary part of the function")
        reach = float(ndtri(0.5 + _as_level(level) / 2)) * self.stderr
        return Interval(self.value - reach, self.value + reach)


class Count(Estimate):
    """A number of eigenvalues and its standard error.

    A probe sees a number of eigenvalues as a χ² variable, which is skew: small numbers are more often underestimated
    than overestimated.

    Attributes
    ----------
    value : float
        The number.
    stderr : float
        Its standard error.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> count = sd.fast_lanczos(np.diag(np.linspace(0, 1, 5001)), num_probes=4).count(0, 0.25)
    >>> lo, hi = count.interval(0.95)
    >>> bool(lo < 1251 < hi)
    True
    """

    __slots__ = ()

    def interval(self, level: float = 0.95) -> Interval:
        """Return an interval that contains the exact number with a given probability, as for χ² of this relative error.

        Parameters
        ----------
        level : float, default 0.95
            The probability.

        Returns
        -------
        Interval
            The ends, neither of which is negative.

        Raises
        ------
        ValueError
            If `level` does not lie between 0 and 1.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> count = sd.fast_lanczos(np.diag(np.linspace(0, 1, 5000)), num_probes=4).count(0.998, 1)
        >>> lo, hi = count.interval()
        >>> bool(0 < count.value - lo < hi - count.value), bool(lo < 10 < hi)
        (True, True)
        """
        lo, hi = super().interval(level)
        freedom = 2 * (self.value / self.stderr) ** 2 if self.value > 0 < self.stderr else 0.0
        if not 1 <= freedom <= _NORMAL:  # a number that is hardly known, or known well
            return Interval(max(lo, 0.0), max(hi, 0.0))
        ends = (freedom * self.value / float(chdtri(freedom, 0.5 + side * level / 2)) for side in (-1, 1))
        return Interval(*ends)


def _as_level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1; got {level!r}. Two standard errors are about 0.95.")
    return float(level)


class _Pairs(NamedTuple):
    """The fields of several estimates."""

    value: Floats
    stderr: Floats


class Estimates(ErrorArithmetic["Estimates"], _Pairs):  # type: ignore[misc]  # as for one
    """Several values and their standard errors.

    Sums with numbers, multiples and quotients carry the errors along.

    Attributes
    ----------
    value : ndarray
        The estimates.
    stderr : ndarray
        Their standard errors, of the same shape.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> counts = sd.spectral_density(np.diag([1.0, 2.0, 3.0])).count([0, 1.5], 2.5)
    >>> counts.value.round(12).tolist(), counts.stderr.tolist()
    ([2.0, 1.0], [0.0, 0.0])
    """

    __slots__ = ()

    def _made(self, value: Floats, stderr: Floats) -> Estimates:
        return Estimates(value, stderr)
