"""Vector operations on JAX arrays."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from numpy.typing import ArrayLike

from specdens._typing import Array
from specdens._vectors.base import ThreeTerm, Vectors


class JaxVectors(Vectors):
    """Vectors of JAX, whose arrays are immutable: every result is a new array.

    Reductions enable float64 for themselves, as JAX computes in float32 by default.
    """

    def assign(self, x: Array, index: Any, values: Array) -> Array:
        return x.at[index].set(values)

    def copy(self, x: Array) -> Array:
        return self.xp.asarray(x, copy=True)

    def from_host(self, values: ArrayLike, dtype: Any = None) -> Array:
        import jax

        with jax.enable_x64(True):
            return super().from_host(values, dtype)

    def dot(self, x: Array, y: Array) -> Array:
        import jax

        with jax.enable_x64(True):
            return self.xp.vecdot(self._wide(x), self._wide(y), axis=-x.ndim)

    def norm(self, x: Array) -> Array:
        import jax

        with jax.enable_x64(True):
            return super().norm(x)

    def largest(self, x: Array) -> Array:
        return self.xp.max(self.xp.abs(x))

    def axpy(self, a: Array, x: Array, y: Array) -> Array:
        return y + self._narrow(a) * x

    def _three_term(self, task: ThreeTerm) -> tuple[Array, Array, Array]:
        w, v, (a, b, c) = task.w, task.v, task.terms
        if b is not None:
            w = self.axpy(b, v, w)
        if a is not None:
            w = self.scale(a, w)
        if c is not None:
            w = self.axpy(c, task.v_prev, w)
        return w, self.dot(v, w) if task.dots else None, self.dot(w, w) if task.squares else None

    def float64_enabled(self) -> AbstractContextManager[Any]:
        import jax

        context: AbstractContextManager[Any] = jax.enable_x64(True)
        return context

    def scale(self, a: Array, x: Array) -> Array:
        return x * self._narrow(a)

    def coefficients(self, Q: Array, x: Array) -> Array:
        import jax

        with jax.enable_x64(True):
            return self.xp.conj(self._wide(Q)).T @ self._wide(x)

    def subtract(self, Q: Array, c: Array, x: Array) -> Array:
        return x - Q @ self._narrow(c)

    def combine(self, Q: Array, c: Array) -> Array:
        return Q @ self._narrow(c)
