"""Readings of functions of an operator: traces and moments, with errors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from specdens._distributions.cdf import Floats
from specdens._measure.core import MeasureCore
from specdens._measure.estimate import Estimate
from specdens._measure.quadrature import values_of
from specdens._validate import as_count, named_as


@named_as("Measure")
class FunctionReadings(MeasureCore):
    """The part of `Measure` that reads functions of the operator."""

    def trace(self, f: Callable[[Floats], ArrayLike] = np.asarray) -> Estimate:
        """Return the trace of f(A); of A itself without a function.

        Parameters
        ----------
        f : callable, optional
            A function of an array of eigenvalues, real or complex, for instance ``np.log`` (log-determinant),
            ``lambda x: abs(x)**p`` (Schatten norm), ``np.exp`` (Estrada index), ``np.reciprocal`` (trace of the
            inverse).

        Returns
        -------
        Estimate
            The trace and its standard error: sampling, quadrature and rounding. Of a complex function the value is
            complex, and the error that of its magnitude.

        Warns
        -----
        SpecdensWarning
            If the start vectors were given: their measure is not that of the eigenvalues. `mean` reads theirs.

        Raises
        ------
        ValueError
            If f is not finite on the nodes.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> A = np.diag(np.linspace(1, 2, 1000))
        >>> value, stderr = sd.fast_lanczos(A, num_probes=10).trace(np.log)
        >>> bool(abs(value - np.log(np.linspace(1, 2, 1000)).sum()) < 2 * stderr)
        True
        """
        self.warn_of_weights("trace", "mean(f)")
        return self.sum_of(f)

    def sum_of(self, f: Callable[[Floats], ArrayLike]) -> Estimate:
        """Return n times the mean of f over the measure."""
        if not self._is_complex(f):
            return self.resolved.trace(f)
        real = self.resolved.trace(lambda x: np.real(f(x)))
        imaginary = self.resolved.trace(lambda x: np.imag(f(x)))
        value = complex(real.value, imaginary.value)
        return Estimate(value, math.hypot(real.stderr, imaginary.stderr))  # type: ignore[arg-type]

    def _is_complex(self, f: Callable[[Floats], ArrayLike]) -> bool:
        """Return whether f has complex values on the nodes."""
        nodes = np.concatenate([self.known_atoms.positions, *(rule.nodes for rule in self.rules)])
        return bool(np.iscomplexobj(values_of(f, nodes)))

    def moments(self, num_moments: int) -> Floats:
        """Return the means of λ⁰, λ¹, …, λ^(num_moments−1) over the spectrum.

        Parameters
        ----------
        num_moments : int
            The number of moments, that of degree 0 included.

        Returns
        -------
        ndarray
            The moments, in increasing degree.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> sd.fast_lanczos(np.diag([1.0, 3.0]), probes=np.ones(2)).moments(3).round(12)
        array([1., 2., 5.])
        """
        return self.resolved.moments(as_count("num_moments", num_moments))
