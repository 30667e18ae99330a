"""Vector operations on JAX arrays."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from numpy.typing import NDArray

from specdens._vectors import Array, Terms, Vectors


class JaxVectors(Vectors):
    """The same operations on JAX arrays, which are immutable: every result is a new array.

    JAX computes in float64 only where it is allowed to; the reductions allow it for themselves.
    """

    def assign(self, x: Array, index: Any, values: Array) -> Array:
        return x.at[index].set(values)

    def copy(self, x: Array) -> Array:
        return self.xp.asarray(x, copy=True)

    def from_host(self, values: NDArray[Any], dtype: Any = None) -> Array:
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

    def axpy(self, a: Array, x: Array, y: Array) -> Array:
        return y + self._narrow(a) * x

    def three_term(
        self, w: Array, v: Array, v_prev: Array, terms: Terms, *, dots: bool = True, squares: bool = True
    ) -> tuple[Array, Array, Array]:
        if terms.b is not None:
            w = self.axpy(terms.b, v, w)
        if terms.a is not None:
            w = self.scale(terms.a, w)
        if terms.c is not None:
            w = self.axpy(terms.c, v_prev, w)
        return w, self.dot(v, w) if dots else None, self.dot(w, w) if squares else None

    def precisely(self) -> AbstractContextManager[Any]:
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
