"""Run with four JAX devices on the CPU: sharded arrays go through all algorithms without being gathered."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import specdens as sd
from specdens._vectors.jax_sharded import ShardedJaxVectors, three_term_step

N = 512
ROWS = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
ENTRIES = np.concatenate([np.linspace(-1.0, 2.0, N - 2), [6.0, -5.0]])
CHAIN = sp.diags_array([np.ones(N - 1), ENTRIES, np.ones(N - 1)], offsets=[-1, 0, 1]).tocsr()


class Chain:
    """A chain with its entries sharded; products look at all arrays that are alive."""

    def __init__(self, dtype: str) -> None:
        self.entries = jax.device_put(ENTRIES.astype(dtype), ROWS)
        ends = np.ones(N)
        ends[-1] = 0
        self.right = jax.device_put(ends.astype(dtype), ROWS)
        self.left = jax.device_put(np.roll(ends, 1).astype(dtype), ROWS)
        self.num_looks = 0
        self._product = jax.jit(self._multiply)
        self.A = sd.as_operator(self, shape=(N, N), dtype=dtype, like=self.entries)

    def _multiply(self, x, entries, left, right):
        return entries * x + right * jnp.roll(x, -1) + left * jnp.roll(x, 1)

    def __call__(self, x):
        look()
        self.num_looks += 1
        return self._product(x, self.entries, self.left, self.right)


def look() -> None:
    """Refuse a vector of which a device holds more than its quarter."""
    for array in jax.live_arrays():
        if array.ndim and array.shape[0] == N:
            sizes = {shard.data.nbytes for shard in array.addressable_shards}
            assert sizes == {array.nbytes // 4}, (array.shape, array.sharding)


RUNS = {
    "fast_lanczos": lambda A: sd.fast_lanczos(A, num_steps=30, num_probes=2),
    "blocks": lambda A: sd.fast_lanczos(A, num_steps=30, num_probes=4, block_size=3, probes="rademacher"),
    "slow_lanczos": lambda A: sd.slow_lanczos(A, num_steps=12),
    "kpm": lambda A: sd.kpm(A, num_moments=40, num_probes=2),
    "rank": lambda A: sd.spectral_density(A, rank=2, num_steps=30, num_probes=1).measure,
}


def numbers(measure):
    """Return what the products left behind, as numbers that rounding changes little."""
    if hasattr(measure, "mus"):
        return measure.mus.sum(axis=-1)
    return [float(w @ np.tanh(x)) for x, w in zip(measure.nodes, measure.weights, strict=True)]


def results() -> None:
    """Compare measures with those of NumPy, with every vector in quarters during every product."""
    for dtype, rtol in (("float64", 1e-9), ("float32", 2e-4)):
        with jax.enable_x64(dtype == "float64"):
            for name, run in RUNS.items() if dtype == "float64" else [("blocks", RUNS["blocks"])]:
                chain = Chain(dtype)
                found, expected = run(chain.A), run(CHAIN.astype(dtype))
                assert chain.num_looks > 12
                allowed = max(rtol, 1e-5) if name == "rank" else rtol  # eigenpairs are as exact as their tolerance
                np.testing.assert_allclose(numbers(found), numbers(expected), rtol=allowed, err_msg=name)
                assert found.dtype == dtype, name
    matrix = CHAIN.toarray().astype("float32")
    for spec in (PartitionSpec("rows", None), PartitionSpec(None, "rows")):
        A = sd.as_operator(jax.device_put(matrix, NamedSharding(ROWS.mesh, spec)))
        x = A.vectors.zeros((N,)) + 1.0
        assert (A @ x).sharding.is_equivalent_to(ROWS, 1)
        found, expected = (sd.fast_lanczos(B, num_steps=20) for B in (A, matrix))
        np.testing.assert_allclose(numbers(found), numbers(expected), rtol=2e-4)
        deflated, expected = (sd.spectral_density(B, rank=2, num_steps=20, num_probes=1).measure for B in (A, matrix))
        np.testing.assert_allclose(numbers(deflated), numbers(expected), rtol=1e-3)
        pairs = sd.subspace_iteration(A, rank=2, num_iters=60)
        np.testing.assert_allclose(pairs.values, [6.0, -5.0], rtol=0.1)


def messages() -> None:
    """Look at the compiled step: sums of inner products are all that devices send, and results stay where they are."""
    chain = Chain("float32")
    vectors = chain.A.vectors
    assert isinstance(vectors, ShardedJaxVectors)
    w, v, z = (vectors.zeros((N, 2)) + float(k) for k in range(3))
    with jax.enable_x64(True):
        numbers = [vectors.from_host(np.ones(2, dtype="float32"), np.dtype("float32")) for _ in range(3)]
        compiled = three_term_step().lower(w, v, z, *numbers, dots=True, squares=True).compile()
    text = compiled.as_text()
    assert "all-reduce" in text
    for word in ("all-gather", "all-to-all", "collective-permute"):
        assert word not in text, text
    found, vw, ww = (x.sharding for x in compiled(w, v, z, *numbers))
    assert found.is_equivalent_to(ROWS, 2)
    assert vw.is_fully_replicated
    assert ww.is_fully_replicated
    memory = compiled.memory_analysis()  # of one device
    assert memory.argument_size_in_bytes <= 3 * w.nbytes // 4 + 1024


if __name__ == "__main__":
    assert len(jax.devices()) == 4
    globals()[sys.argv[1]]()
    print("agrees")
