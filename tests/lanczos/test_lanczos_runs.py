"""How Lanczos runs: extension, array libraries, memory, kinds of probes, and what it refuses."""

from __future__ import annotations

import logging
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spectra import diagonal, rotated, semicircle
from strategies import seeds, spectra

import specdens as sd
from specdens._distributions.cdf import wasserstein
from specdens._vectors.probes import PROBE_CHUNK, draw_chunk, probe_block, probe_rng

# -- extension -----------------------------------------------------------------------------------------------------


@given(eigenvalues=spectra(), seed=seeds, data=st.data(), block_size=st.integers(1, 3))
def test_added_steps_equal_one_run_bit_for_bit(eigenvalues, seed, data, block_size):
    A = rotated(eigenvalues, seed)
    last = data.draw(st.integers(1, eigenvalues.size))
    first = data.draw(st.integers(1, last))
    options = {"num_probes": 3, "seed": seed, "block_size": block_size}
    short = sd.fast_lanczos(A, num_steps=first, keep_vectors=True, **options)
    before = [alphas.copy() for alphas in short.alphas]
    long = sd.extend(short, A, num_steps=max(last, short.num_steps))
    whole = sd.fast_lanczos(A, num_steps=max(last, short.num_steps), **options)
    for j in range(3):
        assert np.array_equal(long.alphas[j], whole.alphas[j])
        assert np.array_equal(long.betas[j], whole.betas[j])
        assert np.array_equal(short.alphas[j], before[j])  # the shorter one is left as it was
    assert np.array_equal(long.last_betas, whole.last_betas)
    assert long.num_products == whole.num_products


@given(eigenvalues=spectra(), seed=seeds, more=st.integers(0, 4))
def test_added_probes_equal_one_run_as_measures(eigenvalues, seed, more):
    A = rotated(eigenvalues, seed)
    m = min(4, eigenvalues.size)
    few = sd.fast_lanczos(A, num_steps=m, num_probes=2, seed=seed)
    many = sd.extend(few, A, num_probes=2 + more)
    whole = sd.fast_lanczos(A, num_steps=m, num_probes=2 + more, seed=seed)
    scale = float(np.max(np.abs(eigenvalues))) or 1.0
    # powers up to 2m − 1 = 7 are exact whatever the block; lower ones are those of the probes
    powers = scale ** np.arange(2 * m)
    assert many.num_probes == 2 + more
    assert np.allclose(many.moments(2 * m) / powers, whole.moments(2 * m) / powers, rtol=0, atol=1e-11)


def test_an_extension_can_be_extended_by_steps_and_probes_in_turn():
    A = np.diag(semicircle(200))
    measure = sd.fast_lanczos(A, num_steps=5, keep_vectors=True)
    measure = sd.extend(measure, A, num_probes=2)
    measure = sd.extend(measure, A, num_steps=12, keep_vectors=False)
    whole = sd.fast_lanczos(A, num_steps=12, num_probes=2, block_size=1)
    assert all(np.array_equal(a, b) for a, b in zip(measure.alphas, whole.alphas, strict=True))


def test_extend_refuses_what_it_cannot_continue():
    A = np.diag(semicircle(50))
    measure = sd.fast_lanczos(A, num_steps=5)
    with pytest.raises(ValueError, match=r"more steps need the vectors of the run: make .* keep_vectors=True"):
        sd.extend(measure, A, num_steps=6)
    with pytest.raises(ValueError, match=r"`A` must be the operator of the measure \(dimension 50, float64\); got"):
        sd.extend(measure, np.eye(49), num_probes=2)
    with pytest.raises(ValueError, match=r"`A` must be the operator .*float64\); got .*float32"):
        sd.extend(measure, A.astype(np.float32), num_probes=2)
    with pytest.raises(ValueError, match=r"`num_steps` must be at least 5; got 4"):
        sd.extend(measure, A, num_steps=4)
    with pytest.raises(ValueError, match=r"`num_probes` must be at least 1; got 0"):
        sd.extend(measure, A, num_probes=0)
    with pytest.raises(ValueError, match=r"`num_steps` must be at most the dimension \(50\); got 51"):
        sd.extend(sd.fast_lanczos(A, num_steps=5, keep_vectors=True), A, num_steps=51)
    with pytest.raises(ValueError, match=r"`num_probes` cannot grow for given start vectors"):
        sd.extend(sd.fast_lanczos(A, probes=np.ones(50)), A, num_probes=2)
    with pytest.raises(ValueError, match=r"`measure` must come from fast_lanczos; got one from slow_lanczos"):
        sd.extend(sd.slow_lanczos(A, num_steps=5), A, num_probes=2)


