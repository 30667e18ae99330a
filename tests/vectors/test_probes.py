"""Probe j is a function of (seed, j) alone, on any library, in any precision, in any block, from any chunk on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optional import optional

import specdens as sd
from specdens._running.start_vectors import as_block_size, as_probes, given_columns, start_block
from specdens._vectors.factory import vectors_like
from specdens._vectors.probes import PROBE_CHUNK, gaussian_probe_block, probe_block, probe_rng

torch = optional("torch")

REAL = vectors_like(np.empty(0))
COMPLEX = vectors_like(np.empty(0, dtype=complex))
KIND = pytest.mark.parametrize("kind", ["gaussian", "rademacher"])
seeds = st.integers(0, 2**64)


def reference(seed, index, n, chunk=0):
    """Return the Gaussian entries of one chunk by the definition in the design, without the library."""
    sequence = np.random.SeedSequence(seed, spawn_key=(index, chunk))
    return np.random.default_rng(sequence).standard_normal(n)


# -- what a probe depends on -----------------------------------------------------------------------------------------


@given(seeds, st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.integers(1, 50))
def test_a_probe_depends_on_seed_and_index_only(seed, indices, n):
    block = probe_block(REAL, n, indices, seed)
    assert block.shape == (n, len(indices))
    for column, index in enumerate(indices):
        np.testing.assert_array_equal(block[:, column], reference(seed, index, n))


@given(seeds, st.integers(0, 100))
def test_different_seeds_and_indices_are_different_probes(seed, index):
    here = probe_block(REAL, 20, [index, index + 1], seed)
    assert not np.any(here[:, 0] == here[:, 1])
    assert not np.any(here == probe_block(REAL, 20, [index, index + 1], seed + 1))


def test_entries_beyond_a_chunk_come_from_the_next_generator():
    n = PROBE_CHUNK + 5
    block = probe_block(REAL, n, [3], 11)
    np.testing.assert_array_equal(block[:PROBE_CHUNK, 0], reference(11, 3, PROBE_CHUNK))
    np.testing.assert_array_equal(block[PROBE_CHUNK:, 0], reference(11, 3, 5, chunk=1))


@KIND
@pytest.mark.parametrize("vectors", [REAL, COMPLEX], ids=["real", "complex"])
def test_a_longer_probe_begins_as_a_shorter_one(kind, vectors):
    short, long = (probe_block(vectors, n, [2], 5, kind=kind) for n in (100, 1000))
    np.testing.assert_array_equal(short, long[:100])


@KIND
@pytest.mark.parametrize("is_complex", [False, True])
def test_every_library_and_precision_gets_the_same_probe_up_to_casting(library, kind, is_complex):
    name = library.complex if is_complex else library.real
    expected = probe_block(COMPLEX if is_complex else REAL, 200, [0, 7], 1, kind=kind)
    for dtype in {name, "complex64" if is_complex else "float32"}:
        vectors = vectors_like(library.array([1.0], dtype))
        block = probe_block(vectors, 200, [0, 7], 1, kind=kind)
        assert block.dtype == vectors.dtype
        np.testing.assert_array_equal(vectors.to_host(block), expected.astype(dtype))


def test_fast_lanczos_runs_on_the_documented_probes():
    A = np.diag(np.linspace(-1, 1, 30))
    drawn = sd.fast_lanczos(A, num_steps=5, num_probes=3, seed=4, block_size=1)
    given_ = sd.fast_lanczos(A, num_steps=5, probes=np.stack([reference(4, j, 30) for j in range(3)], 1), block_size=1)
    for j in range(3):
        np.testing.assert_array_equal(drawn.alphas[j], given_.alphas[j])


def test_the_generator_is_that_of_the_spawn_key():
    assert probe_rng(1, 2, 3).random() == np.random.default_rng(np.random.SeedSequence(1, spawn_key=(2, 3))).random()


# -- distributions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectors", [REAL, COMPLEX], ids=["real", "complex"])
def test_rademacher_entries_are_plus_and_minus_one(vectors):
    block = probe_block(vectors, 10_000, [0, 1], 0, kind="rademacher")
    np.testing.assert_array_equal(np.unique(block), [-1, 1])
    assert np.all(np.abs(block.mean(axis=0)) < 0.05)  # five standard errors


def test_gaussian_entries_have_the_moments_of_the_normal_law():
    x = probe_block(REAL, 200_000, [0], 0)[:, 0]
    # five standard errors: √(1, 2, 15, 96)/√n
    for power, moment, error in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(x**power) - moment) < 5 * np.sqrt(error / x.size)


def test_complex_gaussian_entries_are_circular():
    x = probe_block(COMPLEX, 200_000, [0], 0)[:, 0]
    bound = 5 * np.sqrt(4 / x.size)
    assert abs(np.mean(x)) < bound
    assert abs(np.mean(x**2)) < 2 * bound
    assert abs(np.mean(np.abs(x) ** 2) - 2) < bound
    assert abs(np.mean(x.real * x.imag)) < bound


def test_unit_probes_have_unit_columns(library):
    vectors = vectors_like(library.array([1.0]))
    block = gaussian_probe_block(vectors, 100, (0, 1, 2), 0)
    np.testing.assert_allclose(vectors.to_host(vectors.norm(block)), 1.0, rtol=1e-6)


# -- given start vectors and blocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [np.asarray, torch.asarray, lambda x: x.tolist(), np.asfortranarray])
def test_start_vectors_of_any_kind_are_copied_to_the_operators_library(library, source):
    values = np.arange(12.0).reshape(4, 3)
    A = sd.as_operator(library.array(np.eye(4)))
    assert as_probes(A, source(values), 1) == ("given", 3)
    block = start_block(A, source(values), (1, 2), seed=0)
    assert type(block) is type(library.array([1.0]))
    assert block.dtype == A.dtype
    np.testing.assert_array_equal(A.vectors.to_host(block), values[:, 1:])


def test_a_run_does_not_write_into_given_start_vectors(library):
    start = library.array(np.arange(1.0, 9.0).reshape(4, 2))
    A = sd.as_operator(library.array(np.diag([1.0, 2.0, 3.0, 4.0])))
    sd.fast_lanczos(A, probes=start)
    np.testing.assert_array_equal(A.vectors.to_host(start), np.arange(1.0, 9.0).reshape(4, 2))


def test_a_single_start_vector_is_a_column_without_a_copy():
    x = np.ones(4)
    columns = given_columns(x, 4)
    assert columns.shape == (4, 1)
    assert np.shares_memory(columns, x)


def test_blocks_are_as_many_probes_as_asked_for_or_fit():
    A = sd.as_operator(np.eye(4))
    f = sd.as_operator(lambda x: x, shape=4, dtype="float64")
    huge = sd.as_operator(lambda x: x, shape=2**30, dtype="float64")
    huge.has_block_products = True
    assert as_block_size(A, None) == 8
    assert as_block_size(A, 3) == 3
    assert as_block_size(f, None) == 1
    assert as_block_size(f, 2) == 2
    assert as_block_size(huge, None) == 1


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3,), (3, 4), (4, 0), (4, 1, 1), ()])
def test_start_vectors_must_fit_the_operator(shape):
    with pytest.raises(ValueError, match=r"`probes` must have shape \(4,\) or \(4, k\); got \("):
        sd.fast_lanczos(np.eye(4), probes=np.ones(shape))


def test_an_unknown_kind_of_probe_is_refused():
    with pytest.raises(ValueError, match=r"`probes` must be gaussian or rademacher, or an array .*; got 'uniform'"):
        sd.fast_lanczos(np.eye(4), probes="uniform")
    with pytest.raises(ValueError, match="`probes` must be one of gaussian, rademacher; got 'uniform'"):
        probe_block(REAL, 4, [0], 0, kind="uniform")


def test_given_start_vectors_say_their_own_number():
    message = r"`num_probes` must be left out with given start vectors \(2 here\); got 3"
    with pytest.raises(ValueError, match=message):
        sd.fast_lanczos(np.eye(4), probes=np.ones((4, 2)), num_probes=3)


def test_complex_start_vectors_make_a_real_operator_complex():
    assert sd.fast_lanczos(np.eye(4), probes=np.ones(4) * 1j).dtype == "complex128"


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("seed", None, TypeError, "`seed` must be an integer; got None"),
        ("seed", 1.5, TypeError, r"`seed` must be an integer; got 1\.5"),
        ("seed", -1, ValueError, "`seed` must be at least 0; got -1"),
        ("num_probes", 0, ValueError, "`num_probes` must be at least 1; got 0"),
        ("num_probes", 2.0, TypeError, r"`num_probes` must be an integer; got 2\.0"),
        ("block_size", 0, ValueError, "`block_size` must be at least 1; got 0"),
        ("block_size", "2", TypeError, "`block_size` must be an integer; got '2'"),
        ("num_steps", 5, ValueError, r"`num_steps` must be at most the dimension \(4\); got 5"),
    ],
)
def test_counts_and_seeds_must_be_whole_numbers_in_range(name, value, error, message):
    with pytest.raises(error, match=message):
        sd.fast_lanczos(np.eye(4), **{name: value})
