"""Vector operations on JAX arrays that are sharded over several devices: every device works on its rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import array_api_compat as aac
import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdens._typing import Array
from specdens._vectors.base import ThreeTerm
from specdens._vectors.jax import JaxVectors


def is_sharded(x: Array) -> bool:
    """Return whether an array is a JAX array with parts on several devices, along a named axis of a mesh."""
    if not aac.is_jax_array(x):
        return False
    spec = getattr(getattr(x, "sharding", None), "spec", None)  # tracers have no sharding, others no names
    return spec is not None and any(axis is not None for axis in spec)


class ShardedJaxVectors(JaxVectors):
    """Vectors of JAX whose rows are sharded over the devices of a mesh as those of an array are.

    Coefficients are the same on every device. The step after a product is one compiled function, whose only messages
    are the sums of inner products.

    Parameters
    ----------
    like : Array
        A sharded array; vectors are sharded as its first sharded axis is.
    dtype : dtype
        The dtype of the vectors.
    """

    def __init__(self, like: Array, dtype: Any) -> None:
        import jax

        sharding = like.sharding
        axis = next(each for each in sharding.spec if each is not None)
        self.axis, self.mesh = axis, sharding.mesh
        self.rows = jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec(axis))
        self.everywhere = jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec())
        super().__init__(jax.numpy.zeros((0,), dtype=dtype))
        self.device = self.rows

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.device = self.rows

    def zeros(self, shape: tuple[int, ...]) -> Array:
        return self.xp.zeros(shape, dtype=self.dtype, device=self._placement(shape))

    def _placement(self, shape: tuple[int, ...]) -> Any:
        """Return the sharding of vectors, as columns or as rows: along their longest axis, if devices can share it."""
        import jax

        if not shape or not max(shape) or max(shape) % len(self.rows.device_set):
            return self.everywhere
        longest = shape.index(max(shape))
        return jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(*[None] * longest, self.axis))

    def from_host(self, values: ArrayLike, dtype: Any = None) -> Array:
        """Return a copy of a NumPy array: of vectors on the devices of their rows, of coefficients on all of them."""
        import jax

        with jax.enable_x64(True):
            narrow = np.array(values, dtype=self.name if dtype is None else np.dtype(dtype))
            return jax.device_put(narrow, self._placement(narrow.shape) if dtype is None else self.everywhere)

    def placed(self, x: Array) -> Array:
        """Return a vector with its rows on their devices; no message where they are there already."""
        import jax

        if not aac.is_jax_array(x) or x.sharding.is_equivalent_to(self.rows, x.ndim):
            return x
        return jax.device_put(x, self.rows)

    def block_of_rows(self, shape: tuple[int, ...], make: Callable[[range], NDArray[Any]]) -> Array | None:
        import jax

        def rows(index: tuple[slice, ...]) -> NDArray[Any]:
            return make(range(*index[0].indices(shape[0]))).astype(self.name)

        return jax.make_array_from_callback(shape, self.rows, rows)

    def _three_term(self, task: ThreeTerm) -> tuple[Array, Array, Array]:
        import jax

        with jax.enable_x64(True):
            coefficients = [None if x is None else self._narrow(x) for x in task.terms]
            w, vw, ww = three_term_step()(
                task.w, task.v, task.v_prev, *coefficients, dots=task.dots, squares=task.squares
            )
        return w, vw, ww


@cache
def three_term_step() -> Callable[..., tuple[Array, Array, Array]]:
    """Return the compiled pass w ← a (w + b v) + c v_prev with its inner products in float64."""
    import jax
    import jax.numpy as jnp

    def step(
        w: Array, v: Array, v_prev: Array, a: Array, b: Array, c: Array, *, dots: bool, squares: bool
    ) -> tuple[Array, Array, Array]:
        w = w if b is None else w + b * v
        w = w if a is None else w * a
        w = w if c is None else w + c * v_prev
        wide = jnp.complex128 if jnp.iscomplexobj(w) else jnp.float64

        def dot(x: Array, y: Array) -> Array:
            return jnp.sum(jnp.conj(x.astype(wide)) * y.astype(wide), axis=0)

        return w, dot(v, w) if dots else None, dot(w, w) if squares else None

    compiled: Callable[..., tuple[Array, Array, Array]] = jax.jit(step, static_argnames=("dots", "squares"))
    return compiled
