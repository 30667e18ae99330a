"""The few vector operations that must be accurate and in place, for every array library.

A *vector* here is an array of shape (n,), or a block of k vectors as the columns of an (n, k) array. Coefficients
are arrays of shape () or (k,) that live on the device of the vectors, so that nothing waits for the host.
Reductions accumulate in float64, chunk by chunk: no float64 copy of a vector is ever made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import array_api_compat as aac
import numpy as np
from numpy.typing import NDArray

Array = Any
"""An array of any library that follows the array API standard."""

# Elements per chunk. NumPy: the float64 scratch of a chunk stays in cache and below malloc's mmap threshold.
# Elsewhere: long enough to hide the cost of a kernel launch.
_NUMPY_CHUNK = 2**13
_DEVICE_CHUNK = 2**20
# A basis is read by matrix products, which pay only on larger pieces.
_BASIS_CHUNK = 2**18

# What is not finite passes in silence: whoever reads the numbers on the host says so in words.
_quietly = np.errstate(over="ignore", invalid="ignore")


class Vectors:
    """In-place operations on the vectors of one array library, device and dtype.

    Parameters
    ----------
    like
        Any array of that library, device and dtype; only these three are read from it.
    """

    def __init__(self, like: Array) -> None:
        self.xp = aac.array_namespace(like)
        self.device = aac.device(like)
        self.dtype = like.dtype
        self.name = dtype_name(like.dtype)
        self.is_complex = self.name.startswith("complex")
        self.eps = float(np.finfo(self.name).eps)
        self.itemsize = np.dtype(self.name).itemsize
        self.wide = self.xp.complex128 if self.is_complex else self.xp.float64
        self._chunk = _NUMPY_CHUNK if aac.is_numpy_array(like) else _DEVICE_CHUNK

    # -- making and moving -------------------------------------------------------------------------------------

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Return zeros on the vectors' device."""
        return self.xp.zeros(shape, dtype=self.dtype, device=self.device)

    def from_host(self, values: NDArray[Any], dtype: Any = None) -> Array:
        """Return a copy of a NumPy array in the vectors' dtype (or `dtype`) on their device."""
        dtype = self.dtype if dtype is None else dtype
        # ascontiguousarray makes shape () to (1,), without which torch refuses to copy to another device
        host = np.ascontiguousarray(values, dtype=dtype_name(dtype))
        there = self.xp.asarray(host, dtype=dtype, device=self.device, copy=True)
        return self.xp.reshape(there, np.shape(values))

    def to_host(self, x: Array) -> NDArray[Any]:
        """Return an array as a NumPy array (the one call that waits for the device)."""
        if aac.is_torch_array(x):
            x = x.detach().cpu()
        elif aac.is_cupy_array(x):
            x = x.get()
        return np.asarray(x)

    def assign(self, x: Array, index: Any, values: Array) -> Array:
        """Write `values` into ``x[index]`` and return x."""
        x[index] = values
        return x

    def copy(self, x: Array) -> Array:
        """Return a writable copy of x in row-major order."""
        fresh = self.xp.empty(x.shape, dtype=self.dtype, device=self.device)
        fresh[...] = x
        return fresh

    # -- arithmetic --------------------------------------------------------------------------------------------

    @_quietly
    def dot(self, x: Array, y: Array) -> Array:
        """Return the inner products ⟨x, y⟩ = Σ conj(x) y of matching columns, accumulated in float64."""
        total = self.xp.zeros(x.shape[1:], dtype=self.wide, device=self.device)
        for rows in self._chunks(x):
            total += self.xp.vecdot(self._wide(x[rows]), self._wide(y[rows]), axis=-x.ndim)
        return total

    @_quietly
    def norm(self, x: Array) -> Array:
        """Return the Euclidean norm of every column, accumulated in float64."""
        return self.xp.sqrt(self._real(self.dot(x, x)))

    @_quietly
    def axpy(self, a: Array, x: Array, y: Array) -> Array:
        """Add a x to y in place, column by column, and return y."""
        a = self._narrow(a)
        for rows in self._chunks(x):
            part = y[rows]
            part += a * x[rows]
        return y

    @_quietly
    def axpy_dot(self, a: Array, x: Array, y: Array, z: Array) -> tuple[Array, Array]:
        """Add a x to y in place; return y and ⟨z, y⟩, from one pass over the memory."""
        a = self._narrow(a)
        total = self.xp.zeros(x.shape[1:], dtype=self.wide, device=self.device)
        for rows in self._chunks(x):
            part = y[rows]
            part += a * x[rows]
            total += self.xp.vecdot(self._wide(z[rows]), self._wide(part), axis=-x.ndim)
        return y, total

    @_quietly
    def scale(self, a: Array, x: Array) -> Array:
        """Multiply the columns of x by a in place and return x."""
        x *= self._narrow(a)
        return x

    # -- small bases -------------------------------------------------------------------------------------------

    @_quietly
    def coefficients(self, Q: Array, x: Array) -> Array:
        """Return Qᴴx for a basis Q of shape (n, m), accumulated in float64."""
        total = self.xp.zeros((Q.shape[1], *x.shape[1:]), dtype=self.wide, device=self.device)
        for rows in self._chunks(Q, _BASIS_CHUNK):
            total += self.xp.conj(self._wide(Q[rows])).T @ self._wide(x[rows])
        return total

    @_quietly
    def subtract(self, Q: Array, c: Array, x: Array) -> Array:
        """Subtract Q c from x in place and return x."""
        c = self._narrow(c)
        for rows in self._chunks(Q, _BASIS_CHUNK):
            part = x[rows]
            part -= Q[rows] @ c
        return x

    def combine(self, Q: Array, c: Array) -> Array:
        """Return Q c as a new array, chunk by chunk."""
        out = self.zeros((Q.shape[0], *c.shape[1:]))
        return self.subtract(Q, -c, out)

    # -- helpers -----------------------------------------------------------------------------------------------

    def _chunks(self, x: Array, at_least: int = 0) -> Iterator[tuple[Any, ...]]:
        n = x.shape[0]
        columns = x.shape[1] if x.ndim > 1 else 1
        step = max(1, max(self._chunk, at_least) // max(1, columns))
        return ((slice(start, min(start + step, n)), ...) for start in range(0, n, step))

    def _wide(self, x: Array) -> Array:
        return self.xp.astype(x, self.wide, copy=False)

    def _narrow(self, a: Array) -> Array:
        """Return coefficients in the vectors' dtype: float64 ones would promote every chunk."""
        return self.xp.astype(a, self.dtype, copy=False)

    def _real(self, a: Array) -> Array:
        return self.xp.real(a) if self.is_complex else a


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

    def axpy_dot(self, a: Array, x: Array, y: Array, z: Array) -> tuple[Array, Array]:
        same = z is y
        y = self.axpy(a, x, y)
        return y, self.dot(y if same else z, y)

    def scale(self, a: Array, x: Array) -> Array:
        return x * self._narrow(a)

    def coefficients(self, Q: Array, x: Array) -> Array:
        import jax

        with jax.enable_x64(True):
            return self.xp.conj(self._wide(Q)).T @ self._wide(x)

    def subtract(self, Q: Array, c: Array, x: Array) -> Array:
        return x - Q @ self._narrow(c)


def vectors_like(like: Array) -> Vectors:
    """Return the vector operations for the library, device and dtype of an array."""
    return JaxVectors(like) if aac.is_jax_array(like) else Vectors(like)


def dtype_name(dtype: Any) -> str:
    """Return "float32", "complex128", … for a dtype of any array library."""
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return str(dtype).rsplit(".", 1)[-1]
