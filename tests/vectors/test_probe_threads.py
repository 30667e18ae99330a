"""Probes drawn in several threads are those that one thread draws, chunk by chunk."""

import numpy as np
import pytest

import specdens as sd
from specdens._vectors import probes


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", ["gaussian", "rademacher"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_a_chunk_depends_on_seed_probe_and_chunk_alone(monkeypatch, dtype, kind, threads):
    monkeypatch.setattr(probes, "PROBE_CHUNK", 1000)
    monkeypatch.setattr(probes, "_PIECE", 300)  # a chunk is drawn in pieces, the last of them shorter
    monkeypatch.setattr(probes, "_ENTRIES_FOR_THREADS", 1)
    monkeypatch.setattr(probes, "num_threads", lambda: threads)
    vectors, n, indices = sd.as_operator(np.eye(2, dtype=dtype)).vectors, 3500, (7, 0, 2)
    block = probes.probe_block(vectors, n, indices, 5, kind=kind)
    for column, index in enumerate(indices):
        drawn = [
            probes.draw_chunk(kind, probes.probe_rng(5, index, chunk), size, is_complex=vectors.is_complex)
            for chunk, size in enumerate([1000, 1000, 1000, 500])
        ]
        np.testing.assert_array_equal(block[:, column], np.concatenate(drawn).astype(dtype))
