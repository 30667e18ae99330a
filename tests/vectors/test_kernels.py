"""The fast paths: compiled kernels and threads agree with the reference path, whatever the layout and the dtype."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import specdens as sd
from specdens._lanczos.recurrence import Recurrence
from specdens._operators.csr import SparseMatrix
from specdens._running.start_vectors import start_block
from specdens._vectors import dispatch, threads, tuning
from specdens._vectors.base import Terms, Vectors
from specdens._vectors.factory import vectors_like

pytest.importorskip("numba")

pytestmark = pytest.mark.slow

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
COLUMNS = pytest.mark.parametrize("columns", [(), (1,), (7,), (8,), (19,)], ids=str)
N = 2**15 + 77  # several chunks, and a rest


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    monkeypatch.setattr(tuning, "MIN_COMPILED", 1)
    monkeypatch.setattr(tuning, "MIN_THREADED", 1)


def draw(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return np.array(x if np.dtype(dtype).kind == "c" else x.real, dtype=dtype, order="C")


def eps(dtype):
    return float(np.finfo(dtype).eps)


@pytest.fixture(params=["kernels", "threads"])
def path(request, monkeypatch):
    """Compiled kernels, then what there is without them, both in threads."""
    monkeypatch.setattr("specdens._vectors.tuning.COMPILED_SHARE", 1)
    monkeypatch.setattr("specdens._vectors.numba_kernels.num_threads", lambda: 2)
    monkeypatch.setattr("specdens._vectors.numpy_passes.num_threads", lambda: 2)
    monkeypatch.setattr("specdens._vectors.tuning.THREADED_PART", 2**13)
    monkeypatch.setattr(dispatch, "_enabled", request.param == "kernels")


@DTYPES
@COLUMNS
@pytest.mark.parametrize("given", ["", "c", "ab", "abc"])
@pytest.mark.usefixtures("path")
def test_three_term_agrees_with_the_reference(dtype, columns, given):
    vectors = vectors_like(np.empty(0, dtype))
    w, v, z = (draw(seed, (N, *columns), dtype) for seed in range(3))
    terms = Terms(**{name: np.asarray(draw(seed, columns, vectors.wide)) for seed, name in enumerate(given)})
    expected = Vectors(w).three_term(w.copy(), v, z, terms)
    found = vectors.three_term(w, v, z, terms)
    assert found[0] is w
    np.testing.assert_allclose(found[0], expected[0], atol=20 * eps(dtype))
    for one, other in zip(found[1:], expected[1:], strict=True):
        assert one.shape == columns
        assert one.dtype == vectors.wide
        np.testing.assert_allclose(one, other, rtol=1e-12 + 2 * eps(dtype), atol=10 * eps(dtype) * N**0.5)


@DTYPES
@COLUMNS
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.usefixtures("path")
def test_csr_products_are_those_of_scipy(dtype, columns, index):
    A = sp.random_array((4321, 4321), density=1e-3, rng=0, dtype=dtype, format="csr")  # some rows are empty
    A.indptr, A.indices = A.indptr.astype(index), A.indices.astype(index)
    x, z = draw(0, (4321, *columns), dtype), draw(1, (4321, *columns), dtype)
    operator = sd.as_operator(A)
    np.testing.assert_allclose(operator @ x, A @ x, atol=50 * eps(dtype))
    a, b, c = (np.asarray(np.random.default_rng(seed).uniform(0.5, 1.5, columns)) for seed in range(3))  # each its own
    out = np.full_like(x, np.nan)
    expected = a * (A @ x + b * x) + c * z
    found, xw, ww = operator.three_term(x, z, Terms(a, b, c), out=out)
    assert found is out
    np.testing.assert_allclose(found, expected, atol=100 * eps(dtype))
    np.testing.assert_allclose(xw, np.sum(x.conj() * expected, axis=0), rtol=1e-3 if eps(dtype) > 1e-10 else 1e-11)
    np.testing.assert_allclose(ww, np.sum(abs(expected) ** 2, axis=0), rtol=100 * eps(dtype))
    in_place, *sums = operator.three_term(x, z, Terms(a, b, c), out=z)
    assert in_place is z
    for one, other in zip((in_place, *sums), (found, xw, ww), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("columns", [(), (3,)], ids=str)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_without_kernels_scipy_multiplies_rows_in_threads(columns, threads, monkeypatch):
    monkeypatch.setattr("specdens._vectors.numpy_passes.num_threads", lambda: threads)
    monkeypatch.setattr("specdens._vectors.tuning.THREADED_PART", 2**7)
    A = sp.random_array((501, 501), density=0.01, rng=0, format="csr")
    A = (sp.diags_array((np.arange(501) > 100) * 1.0) @ A).tocsr()  # rows without entries at the beginning
    x = draw(0, (501, *columns), "float64")
    with dispatch.without():
        np.testing.assert_array_equal(sd.as_operator(A) @ x, A @ x)
        np.testing.assert_array_equal(sd.as_operator(sp.csr_array((501, 501))) @ x, np.zeros_like(x))


def test_parts_of_a_matrix_share_its_memory():
    A = sp.random_array((1000, 1000), density=0.01, rng=0, format="csr")
    parts = sd.as_operator(A)._rows.parts([slice(start, start + 100) for start in range(0, 1000, 100)])
    for rows, part in parts:
        assert np.shares_memory(part.data, A.data)
        assert np.shares_memory(part.indices, A.indices)
        np.testing.assert_array_equal(part.toarray(), A.toarray()[rows])


@pytest.mark.usefixtures("path")
def test_a_matrix_that_scipy_changes_in_place_is_multiplied_as_it_is_now():
    n = 3000
    A = sp.csr_array((np.ones(2 * n), np.repeat(np.arange(n), 2), np.arange(0, 2 * n + 1, 2)), shape=(n, n))
    operator, x = sd.as_operator(A), draw(0, (n,), "float64")
    np.testing.assert_array_equal(operator @ x, 2 * x)
    A.sum_duplicates()
    np.testing.assert_array_equal(operator @ x, 2 * x)
    with pytest.warns(sp.SparseEfficiencyWarning):
        A[0, 1] = 5.0
    np.testing.assert_allclose(operator @ x, A @ x, rtol=1e-15)
    A.data *= 3.0
    np.testing.assert_allclose(operator @ x, A @ x, rtol=1e-15)


@pytest.mark.parametrize("method", [sd.fast_lanczos, partial(sd.kpm, bounds=(-1.1, 1.1))])
@pytest.mark.usefixtures("path")
def test_start_vectors_of_another_library_and_layout_are_the_same_run(method):
    torch = pytest.importorskip("torch")
    A = sp.diags_array(np.linspace(-1, 1, 4000)).tocsr()
    probes = draw(0, (4000, 11), "float64")
    column_major = torch.from_numpy(np.ascontiguousarray(probes.T)).T
    for check in (True, False):
        expected, *found = (method(A, probes=x, check=check) for x in (probes, column_major, np.asfortranarray(probes)))
        for other in found:
            np.testing.assert_array_equal(other.moments(6), expected.moments(6))


@pytest.mark.parametrize("columns", [(), (4,)], ids=str)
@pytest.mark.usefixtures("path")
def test_products_with_vectors_of_any_layout_are_those_of_scipy(columns):
    A = sp.random_array((301, 301), density=0.1, rng=0, format="csr")
    operator = sd.as_operator(A)
    x = draw(0, (602, *columns), "float64")
    read_only = x[:301].copy()
    read_only.flags.writeable = False
    for other in (x[::2], np.asfortranarray(x[:301]), read_only, x[:301].astype("float32"), np.ones(301, int)):
        expected = A @ other
        np.testing.assert_allclose(operator @ other, expected, atol=1e-13)
    with pytest.raises(TypeError, match="complex128"):
        _ = operator @ x[:301].astype(complex)


def test_duplicate_unsorted_and_absent_entries_are_taken_as_they_are():
    rows, columns, values = [0, 0, 0, 2], [2, 0, 2, 0], [1.0, 5.0, 2.0, 3.0]
    A = sp.csr_array((values, columns, [0, 3, 3, 4]), shape=(3, 3))
    x = np.array([1.0, 10.0, 100.0])
    np.testing.assert_array_equal(sd.as_operator(A) @ x, [305.0, 0.0, 3.0])
    assert len(rows) == A.nnz


def test_a_matrix_without_entries_is_zero():
    measure = sd.fast_lanczos(sp.csr_array((500, 500)), num_probes=3)
    assert [nodes.tolist() for nodes in measure.nodes] == [[0.0]] * 3


@COLUMNS
@pytest.mark.usefixtures("path")
def test_sums_do_not_depend_on_the_number_of_threads(columns, monkeypatch):
    vectors = vectors_like(np.empty(0))
    w, v, z = (draw(seed, (N, *columns), "float64") for seed in range(3))
    operator = sd.as_operator(sp.diags_array(np.linspace(-1, 1, N)).tocsr())
    found = []
    for count in (1, 2, 5):
        for module in ("threads", "numba_kernels", "numpy_passes"):
            monkeypatch.setattr(f"specdens._vectors.{module}.num_threads", lambda count=count: count)
        threads._pool.cache_clear()
        found.append(vectors.three_term(w.copy(), v, z, Terms(c=np.asarray(0.3))))
        found[-1] += operator.three_term(v, z, Terms(c=np.asarray(0.3)))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.usefixtures("path")
def test_float32_vectors_are_summed_in_float64():
    x = np.full(3_000_017, 1e-3, dtype=np.float32)
    vectors = vectors_like(x)
    _, xx, also = vectors.three_term(x.copy(), x, None, Terms())
    exact = x.size * float(x[0]) ** 2
    assert abs(xx - exact) < 1e-13 * exact
    assert xx == also


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.usefixtures("path")
def test_what_is_not_finite_stays_so(value):
    x = np.ones(N)
    x[N // 2] = value
    vectors = vectors_like(x)
    _, _, ww = vectors.three_term(x.copy(), np.ones(N), None, Terms())
    assert not np.isfinite(ww)
    A = sp.diags_array(x).tocsr()
    with pytest.raises(ValueError, match="must be finite"):
        sd.fast_lanczos(A, num_steps=3, check=False)


@pytest.mark.usefixtures("path")
def test_infinities_of_both_signs_are_no_warning():
    x = np.ones(N)
    x[[1, N - 2]] = np.inf, -np.inf
    _, xx, _ = vectors_like(x).three_term(x, np.ones(N), None, Terms())
    assert np.isnan(xx)
    with pytest.raises(ValueError, match="must be finite"):
        sd.fast_lanczos(sp.diags_array(x).tocsr(), num_steps=3, check=False)


@pytest.mark.parametrize("columns", [(), (8,)], ids=str)
@pytest.mark.usefixtures("path")
def test_torch_tensors_on_the_host_use_the_same_passes(columns):
    torch = pytest.importorskip("torch")
    w, v, z = (draw(seed, (N, *columns), "float64") for seed in range(3))
    c = draw(5, columns, "float64")
    vectors = vectors_like(torch.empty(0, dtype=torch.float64))
    found = vectors.three_term(torch.tensor(w), torch.tensor(v), torch.tensor(z), Terms(c=torch.tensor(c)))
    expected = vectors_like(w).three_term(w, v, z, Terms(c=np.asarray(c)))
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, torch.Tensor)
        np.testing.assert_array_equal(one.numpy(), other)


def test_what_is_no_plain_memory_of_the_host_is_left_to_its_library():
    torch = pytest.importorskip("torch")
    x = torch.ones(4, 4, dtype=torch.complex64)
    for other in (x.conj(), x.T[:, :2], x.to("meta"), x.to_sparse(), x.real.to(torch.bfloat16), np.ones((4, 4))[:, :2]):
        assert dispatch.host_view(other) is None
    assert dispatch.host_view(x).ctypes.data == x.data_ptr()


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_measures_agree_with_those_of_the_reference(seed, num_probes):
    rng = np.random.default_rng(seed)
    A = sp.random_array((300, 300), density=0.02, rng=rng, format="csr")
    A = (A + A.T).tocsr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "MIN_COMPILED", 1)
        patch.setattr(tuning, "MIN_THREADED", 1)
        fast = sd.fast_lanczos(A, num_steps=12, num_probes=num_probes, seed=seed)
    with dispatch.without():
        slow = sd.fast_lanczos(A, num_steps=12, num_probes=num_probes, seed=seed)
    for one, other in zip(fast.alphas, slow.alphas, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_extending_a_measure_leaves_its_vectors_alone():
    A = sd.as_operator(sp.diags_array(np.linspace(-1, 1, 2000)).tocsr())
    short = sd.fast_lanczos(A, num_steps=6, num_probes=2, keep_vectors=True)
    vectors = [np.array(x) for x in (short.recurrences[0].v, short.recurrences[0].v_prev)]
    one, other = (sd.extend(short, A, num_steps=20) for _ in range(2))
    np.testing.assert_array_equal(one.alphas, other.alphas)
    np.testing.assert_array_equal(one.alphas, sd.fast_lanczos(A, num_steps=20, num_probes=2).alphas)
    for now, before in zip((short.recurrences[0].v, short.recurrences[0].v_prev), vectors, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("method", [sd.fast_lanczos, partial(sd.kpm, bounds=(-1.1, 1.1))])
def test_a_run_interrupted_within_a_step_goes_on_from_its_checkpoint(method, tmp_path, monkeypatch):
    A = sp.diags_array(np.linspace(-1, 1, 2000)).tocsr()
    whole = method(A, num_probes=2, seed=1)
    original, calls = SparseMatrix.three_term, []

    def interrupted(*arguments, **options):
        result = original(*arguments, **options)
        calls.append(result)
        if len(calls) == 20:  # the next vector is written, the step is not done
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(SparseMatrix, "three_term", interrupted)
    with pytest.raises(KeyboardInterrupt):
        method(A, num_probes=2, seed=1, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))
    monkeypatch.setattr(SparseMatrix, "three_term", original)
    again = method(A, num_probes=2, seed=1, monitor=sd.Monitor(checkpoint=tmp_path / "run.npz"))
    for name in ("alphas", "betas") if method is sd.fast_lanczos else ("mus",):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))


def test_steps_on_a_sparse_matrix_write_over_the_vector_before_the_last():
    A = sd.as_operator(sp.diags_array(np.linspace(-1, 1, 2000)).tocsr())
    run = Recurrence.start(A, (0, 1), start_block(A, "gaussian", (0, 1), 0))
    run.preserve_inputs = False
    run.step(A, check=False)
    for _ in range(5):
        before = run.v_prev
        run.step(A, check=False)
        assert run.v is before


@pytest.mark.parametrize(("checkpoint", "num_vectors"), [(False, 2), (True, 3)])
@pytest.mark.usefixtures("path")
def test_a_run_on_a_sparse_matrix_holds_two_vectors_per_probe(checkpoint, num_vectors, tmp_path, monkeypatch):
    monkeypatch.setattr("specdens._vectors.tuning.THREADED_PART", 2**15)
    n, num_probes = 300_000, 4
    A = sp.diags_array(np.linspace(-1, 1, n)).tocsr()

    def run(name):
        monitor = sd.Monitor(progress=False, checkpoint=tmp_path / name if checkpoint else None)
        sd.fast_lanczos(A, num_steps=4, num_probes=num_probes, check=False, monitor=monitor)

    run("first.npz")  # compiles what will be used
    tracemalloc.start()
    try:
        run("second.npz")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= num_vectors * num_probes * n * 8 * 1.05 + 5e6  # and the scratch of parts


def test_extending_step_by_step_is_the_same_run():
    A = sd.as_operator(sp.diags_array(np.linspace(-1, 1, 2000)).tocsr())
    measure = sd.fast_lanczos(A, num_steps=4, num_probes=2, keep_vectors=True)
    for num_steps in range(5, 10):
        measure = sd.extend(measure, A, num_steps=num_steps)
    np.testing.assert_array_equal(measure.alphas, sd.fast_lanczos(A, num_steps=9, num_probes=2).alphas)


def test_operators_may_be_used_from_several_threads():
    A = sd.as_operator(sp.diags_array(np.linspace(-1, 1, 5000)).tocsr())
    expected = sd.fast_lanczos(A, num_steps=10, num_probes=3).alphas
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: sd.fast_lanczos(A, num_steps=10, num_probes=3).alphas, range(8)))
    for found in runs:
        np.testing.assert_array_equal(found, expected)
