"""Operators with rows on several ranks: the numbers of one process, and no vector is ever gathered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from ranks import on_ranks, row_range
from spectra import rotated

import specdens as sd
from specdens._vectors import probes

N = 150
EIGENVALUES = np.concatenate([np.linspace(-1.0, 2.0, N - 3), [5.0, -4.0, 9.0]])
MATRIX = rotated(EIGENVALUES, 1)
COMPLEX = rotated(EIGENVALUES, 2, is_complex=True)


def distributed(matrix, comm, *, like=None, blocks=True):
    """Return a dense matrix by rows, with products that gather x, as a test may."""
    rows = row_range(len(matrix), comm)
    local = matrix[rows.start : rows.stop]

    def product(x):
        whole = np.concatenate([np.asarray(part) for part in comm.allgather(x)])
        y = local @ whole
        return y if like is None else type(like)(y)

    return sd.RowDistributed(
        product, rows=rows, dimension=len(matrix), reduce=comm.allreduce, dtype=matrix.dtype, like=like, blocks=blocks
    )


METHODS = {
    "fast_lanczos": partial(sd.fast_lanczos, num_steps=25, num_probes=3),
    "fast_lanczos blocks": partial(sd.fast_lanczos, num_steps=25, num_probes=3, block_size=2),
    "rademacher": partial(sd.fast_lanczos, num_steps=25, num_probes=2, probes="rademacher"),
    "slow_lanczos": partial(sd.slow_lanczos, num_steps=40),
    "kpm": partial(sd.kpm, num_moments=50, num_probes=2),
}


def assert_first_equal(found, expected) -> None:
    """Compare the first coefficients: Lanczos amplifies rounding in the later ones, while the measure stays right."""
    for x, y in zip([*found.alphas, *found.betas], [*expected.alphas, *expected.betas], strict=True):
        np.testing.assert_allclose(x[:8], y[:8], atol=1e-10)


@pytest.mark.parametrize("num_ranks", [2, 3])
@pytest.mark.parametrize("matrix", [MATRIX, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("name", METHODS)
def test_results_are_those_of_one_process_and_the_same_on_every_rank(name, matrix, num_ranks):
    method = METHODS[name]
    results = on_ranks(num_ranks, lambda comm: method(distributed(matrix, comm)))
    expected = method(matrix)
    for found in results:
        assert found.dimension == N
        assert found.num_products == expected.num_products
        assert found.trace(np.cos).value == pytest.approx(expected.trace(np.cos).value, rel=1e-10)
        if name == "kpm":
            np.testing.assert_array_equal(found.mus, results[0].mus)
            np.testing.assert_allclose(found.mus, expected.mus, atol=1e-9)
        else:
            np.testing.assert_array_equal(found.alphas, results[0].alphas)
            assert_first_equal(found, expected)


def test_eigenpairs_deflation_and_combinations_run_on_distributed_rows():
    def work(comm):
        A = 2.0 * distributed(MATRIX, comm).shifted(0.5)
        pairs = sd.top_eigenpairs(A, rank=3)
        return pairs, sd.spectral_density(A, rank=3, num_steps=40, progress=False, method="fast_lanczos")

    expected = sd.spectral_density(2 * MATRIX + np.eye(N), rank=3, num_steps=40, progress=False, method="fast_lanczos")
    (first, density), (second, other) = on_ranks(2, work)
    np.testing.assert_allclose(np.sort(first.values), [2 * -4 + 1, 2 * 5 + 1, 2 * 9 + 1], rtol=1e-9)
    vectors = np.concatenate([first.vectors, second.vectors])
    np.testing.assert_allclose((2 * MATRIX + np.eye(N)) @ vectors, vectors * first.values, atol=1e-4)
    np.testing.assert_allclose(density.values, expected.values, atol=1e-6 * expected.values.max())
    np.testing.assert_array_equal(density.values, other.values)


def test_check_operator_runs_on_distributed_rows():
    on_ranks(2, lambda comm: sd.check_operator(distributed(MATRIX, comm)))

    def asymmetric(comm):
        with pytest.raises(ValueError, match="not symmetric"):
            sd.fast_lanczos(distributed(MATRIX + np.eye(N, k=1), comm), num_steps=5)

    on_ranks(2, asymmetric)


def test_only_a_few_numbers_are_reduced():
    def work(comm):
        A = distributed(MATRIX, comm)
        before = comm.num_reductions
        sd.fast_lanczos(A, num_steps=30, num_probes=2, block_size=2, check=False)
        return comm.num_reductions - before, comm.largest_reduction

    for num_reductions, largest in on_ranks(2, work):
        assert num_reductions == 2 * 30 + 3  # two per step, the norm of the start, and two that compare the calls
        assert largest <= 5


@pytest.mark.parametrize("kind", ["gaussian", "rademacher"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_every_rank_draws_its_rows_of_the_same_probe(kind, dtype, monkeypatch):
    monkeypatch.setattr(probes, "PROBE_CHUNK", 64)
    vectors = sd.as_operator(lambda x: x, shape=N, dtype=dtype).vectors
    whole = probes.probe_block(vectors, N, (0, 4), 7, kind=kind)

    def work(comm):
        rows = row_range(N, comm)
        A = sd.RowDistributed(lambda x: x, rows=rows, dimension=N, reduce=comm.allreduce, dtype=dtype)
        return probes.probe_block(A.vectors, len(rows), (0, 4), 7, kind=kind)

    for num_ranks in (2, 4):
        np.testing.assert_array_equal(np.concatenate(on_ranks(num_ranks, work)), whole)


def test_torch_tensors_can_be_distributed():
    torch = pytest.importorskip("torch")

    def work(comm):
        rows = row_range(N, comm)
        local = torch.tensor(MATRIX[rows.start : rows.stop])
        A = sd.RowDistributed(
            lambda x: local @ torch.cat(comm.allgather(x)),
            rows=rows, dimension=N, reduce=comm.allreduce, like=torch.empty(0),
        )  # fmt: skip
        return sd.fast_lanczos(A, num_steps=20)

    for found in on_ranks(2, work):
        assert_first_equal(found, sd.fast_lanczos(MATRIX, num_steps=20))


def test_rows_that_do_not_fit_together_are_refused_on_every_rank():
    def work(comm, choose):
        with pytest.raises(ValueError, match=r"`rows` must be those from 0 to 10 .* on 2 processes"):
            sd.RowDistributed(lambda x: x, rows=choose(comm.rank), dimension=10, reduce=comm.allreduce)

    for choose in (
        lambda rank: range(5),
        lambda rank: range(5 * rank, 5 * rank + 4),
        lambda rank: range(10 * rank, 10),
        lambda rank: range(rank, rank + 5),
    ):
        on_ranks(2, partial(work, choose=choose))


def test_arguments_of_the_wrong_kind_are_refused():
    make = partial(sd.RowDistributed, lambda x: x, dimension=5, reduce=lambda x: x)
    with pytest.raises(TypeError, match=r"`rows` must be range\(start, stop\).* got 5"):
        make(rows=5)
    with pytest.raises(TypeError, match="`dtype` must be one of float32"):
        make(rows=range(5), dtype="int64")
    with pytest.raises(TypeError, match="`product` and `reduce` must be functions"):
        make(rows=range(5), reduce=None)
    with pytest.raises(TypeError, match="must not be distributed over processes for subspace_iteration"):
        on_ranks(2, lambda comm: sd.subspace_iteration(distributed(MATRIX, comm), rank=2))


def test_one_rank_draws_progress(capsys):
    on_ranks(2, lambda comm: sd.fast_lanczos(distributed(MATRIX, comm), num_steps=5, monitor=sd.Monitor(progress=True)))
    assert capsys.readouterr().err.count("fast_lanczos:   0%") == 1  # the bar may be drawn at 100 % twice


def test_complex_start_vectors_of_a_real_operator_keep_its_rows():
    start = np.random.default_rng(0).standard_normal((N, 2)) @ [1.0, 1.0j]

    def work(comm):
        rows = row_range(N, comm)
        return sd.fast_lanczos(distributed(MATRIX, comm), num_steps=20, probes=start[rows.start : rows.stop])

    expected = sd.fast_lanczos(MATRIX, num_steps=20, probes=start)
    for found in on_ranks(2, work):
        assert_first_equal(found, expected)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_steps": lambda rank: 20 + rank}, "`num_steps` must be the same on all processes .* this one has 2"),
        ({"seed": lambda rank: rank}, "`seed` must be the same on all processes .* this one has [01]"),
        ({"rank": lambda rank: 2 * rank}, "`rank` must be the same on all processes"),
        ({"method": lambda rank: ("kpm", "slow_lanczos")[rank]}, "`method` must be the same on all processes"),
        ({"function": lambda rank: (None, "log")[rank]}, "`function` must be the same on all processes"),
        ({"max_products": lambda rank: 60 + rank}, "`max_products` must be the same on all processes"),
    ],
)
def test_ranks_that_make_other_calls_are_told_in_what_they_differ(settings, words):
    def work(comm):
        mine = {name: value(min(comm.rank, 1)) for name, value in settings.items()}
        with pytest.raises(ValueError, match=words):
            sd.spectral_density(distributed(MATRIX, comm), **mine)

    for num_ranks in (2, 3):
        on_ranks(num_ranks, work)


def test_ranks_that_run_other_algorithms_are_told_so():
    def work(comm, methods):
        with pytest.raises(ValueError, match="must be the same on all processes that compute together; this one"):
            methods[comm.rank](distributed(MATRIX, comm))

    on_ranks(2, partial(work, methods=(sd.fast_lanczos, sd.kpm)))
    on_ranks(2, partial(work, methods=(partial(sd.fast_lanczos, seed=0), partial(sd.fast_lanczos, seed=1))))


def test_an_executor_is_refused_for_distributed_rows():
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="`executor` must be left out for an operator"):
        on_ranks(2, lambda comm: sd.spectral_density(distributed(MATRIX, comm), executor=pool))
