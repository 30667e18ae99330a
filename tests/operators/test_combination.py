"""Operators made from operators multiply as the dense matrices that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from optional import optional
from spectra import rotated

import specdens as sd
from specdens._operators.products import ReusedMemoryError

torch = optional("torch")

sizes = st.integers(1, 12)
seeds = st.integers(0, 2**32 - 1)
numbers = st.floats(-10, 10, allow_subnormal=False)


def symmetric(n, seed, *, is_complex=False):
    return rotated(np.random.default_rng(seed).standard_normal(n), seed, is_complex=is_complex)


def assert_acts_as(A, dense):
    """Check products with a vector and with a block, in float64."""
    n = dense.shape[0]
    rng = np.random.default_rng(7)
    for shape in [(n,), (n, 3)]:
        x = rng.standard_normal(shape).astype(dense.dtype)
        before = x.copy()
        np.testing.assert_allclose(A @ x, dense @ x, rtol=1e-10, atol=1e-9)
        np.testing.assert_array_equal(x, before)


def exact_pairs(dense, chosen):
    values, vectors = np.linalg.eigh(dense)
    values, vectors = values[chosen], np.ascontiguousarray(vectors[:, chosen])
    rank = len(values)
    return sd.EigenPairs(values, vectors, np.zeros(rank), np.ones(rank, dtype=bool), num_products=0, seconds=0.0)


# -- sums, multiples, shifts -------------------------------------------------------------------------------------------


@given(sizes, seeds, st.lists(numbers, min_size=1, max_size=4), numbers, st.booleans())
def test_a_combination_is_the_sum_of_multiples_and_a_shift(n, seed, coefficients, shift, is_complex):
    matrices = [symmetric(n, seed + i, is_complex=is_complex) for i in range(len(coefficients))]
    A = sd.Combination(list(zip(coefficients, matrices, strict=True)), shift=shift)
    dense = sum(c * M for c, M in zip(coefficients, matrices, strict=True)) + shift * np.eye(n)
    assert_acts_as(A, dense.astype(matrices[0].dtype))


@given(sizes, seeds, numbers)
def test_operators_combine_with_plus_minus_and_numbers(n, seed, c):
    M, L = symmetric(n, seed), symmetric(n, seed + 1)
    A, B = sd.as_operator(M), sd.as_operator(L)
    for combined, dense in [
        (A + B, M + L),
        (A - B, M - L),
        (-A, -M),
        (c * A, c * M),
        (A * c, c * M),
        (np.float64(c) * A, c * M),
        (2 * (A - c * B) - A, M - 2 * c * L),
        (A - A, 0 * M),
        (A + L, M + L),
        (A - sp.csr_array(L), M - L),
    ]:
        assert isinstance(combined, sd.Operator)
        assert_acts_as(combined, dense)


def test_combinations_stay_in_their_array_library(library):
    M = symmetric(5, 0)
    A = sd.as_operator(library.array(M))
    x = library.array(np.ones(5))
    y = (2 * A - A + A) @ x
    assert type(y) is type(x)
    np.testing.assert_allclose(A.vectors.to_host(y), 2 * M @ np.ones(5), rtol=library.rtol, atol=library.rtol)


def test_a_sum_knows_blocks_if_all_its_terms_do():
    A = sd.as_operator(np.eye(3))
    f = sd.as_operator(lambda x: x, shape=3, dtype="float64")
    assert (A + A).has_block_products
    assert not (A + f).has_block_products
    assert_acts_as(A + f, 2 * np.eye(3))


@pytest.mark.parametrize("c", [1j, 1 + 2j, np.nan, np.inf])
def test_coefficients_must_be_real_and_finite(c):
    A = sd.as_operator(np.eye(2))
    message = r"coefficients of operators must be real and finite, so that the sum is Hermitian; got .*(j|nan|inf)"
    with pytest.raises(ValueError, match=message):
        c * A
    with pytest.raises(ValueError, match=message):
        sd.Combination([(1.0, A)], shift=c)


@pytest.mark.parametrize("c", ["a", None, sd.as_operator(np.eye(2))])
def test_coefficients_must_be_numbers(c):
    with pytest.raises(TypeError, match="coefficients of operators must be numbers; got "):
        sd.as_operator(np.eye(2)) * c


@pytest.mark.parametrize(
    "other",
    [
        np.eye(3),
        np.eye(2, dtype="float32"),
        np.eye(2) * 1j,
        torch.eye(2, dtype=torch.float64),
        torch.eye(2, dtype=torch.float64, device="meta"),
    ],
)
def test_operators_that_disagree_cannot_be_added(other):
    with pytest.raises(
        ValueError, match=r"must agree in shape, dtype and device to be added; got DenseMatrix\(n=2, .* and"
    ):
        sd.as_operator(np.eye(2)) + other


def test_a_number_is_not_an_operator():
    with pytest.raises(TypeError, match=r"`A` must be an array, .*; got int"):
        sd.as_operator(np.eye(2)) + 3


def test_a_combination_needs_terms():
    with pytest.raises(ValueError, match=r"`terms` must hold at least one pair \(coefficient, operator\); got none"):
        sd.Combination([])


def test_operators_that_share_a_buffer_are_not_added_up_wrongly():
    buffer = np.empty(3)
    A, B = (sd.as_operator(lambda x, d=d: np.multiply(d, x, out=buffer), shape=3, dtype="float64") for d in (2.0, 5.0))
    with pytest.raises(ReusedMemoryError, match="the memory of an earlier product that is still in use"):
        (3 * A - B) @ np.ones(3)


# -- projections and deflation -----------------------------------------------------------------------------------------


@given(sizes, seeds, st.booleans(), st.data())
def test_a_projected_operator_is_pap(n, seed, is_complex, data):
    rank = data.draw(st.integers(0, n))
    M = symmetric(n, seed, is_complex=is_complex)
    Z = np.random.default_rng(seed).standard_normal((n, rank)) + (1j * np.ones((n, rank)) if is_complex else 0)
    Q = np.linalg.qr(Z)[0]
    P = np.eye(n) - Q @ Q.conj().T
    A = sd.Projected(M, Q)
    assert_acts_as(A, P @ M @ P)
    x = np.random.default_rng(1).standard_normal(n).astype(M.dtype)
    np.testing.assert_allclose(A.project(x.copy()), P @ x, atol=1e-12)


@pytest.mark.parametrize("shape", [(3,), (2, 1), (3, 4), (3, 1, 1)])
def test_a_basis_must_fit_the_operator(shape):
    with pytest.raises(ValueError, match=r"`Q` must have shape \(3, rank\); got \("):
        sd.Projected(np.eye(3), np.ones(shape))


@given(st.integers(2, 12), seeds, st.booleans(), st.data())
def test_a_deflated_operator_knows_its_pairs_and_acts_on_the_rest(n, seed, is_complex, data):
    rank = data.draw(st.integers(0, n - 1))
    M = symmetric(n, seed, is_complex=is_complex)
    pairs = exact_pairs(M, slice(n - rank, n))
    A = sd.deflate(M, pairs)
    V = pairs.vectors
    assert_acts_as(A, M - (V * pairs.values) @ V.conj().T)
    assert (A.dimension, A.bulk_dimension) == (n, n - rank)
    np.testing.assert_array_equal(A.known_atoms.positions, pairs.values)
    np.testing.assert_allclose(A.known_atoms.masses, np.full(rank, 1 / n))
    x = A.project(np.ones(n, dtype=M.dtype))
    np.testing.assert_allclose(A.apply_within(x.copy()), A @ x, atol=1e-9)


def test_deflation_can_be_repeated_and_normalised_and_counted():
    M = symmetric(10, 3)
    values = np.linalg.eigvalsh(M)
    twice = sd.deflate(sd.deflate(M, exact_pairs(M, slice(8, 10))), exact_pairs(M, slice(0, 1)))
    np.testing.assert_allclose(twice.known_atoms.positions, values[[0, 8, 9]], rtol=1e-12)
    for A, atoms in [
        (twice, values[[0, 8, 9]]),
        (sd.Counted(twice), values[[0, 8, 9]]),
        (sd.normalize(twice, bounds=(-4, 4)), values[[0, 8, 9]] / 4),
    ]:
        assert (A.dimension, A.bulk_dimension) == (10, 7)
        np.testing.assert_allclose(A.known_atoms.positions, atoms)
        x = A.project(np.ones(10))
        np.testing.assert_allclose(A.apply_within(x), A.project(A.apply_within(x)), atol=1e-12)
        nodes = sd.slow_lanczos(A).nodes[0]
        np.testing.assert_allclose(nodes, values[1:8] / (4 if isinstance(A, sd.Normalized) else 1), atol=1e-9)


def test_no_more_pairs_than_dimensions_can_be_deflated():
    M = np.eye(3)
    all_but_one = sd.deflate(M, exact_pairs(M, slice(0, 2)))
    with pytest.raises(ValueError, match="`pairs` must have at most 1 eigenpairs, the dimension; got 2"):
        sd.deflate(all_but_one, exact_pairs(M, slice(0, 2)))


# -- counting and normalising ------------------------------------------------------------------------------------------


@given(sizes, seeds, st.lists(st.integers(0, 4), max_size=5))
def test_counted_counts_columns_and_changes_nothing(n, seed, blocks):
    M = symmetric(n, seed)
    A = sd.Counted(M)
    for k in blocks:
        A @ (np.ones((n, k)) if k else np.ones(n))
    assert A.num_products == sum(max(k, 1) for k in blocks)
    assert_acts_as(A, M)


@given(sizes, seeds, numbers, st.floats(0.1, 10))
def test_a_normalised_operator_is_shifted_and_scaled(n, seed, lo, width):
    M = symmetric(n, seed)
    A = sd.normalize(M, bounds=(lo, lo + width))
    assert A.interval == pytest.approx((lo, lo + width))
    assert_acts_as(A, (M - (lo + width / 2) * np.eye(n)) / (width / 2))


@given(sizes, seeds, st.booleans())
def test_bounds_contain_the_spectrum_and_normalise_it_into_the_unit_interval(n, seed, is_complex):
    M = symmetric(n, seed, is_complex=is_complex)
    values = np.linalg.eigvalsh(M)
    lo, hi = sd.spectral_bounds(M)
    assert lo <= values[0] <= values[-1] <= hi
    found = np.linalg.eigvalsh(sd.normalize(M) @ np.eye(n, dtype=M.dtype))
    assert np.abs(found).max() <= 1


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        (3.0, TypeError, r"`bounds` must be a pair \(lo, hi\); got 3.0"),
        ((1, 2, 3), TypeError, r"`bounds` must be a pair \(lo, hi\); got \(1, 2, 3\)"),
        (("a", "b"), TypeError, r"`bounds` must be a pair \(lo, hi\); got \('a', 'b'\)"),
        ((2, 1), ValueError, r"`bounds` must be finite and increasing; got \(2, 1\)"),
        ((1, 1), ValueError, r"`bounds` must be finite and increasing; got \(1, 1\)"),
        ((0, np.inf), ValueError, r"`bounds` must be finite and increasing; got \(0, inf\)"),
    ],
)
def test_bounds_must_be_two_increasing_numbers(bounds, error, message):
    with pytest.raises(error, match=message):
        sd.normalize(np.eye(2), bounds=bounds)


@pytest.mark.parametrize(
    ("margin", "error"), [(-1, ValueError), (np.nan, ValueError), (np.inf, ValueError), ("a", TypeError)]
)
def test_margins_must_not_be_negative_and_are_refused_before_the_first_product(margin, error):
    A = sd.Counted(np.eye(3))
    with pytest.raises(error, match=r"`margin` must be (a number|finite and not negative); got "):
        sd.spectral_bounds(A, margin=margin)
    assert A.num_products == 0
    with pytest.raises(error, match=r"`margin` must be (a number|finite and not negative); got "):
        sd.Interval(0.0, 1.0).widened(margin)
