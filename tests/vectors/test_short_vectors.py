"""Short columns of NumPy have code of their own, with less around it: its results are those of the reference."""

from __future__ import annotations

import numpy as np
import pytest

import specdens as sd
from specdens._vectors import dispatch
from specdens._vectors.base import Terms, ThreeTerm, Vectors
from specdens._vectors.factory import vectors_like

# within a part, across one, and from eight parts on, which NumPy adds up in another order
LENGTHS = pytest.mark.parametrize("n", [1, 900, 8192, 10_000, 20_000, 60_000])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])


def columns(n, dtype, *, count=3):
    rng = np.random.default_rng(n)
    parts = rng.standard_normal((2, count, n)) / np.sqrt(n)
    return list((parts[0] + 1j * parts[1] if dtype.startswith("complex") else parts[0]).astype(dtype))


def reference(vectors, task):
    """Return the pass as the reference makes it, on vectors of its own."""
    task = task._replace(w=task.w.copy())
    return Vectors._three_term(vectors, task)


@LENGTHS
@DTYPES
@pytest.mark.parametrize(
    "terms",
    [Terms(), Terms(c=np.array(-0.3)), Terms(a=np.array(1.7), b=np.array(0.1)), Terms(*np.array([0.7, -0.1, 1 / 3]))],
    ids=["product alone", "v_prev", "a and b", "all"],
)
def test_a_pass_over_a_short_column_is_that_of_the_reference_bit_for_bit(n, dtype, terms):
    w, v, z = columns(n, dtype)
    vectors = vectors_like(w)
    task = ThreeTerm(w, v, z, terms)
    expected = reference(vectors, task)
    assert dispatch.three_term(task._replace(w=w.copy())) is not None  # the reference is not what serves here
    found = vectors.three_term(w, v, z, terms)
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


@LENGTHS
@DTYPES
def test_inner_products_of_columns_are_those_of_the_reference_bit_for_bit(n, dtype):
    x, y, _ = columns(n, dtype)
    vectors = vectors_like(x)
    found, expected = vectors.dot(x, y), Vectors.dot(vectors, x, y)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_a_product_of_the_wrong_dtype_shape_or_library_is_still_refused_for_short_vectors():
    for wrong, error in (
        (lambda x: x.astype("float32"), TypeError),
        (lambda x: x[:-1], ValueError),
        (lambda x: x.tolist(), TypeError),
    ):
        with pytest.raises(error, match=r"A @ x must"):
            sd.as_operator(wrong, shape=(9, 9), dtype="float64") @ np.ones(9)


@pytest.mark.parametrize("num_probes", [1, 3])
def test_numbers_that_leave_the_range_raise_by_name_and_warn_of_nothing(num_probes):
    """The coefficients of a step are Python's numbers, whose powers and logarithms raise errors of their own."""
    huge = sd.as_operator(lambda x: 1e200 * x * (1 + np.arange(50.0)), shape=(50, 50), dtype="float64")
    with pytest.raises(ValueError, match="A @ x returned inf at step 1"):
        sd.fast_lanczos(huge, num_steps=4, num_probes=num_probes, check=False)
    measure = sd.fast_lanczos(np.diag(np.linspace(1e-160, 2e-160, 50)), num_steps=4, num_probes=num_probes, check=False)
    assert all(np.all(np.isfinite(alphas)) for alphas in measure.alphas)
