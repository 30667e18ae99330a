"""Laws of `Vectors`: right on every array library, accurate in float32, in place, and without large temporaries."""

from __future__ import annotations

import tracemalloc

import array_api_compat as aac
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_cases import slow_after

from specdens._vectors.base import Terms, Vectors, dtype_name
from specdens._vectors.factory import vectors_like
from specdens._vectors.host import HostVectors
from specdens._vectors.jax import JaxVectors

N, K, M = 37, 3, 4
COLUMNS = pytest.mark.parametrize("columns", [(), (1,), (K,)], ids=["vector", "one column", "block"])
FIELD = pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
IN_PLACE = pytest.mark.parametrize("name", ["numpy", "torch", "array_api_strict"])


def draw(seed, *shape, is_complex=False):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if is_complex else 0)


def make(library, columns, is_complex):
    """Return the operations, and three vectors or blocks both as the library's arrays and as what these hold."""
    xs = [library.array(draw(seed, N, *columns, is_complex=is_complex)) for seed in (1, 2, 3)]
    vectors = vectors_like(xs[0])
    return vectors, xs, [np.array(vectors.to_host(x)) for x in xs]


def coefficients_of(vectors, columns, is_complex, *, seed=4):
    """Return coefficients on the device, of shape () or (k,), and their values."""
    values = np.asarray(draw(seed, *columns, is_complex=is_complex))
    a = vectors.from_host(values, vectors.wide)
    return a, vectors.to_host(a)


def assert_close(vectors, library, found, expected):
    np.testing.assert_allclose(vectors.to_host(found), expected, rtol=library.rtol, atol=library.rtol)


# -- every operation against NumPy ---------------------------------------------------------------------------------


@FIELD
@COLUMNS
def test_dot_is_the_inner_product_of_matching_columns(library, columns, is_complex):
    vectors, (x, y, _), (X, Y, _) = make(library, columns, is_complex)
    found = vectors.dot(x, y)
    assert dtype_name(found.dtype) == ("complex128" if is_complex else "float64")
    assert tuple(found.shape) == columns
    np.testing.assert_allclose(
        vectors.to_host(found), np.sum(X.conj().astype(complex) * Y, axis=0), rtol=1e-12, atol=1e-12
    )


@FIELD
@COLUMNS
def test_norm_is_real_and_that_of_every_column(library, columns, is_complex):
    vectors, (x, _, _), (X, _, _) = make(library, columns, is_complex)
    found = vectors.norm(x)
    assert dtype_name(found.dtype) == "float64"
    np.testing.assert_allclose(vectors.to_host(found), np.linalg.norm(X.astype(complex), axis=0), rtol=1e-12)


@FIELD
@COLUMNS
def test_axpy_adds_a_multiple_column_by_column(library, columns, is_complex):
    vectors, (x, y, _), (X, Y, _) = make(library, columns, is_complex)
    a, value = coefficients_of(vectors, columns, is_complex)
    found = vectors.axpy(a, x, y)
    assert found.dtype == x.dtype
    assert_close(vectors, library, found, Y + value * X)
    assert_close(vectors, library, x, X)


@FIELD
@COLUMNS
@pytest.mark.parametrize("given", ["", "a", "b", "c", "ac", "abc"])
def test_three_term_updates_and_then_takes_inner_products(library, columns, is_complex, given):
    vectors, (w, v, v_prev), (W, V, V_prev) = make(library, columns, is_complex)
    each = {name: coefficients_of(vectors, columns, is_complex, seed=seed) for seed, name in enumerate("abc")}
    values = {"a": 1.0, "b": 0.0, "c": 0.0} | {name: each[name][1] for name in given}
    found, vw, ww = vectors.three_term(w, v, v_prev, Terms(**{name: each[name][0] for name in given}))
    expected = values["a"] * (W + values["b"] * V) + values["c"] * V_prev
    assert tuple(vw.shape) == tuple(ww.shape) == columns
    assert_close(vectors, library, found, expected)
    assert_close(vectors, library, vw, np.sum(V.conj() * expected, axis=0))
    assert_close(vectors, library, ww, np.sum(np.abs(expected) ** 2, axis=0))


@pytest.mark.parametrize("asked", [{"dots": False}, {"squares": False}], ids=str)
def test_three_term_takes_the_inner_products_that_are_asked_for(library, asked):
    vectors, (w, v, _), (W, V, _) = make(library, (), False)
    found, vw, ww = vectors.three_term(w, v, None, Terms(), **asked)
    assert_close(vectors, library, found, W)
    (product, expected) = (ww, W @ W) if "dots" in asked else (vw, V @ W)
    assert_close(vectors, library, product, expected)


@FIELD
@COLUMNS
def test_scale_multiplies_every_column(library, columns, is_complex):
    vectors, (x, _, _), (X, _, _) = make(library, columns, is_complex)
    a, value = coefficients_of(vectors, columns, is_complex)
    found = vectors.scale(a, x)
    assert found.dtype == vectors.dtype
    assert_close(vectors, library, found, value * X)