# -- probes --------------------------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 50), kind=st.sampled_from(["gaussian", "rademacher"]))
def test_probes_drawn_in_blocks_equal_probes_drawn_one_by_one(seed, n, kind):
    vectors = sd.as_operator(np.eye(n)).vectors
    block = probe_block(vectors, n, (0, 1, 2, 3), seed, kind=kind)
    for j in (3, 0, 2):
        assert np.array_equal(probe_block(vectors, n, (j,), seed, kind=kind)[:, 0], block[:, j])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_a_long_probe_is_its_chunks_one_after_the_other(dtype):
    n = PROBE_CHUNK + 7
    vectors = sd.as_operator(lambda x: x, shape=n, dtype=dtype).vectors
    whole = probe_block(vectors, n, (5,), 11)[:, 0]
    parts = [
        draw_chunk("gaussian", probe_rng(11, 5, c), size, is_complex=dtype == "complex128")
        for c, size in enumerate((PROBE_CHUNK, 7))
    ]
    assert np.array_equal(whole, np.concatenate(parts).astype(dtype))


@pytest.mark.parametrize("method", [sd.fast_lanczos, sd.slow_lanczos, sd.kpm])
def test_rademacher_probes_do_not_err_on_diagonal_matrices(method):
    eigenvalues = semicircle(500)
    measure = method(np.diag(eigenvalues), probes="rademacher")
    assert measure.probes == "rademacher"
    assert measure.trace(np.exp).value == pytest.approx(np.exp(eigenvalues).sum(), rel=1e-10)


def test_every_array_library_gives_the_measure_of_numpy(library):
    A = rotated(semicircle(200))  # few steps, no outliers: nothing has converged, so that T is known to rounding
    for method in (sd.fast_lanczos, sd.slow_lanczos):
        ours = method(library.array(A), num_steps=12, num_probes=3, seed=4)
        numpys = method(A, num_steps=12, num_probes=3, seed=4)
        assert ours.dtype == library.real
        assert wasserstein(ours.bulk_cdf, numpys.bulk_cdf) < 10 * library.rtol


def test_every_array_library_gives_the_measure_of_numpy_for_hermitian_operators(library):
    A = rotated(semicircle(200), is_complex=True)
    ours, numpys = (sd.fast_lanczos(x, num_steps=12, num_probes=3) for x in (library.array(A), A))
    assert ours.dtype == library.complex
    assert wasserstein(ours.bulk_cdf, numpys.bulk_cdf) < 10 * library.rtol


# -- memory --------------------------------------------------------------------------------------------------------


