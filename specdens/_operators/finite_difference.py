"""Hessian products from gradients alone, by central differences, with an estimate of their error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specdens._operators.base import Operator
from specdens._typing import Array
from specdens._validate import as_positive
from specdens._vectors.base import dtype_name
from specdens._vectors.factory import vectors_like
from specdens._vectors.probes import gaussian_probe_block

_NUM_STEPS = 9  # steps that are tried, each four times the one before
_TRIAL_PROBE = 2**32 - 1  # a random vector that neither densities nor eigensolvers use


class FiniteDifference(Operator):
    """The Hessian of a function whose gradient can be evaluated: A v ≈ (g(θ + h v) − g(θ − h v)) / 2h.

    For models that have no second derivatives, such as those sharded by an engine of their own or with kernels that
    can be differentiated once. A product costs two gradients. Exact products are better wherever they can be had: the
    error is h² times third derivatives plus the rounding of gradients divided by h, ε^⅔ at best.

    Parameters
    ----------
    gradient : callable
        From a flat vector of parameters to the flat gradient there, without side effects.
    point : array
        The parameters θ, of any array library; float64 if at all possible.
    step : float, optional
        h, for v of unit norm. By default the one at which products with h and h/4 differ least, found on a random
        vector from steps around ε^⅓ times the size of θ.

    Attributes
    ----------
    step : float
        h.
    error : float
        The estimated error of a product relative to its norm, on that random vector. The notes of results have it.

    Raises
    ------
    ValueError
        If the estimated error is not below the product itself.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = sd.FiniteDifference(lambda x: x**3, np.array([1.0, 2.0, 3.0]))
    >>> (A @ np.ones(3)).round(6)
    array([ 3., 12., 27.])
    >>> A.error < 1e-6
    True
    """

    has_block_products = False

    def __init__(self, gradient: Callable[[Array], Array], point: Array, *, step: float | None = None) -> None:
        if getattr(point, "ndim", None) != 1:
            raise TypeError(f"`point` must be a flat array of parameters; got {type(point).__name__}")
        if not dtype_name(point.dtype).startswith(("float", "bfloat")):
            raise TypeError(
                f"`point` must hold real floating-point numbers, float64 if possible; got {dtype_name(point.dtype)}"
            )
        if not callable(gradient):
            raise TypeError(f"`gradient` must be a function of a flat array; got {type(gradient).__name__}")
        super().__init__(int(point.shape[0]), vectors_like(point[:0]))
        self._gradient, self.point = gradient, point
        given = None if step is None else as_positive("step", step)
        self.step, self.error = self._chosen_step(given)
        if not self.error < 1.0:
            raise ValueError(
                f"differences of gradients tell nothing here: at the best step, {self.step:.1g}, the estimated error "
                f"is {self.error:.2g} of the product. Use exact products, or compute gradients in float64."
            )
        # tolerances are √eps: half of the digits, or what the differences leave
        self.vectors.eps = max(self.vectors.eps, min(1e-2, (3 * self.error) ** 2))

    @property
    def notes(self) -> tuple[str, ...]:
        """What results should say: how the products were made, and their error."""
        return (
            f"products by finite differences of gradients (step {self.step:.2g}): estimated error {self.error:.1g} of "
            "their norm",
        )

    def apply(self, x: Array) -> Array:
        if x.ndim == 1:
            return self._product(x, self.step)
        out = self.vectors.zeros(tuple(x.shape))
        for j in range(x.shape[1]):
            out = self.vectors.assign(out, (..., j), self._product(self.vectors.copy(x[:, j]), self.step))
        return out

    def _product(self, x: Array, step: float) -> Array:
        vectors = self.vectors
        length = float(vectors.to_host(vectors.norm(x)))
        if length == 0 or not np.isfinite(length):
            return vectors.zeros(tuple(x.shape)) if length == 0 else x * length
        h = step / length
        ahead, behind = (self._at(x, sign * h) for sign in (1.0, -1.0))
        difference = vectors.axpy(self._number(-1.0), behind, vectors.copy(ahead))
        return vectors.scale(self._number(0.5 / h), difference)

    def _at(self, x: Array, h: float) -> Array:
        """Return the gradient at θ + h x, in memory of its own."""
        vectors = self.vectors
        there = self._gradient(vectors.axpy(self._number(h), x, vectors.copy(self.point)))
        if tuple(getattr(there, "shape", ())) != tuple(x.shape):
            raise ValueError(
                f"`gradient` must return a vector of shape {tuple(x.shape)}; got {getattr(there, 'shape', type(there))}"
            )
        if "complex" in str(there.dtype):
            raise TypeError(f"`gradient` must return real numbers; got {dtype_name(there.dtype)}")
        return vectors.copy(there.detach() if hasattr(there, "detach") else there)

    def _chosen_step(self, given: float | None) -> tuple[float, float]:
        """Return the step at which products depend least on it, and how much they do."""
        vectors, n = self.vectors, self.shape[0]
        v = vectors.copy(gaussian_probe_block(vectors, n, [_TRIAL_PROBE], 0)[:, 0])
        middle = vectors.eps ** (1 / 3) * max(float(vectors.to_host(vectors.norm(self.point))), 1.0)
        powers = np.arange(_NUM_STEPS) - _NUM_STEPS // 2
        steps = [given / 4, given] if given is not None else [float(middle * 4.0**power) for power in powers]
        smaller, errors = self._product(v, steps[0]), []
        for step in steps[1:]:
            larger = self._product(v, step)
            apart = vectors.axpy(self._number(-1.0), larger, smaller)
            difference, size = (float(vectors.to_host(vectors.norm(x))) for x in (apart, larger))
            errors.append(difference / size if size > 0 else (0.0 if difference == 0 else np.inf))
            smaller = larger
        best = int(np.nanargmin(np.where(np.isfinite(errors), errors, np.inf)))
        return steps[best + 1], float(errors[best])

    def _number(self, value: float) -> Array:
        return self.vectors.from_host(np.asarray(value), self.vectors.wide)