@FIELD
@COLUMNS
def test_a_small_basis_gives_coefficients_and_takes_them_back(library, columns, is_complex):
    vectors, (x, _, _), (X, _, _) = make(library, columns, is_complex)
    Q_host = draw(5, N, M, is_complex=is_complex)
    Q = library.array(Q_host)
    c = vectors.coefficients(Q, x)
    expected = Q_host.conj().T @ X
    assert dtype_name(c.dtype) == ("complex128" if is_complex else "float64")
    assert_close(vectors, library, c, expected)
    assert_close(vectors, library, vectors.combine(Q, c), Q_host @ expected)
    assert_close(vectors, library, vectors.subtract(Q, c, x), X - Q_host @ expected)


@FIELD
def test_host_and_device_exchange_the_same_numbers_and_shapes(library, is_complex):
    vectors = vectors_like(library.array(draw(0, 2, is_complex=is_complex)))
    for shape in [(), (N,), (N, K)]:
        values = np.asarray(draw(1, *shape, is_complex=is_complex)).astype(vectors.name)
        there = vectors.from_host(values)
        assert tuple(there.shape) == shape
        assert there.dtype == vectors.dtype
        np.testing.assert_array_equal(vectors.to_host(there), values)
        np.testing.assert_array_equal(vectors.to_host(vectors.copy(there)), values)
        assert dtype_name(vectors.from_host(values, vectors.wide).dtype) == dtype_name(vectors.wide)


def test_zeros_have_the_vectors_dtype_and_assign_writes_into_an_index(library):
    vectors = vectors_like(library.array([1.0]))
    x = vectors.zeros((N, K))
    assert x.dtype == vectors.dtype
    x = vectors.assign(x, (slice(2, 4), 1), library.array([7.0, 8.0]))
    expected = np.zeros((N, K))
    expected[2:4, 1] = [7, 8]
    np.testing.assert_array_equal(vectors.to_host(x), expected)


def test_from_host_copies(library):
    vectors = vectors_like(library.array([1.0]))
    values = np.ones(3, dtype=vectors.name)
    there = vectors.from_host(values)
    values[:] = 5
    np.testing.assert_array_equal(vectors.to_host(there), np.ones(3))


def test_every_library_gets_its_own_operations(library):
    expected = {"jax.numpy": JaxVectors, "numpy": HostVectors, "torch": HostVectors}.get(library.name, Vectors)
    assert type(vectors_like(library.array([1.0]))) is expected


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_dtypes_have_one_name_in_every_library(library, name):
    if library.name == "jax.numpy" and name in ("float64", "complex128"):
        assert dtype_name(library.xp.dtype(name)) == name  # JAX has the dtype, but no such array by default
    else:
        assert dtype_name(library.array([1.0], name).dtype) == name


@given(
    n=st.integers(1, 40_000),
    columns=st.integers(0, 5),
    dtype=st.sampled_from(["float32", "float64", "complex64", "complex128"]),
    seed=st.integers(0, 2**32),
)
def test_any_size_is_cut_into_chunks_without_loss(n, columns, dtype, seed):
    shape = (n, columns) if columns else (n,)
    x, y = (draw(seed + i, *shape, is_complex="complex" in dtype).astype(dtype) for i in (0, 1))
    wide = np.result_type(dtype, np.float64)
    expected = np.sum(x.astype(wide).conj() * y.astype(wide), axis=0)
    # the rounding of n additions, relative to the size of the terms
    atol = 1e-15 * np.sum(np.abs(x * y), axis=0).max() + 1e-12
    np.testing.assert_allclose(Vectors(x).dot(x, y), expected, rtol=1e-12, atol=atol)


# -- in place ------------------------------------------------------------------------------------------------------


@COLUMNS
@IN_PLACE
def test_what_is_said_to_be_in_place_writes_into_the_given_memory(name, columns):
    xp = pytest.importorskip(name)
    x, y, w = (xp.asarray(draw(seed, N, *columns)) for seed in (1, 2, 3))
    Q = xp.asarray(draw(5, N, M))
    vectors = vectors_like(x)
    view = y[:5, ...]  # sees what is written into y
    a = vectors.from_host(np.asarray(2.0), vectors.wide)
    for operation in (
        lambda: vectors.axpy(a, x, y),
        lambda: vectors.three_term(y, x, w, Terms(a, a, a))[0],
        lambda: vectors.scale(a, y),
        lambda: vectors.subtract(Q, vectors.coefficients(Q, x), y),
        lambda: vectors.assign(y, (slice(0, 1), ...), x[3:4, ...]),
    ):
        before = np.array(vectors.to_host(y))
        assert operation() is y
        np.testing.assert_array_equal(vectors.to_host(view), vectors.to_host(y)[:5])
        assert not np.array_equal(before, vectors.to_host(y))