class Scaling:
    """A matrix-free operator whose product allocates its result and nothing else."""

    def __init__(self, n: int) -> None:
        self.diagonal = np.linspace(-1, 1, n, dtype=np.float32)
        self.shape, self.dtype = (n, n), np.dtype(np.float32)

    def __matmul__(self, x):
        return (self.diagonal if x.ndim == 1 else self.diagonal[:, None]) * x


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [1, 4])
def test_fast_lanczos_holds_three_vectors_per_probe_the_product_included(block_size):
    n = 2_000_000
    A = Scaling(n)
    sd.fast_lanczos(A, num_steps=2, num_probes=block_size, block_size=block_size)  # compiles what will be used
    tracemalloc.start()
    try:
        sd.fast_lanczos(A, num_steps=4, num_probes=block_size, block_size=block_size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 5 % and 2 MB for the scratch of chunks and for Python itself
    assert peak <= 1.05 * 3 * block_size * n * 4 + 2e6


def test_slow_lanczos_says_what_memory_it_takes_and_refuses_more(caplog):
    A = diagonal(semicircle(1000))
    with caplog.at_level(logging.INFO, logger="specdens"):
        sd.slow_lanczos(A, num_steps=10)
    assert "slow_lanczos keeps 10 + 3 vectors of 1000 entries: 9.69e-05 GiB" in caplog.text
    with pytest.raises(ValueError, match=r"keeps 10 \+ 3 vectors .* more than `memory_limit` = .*fast_lanczos"):
        sd.slow_lanczos(A, num_steps=10, memory_limit=13 * 8000 - 1)
    assert sd.slow_lanczos(A, num_steps=10, memory_limit=13 * 8000).num_steps == 10
    with pytest.raises(ValueError, match=r"`memory_limit` must be positive and finite; got 0"):
        sd.slow_lanczos(A, memory_limit=0)


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [sd.fast_lanczos, sd.slow_lanczos])
def test_steps_and_probes_that_make_no_sense_are_refused(method):
    A = np.diag([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"`num_steps` must be at most the dimension \(3\); got 4"):
        method(A, num_steps=4)
    with pytest.raises(ValueError, match=r"`num_steps` must be at least 1; got 0"):
        method(A, num_steps=0)
    with pytest.raises(TypeError, match=r"`num_steps` must be an integer; got 2\.5"):
        method(A, num_steps=2.5)
    with pytest.raises(ValueError, match=r"`num_probes` must be at least 1; got 0"):
        method(A, num_probes=0)
    with pytest.raises(ValueError, match=r"`probes` must be finite and not within the deflated subspace; got norms"):
        method(A, probes=np.zeros(3))
    with pytest.raises(ValueError, match=r"`probes` must be finite and not within the deflated subspace; got norms"):
        method(A, probes=np.array([1.0, np.nan, 0.0]))


@pytest.mark.parametrize("method", [sd.fast_lanczos, sd.slow_lanczos])
@pytest.mark.parametrize(("bad", "message"), [(np.nan, "nan"), (np.inf, "inf")])
def test_a_product_that_is_not_finite_is_named_with_its_step_and_probe(method, bad, message):
    calls = []

    def matvec(x):
        calls.append(1)
        return np.where((np.arange(9) == 0) & (len(calls) == 4), bad, np.arange(9.0) * x)

    A = sd.as_operator(matvec, shape=9, dtype="float64")
    with pytest.raises(ValueError, match=rf"A @ x returned {message} at step 4 of probe 0: the operator, or the model"):
        method(A, check=False)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("n", [10, 10_000])
def test_an_operator_that_is_not_symmetric_is_refused_at_any_size(dtype, n):
    d = np.linspace(1, 2, n)

    def matvec(x):
        return (d * x + np.roll(x, 1)).astype(dtype)

    A = sd.as_operator(matvec, shape=n, dtype=dtype)
    with pytest.raises(ValueError, match=r"the operator is not (symmetric: ⟨v₁, Av₂⟩ = .* but β₁ =|Hermitian: ⟨v, A)"):
        sd.fast_lanczos(A)
    assert sd.fast_lanczos(A, check=False, num_steps=3).num_steps == 3


def test_a_multiple_of_i_is_not_hermitian():
    with pytest.raises(ValueError, match=r"the operator is not Hermitian: ⟨v, Av⟩ = .* is not real \(step 1 of probe"):
        sd.fast_lanczos(1j * np.eye(5))


@pytest.mark.parametrize("block_size", [1, 3])
def test_an_operator_that_is_not_deterministic_is_refused(block_size):
    rng = np.random.default_rng(0)
    A = sd.as_operator(lambda x: x * rng.standard_normal(20), shape=20, dtype="float64")
    with pytest.raises(ValueError, match=r"the operator is not deterministic: two products .* differ by .* switch"):
        sd.fast_lanczos(A, num_probes=3, block_size=block_size)


@given(gap=st.floats(-13, -1))
def test_nearly_equal_eigenvalues_are_not_taken_for_asymmetry(gap):
    # β₁ is small then, and v₂ far from orthogonal to v₁
    measure = sd.fast_lanczos(rotated(np.array([1.0, 1.0, 1.0 + 10**gap, 1.0 - 10**gap])))
    assert np.allclose(measure.nodes[0], 1, atol=2 * 10**gap)


def test_a_measure_says_what_it_is():
    measure = sd.fast_lanczos(np.diag(semicircle(100)), num_steps=7, num_probes=2)
    assert repr(measure) == (
        "SpectralMeasure(fast_lanczos, dimension=100, probes=2 gaussian, steps=7, products=15, float64)"
    )


@pytest.mark.parametrize("num_distinct", [4, 8, 15])
def test_few_distinct_eigenvalues_are_atoms_even_where_rounding_hides_the_breakdown(num_distinct):
    for seed in range(10):
        eigenvalues = np.random.default_rng(seed).choice(200, num_distinct, replace=False).astype(float)
        atoms = sd.fast_lanczos(diagonal(np.repeat(eigenvalues, 20)), seed=seed).atoms
        assert atoms.mass() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(atoms.positions, np.sort(eigenvalues), atol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_outliers_do_not_hide_a_bulk_far_below_them(dtype):
    bulk = 1e-3 * np.cos(np.pi * (np.arange(20_000) + 0.5) / 20_000)
    measure = sd.fast_lanczos(diagonal(np.concatenate([bulk, [100.0, 50.0, 30.0]])).astype(dtype))
    assert measure.atoms.mass() == 0
    assert measure.quantile(0.25) == pytest.approx(-1e-3 / np.sqrt(2), rel=0.1)