@pytest.mark.slow
@COLUMNS
def test_jax_operations_leave_their_arguments_alone(columns):
    jnp = pytest.importorskip("jax.numpy")
    x, y = (jnp.asarray(draw(seed, N, *columns), dtype="float32") for seed in (1, 2))
    X, Y = np.array(x), np.array(y)
    vectors = vectors_like(x)
    a = vectors.from_host(np.asarray(2.0), vectors.wide)
    np.testing.assert_allclose(vectors.axpy(a, x, y), Y + 2 * X, rtol=1e-5, atol=1e-5)
    vectors.scale(a, y)
    np.testing.assert_array_equal(np.asarray(x), X)
    np.testing.assert_array_equal(np.asarray(y), Y)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_a_copy_is_row_major_writable_and_apart(name):
    xp = pytest.importorskip(name)
    x = xp.asarray(np.asfortranarray(draw(0, N, K)))
    if name == "numpy":
        x.flags.writeable = False
    copy = vectors_like(x).copy(x)
    copy[0, 0] = 99.0
    assert float(x[0, 0]) != 99.0
    assert np.asarray(copy).flags.c_contiguous


def test_what_is_not_finite_passes_in_silence(library):
    """NumPy would warn of inf − inf before the estimators could say which step of which probe it is."""
    x = library.array([np.inf, 1.0])
    vectors = vectors_like(x)
    minus = vectors.from_host(np.asarray(-1.0), vectors.wide)
    assert np.isnan(vectors.to_host(vectors.axpy(minus, x, vectors.copy(x)))[0])
    assert np.isinf(vectors.to_host(vectors.norm(x)))


# -- accuracy and memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("entries", slow_after(1, ["constant", "random"]))
@pytest.mark.parametrize(
    "shape", [(20_000_000,), pytest.param((5_000_000, 4), marks=pytest.mark.slow)], ids=["vector", "block"]
)
def test_float32_reductions_are_accurate_to_float64(name, entries, shape):
    """Summed in float32, n = 2·10⁷ constant entries are off by percents; chunks in float64 leave 1e-12."""
    xp = pytest.importorskip(name)
    if entries == "constant":
        x = np.full(shape, 0.1, dtype=np.float32)
        exact = np.full(shape[1:], shape[0] * float(np.float32(0.1)) ** 2)
    else:
        x = np.random.default_rng(0).random(shape, dtype=np.float32)
        wide = x.astype(np.float64)
        exact = np.einsum("i...,i...->...", wide, wide)
    there = xp.asarray(x)
    vectors = vectors_like(there)
    np.testing.assert_allclose(vectors.to_host(vectors.dot(there, there)), exact, rtol=1e-9)
    np.testing.assert_allclose(vectors.to_host(vectors.norm(there)), np.sqrt(exact), rtol=1e-9)


def test_no_operation_makes_a_temporary_the_size_of_a_vector():
    n = 5_000_000
    x, y, z, block = (np.ones((n, *columns), dtype=np.float32) for columns in [(), (), (), (2,)])
    vectors = Vectors(x)
    a = np.asarray(0.5)
    peaks = {}
    for label, operation in {
        "dot": lambda: vectors.dot(x, y),
        "norm": lambda: vectors.norm(x),
        "axpy": lambda: vectors.axpy(a, x, y),
        "three_term": lambda: vectors.three_term(y, x, z, Terms(a, a, a)),
        "scale": lambda: vectors.scale(a, x),
        "block dot": lambda: vectors.dot(block, block),
        "largest": lambda: vectors.largest(block),
        "block scale": lambda: vectors.scale(np.asarray([0.5, 2.0]), block),
        "coefficients": lambda: vectors.coefficients(block, x),
        "subtract": lambda: vectors.subtract(block, np.asarray([0.5, 2.0]), x),
    }.items():
        tracemalloc.start()
        operation()
        peaks[label] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert aac.is_numpy_array(x)
    # a vector takes 20 MB; a basis is read in float64 pieces of 2 MB
    assert max(peaks.values()) < 6e6, peaks
    assert all(peak < 5e5 for label, peak in peaks.items() if label not in ("coefficients", "subtract")), peaks


@pytest.mark.slow
def test_orthonormal_columns_of_many_float32_rows_have_norm_one():
    torch = pytest.importorskip("torch")
    V = torch.randn((8_000_000, 2), generator=torch.Generator().manual_seed(0))
    vectors = vectors_like(V)
    Q = vectors.orthonormalize(V)
    gram = torch.stack([Q[:, i].double() @ Q[:, j].double() for i in range(2) for j in range(2)]).reshape(2, 2)
    assert gram.numpy() == pytest.approx(np.eye(2), abs=1e-6)  # QR alone: 3e-4
    assert abs(float(Q[:, 0].double() @ V[:, 0].double())) == pytest.approx(float(V[:, 0].double().norm()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_orthonormal_columns_span_those_they_are_made_of(dtype):
    rng = np.random.default_rng(0)
    V = rng.standard_normal((50, 4)).astype(dtype)
    V = V + 1j * rng.standard_normal((50, 4)) if np.iscomplexobj(V) else V
    Q = vectors_like(V).orthonormalize(V)
    eps = np.finfo(dtype).eps
    assert np.allclose(Q.conj().T @ Q, np.eye(4), atol=10 * eps)
    assert np.allclose(Q @ (Q.conj().T @ V), V, atol=50 * eps)
