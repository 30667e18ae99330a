"""What `subspace_iteration` and `top_eigenpairs` say of doubtful results and of bad input."""

from __future__ import annotations

import numpy as np
import pytest
from eigenproblems import BOTH, outliers, true_residuals, with_spectrum

from specdens import SpecdensWarning, as_operator, subspace_iteration, top_eigenpairs

# -- doubtful results ----------------------------------------------------------------------------------------------


def test_subspace_iteration_names_the_pairs_that_did_not_converge():
    A = with_spectrum(outliers(values=(-12.0, 9.0)))
    with pytest.warns(SpecdensWarning, match=r"1 of 3 eigenpairs .* tol=0.001 in 30 products: pairs 2 \(value"):
        pairs = subspace_iteration(A, rank=3, num_iters=10)
    assert pairs.converged.tolist() == [True, True, False]
    assert "not converged" in repr(pairs)


def test_top_eigenpairs_names_the_pairs_that_did_not_converge_and_the_remedy():
    A = with_spectrum(outliers(values=(-12.0, 9.0)))
    with pytest.warns(SpecdensWarning, match=r"pairs 2 \(value -?[01]\.\d+, residual .*Raise `max_products`") as record:
        pairs = top_eigenpairs(A, rank=3, max_products=20)
    assert pairs.num_products == 20
    assert record[0].filename == __file__
    np.testing.assert_allclose(pairs.residuals, true_residuals(A, pairs), rtol=1e-3, atol=1e-12)


def test_many_unconverged_pairs_are_counted():
    A = with_spectrum(np.linspace(-1, 1, 100))
    with pytest.warns(SpecdensWarning, match=r"of 9 eigenpairs .*, and \d more"):
        top_eigenpairs(A, rank=9, max_products=9)


def test_a_tolerance_below_rounding_is_named_as_such():
    A = with_spectrum(outliers(), dtype="float32")
    with pytest.warns(SpecdensWarning, match=r"Rounding in float32 alone leaves .*raise `tol`, or use float64"):
        top_eigenpairs(A, rank=4, tol=1e-8)


def test_float32_pairs_converge_quietly_and_truly_at_the_default_tolerance():
    A = with_spectrum(outliers(), dtype="float32")
    pairs = top_eigenpairs(A, rank=4)
    assert pairs.converged.all()
    assert true_residuals(A.astype(float), pairs).max() < 4e-4


# -- bad input -----------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 0}, "`rank` must be at least 1; got 0"),
        ({"rank": 5}, r"`rank` must be at most the dimension \(4\); got 5"),
        ({"rank": 1, "tol": 0.0}, "`tol` must be positive and finite; got 0"),
        ({"rank": 1, "tol": float("nan")}, "`tol` must be positive and finite; got nan"),
    ],
)
def test_values_out_of_range_are_refused(method, arguments, message):
    with pytest.raises(ValueError, match=message):
        method(np.eye(4), **arguments)


@BOTH
def test_a_rank_that_is_not_an_integer_is_refused(method):
    with pytest.raises(TypeError, match=r"`rank` must be an integer; got 2\.5"):
        method(np.eye(4), rank=2.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"which": "LM"}, "`which` must be one of magnitude, largest, smallest, both; got 'LM'"),
        ({"max_products": 1}, "`max_products` must be at least 2; got 1"),
        ({"basis_size": 5}, "`basis_size` must be at least 6; got 5"),
    ],
)
def test_arguments_of_top_eigenpairs_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        top_eigenpairs(np.eye(40), rank=2, **arguments)


def test_subspace_iteration_needs_an_iteration():
    with pytest.raises(ValueError, match="`num_iters` must be at least 1; got 0"):
        subspace_iteration(np.eye(4), rank=1, num_iters=0)


@BOTH
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_product_that_is_not_finite_is_named_by_its_number(method, bad):
    A, count = with_spectrum(outliers()), 0

    def matmul(x):
        nonlocal count
        count += 1
        y = A @ x
        if count == 8:
            y[5] = bad
        return y

    with pytest.raises(ValueError, match="A @ x returned nan or inf at product 8: the operator, or the model"):
        method(as_operator(matmul, shape=300, dtype="float64"), rank=3)


@BOTH
def test_an_operator_that_is_not_symmetric_is_refused(method):
    A = np.diag(np.linspace(1, 2, 200)) + np.diag(np.ones(199), 1)
    with pytest.raises(ValueError, match=r"the operator is not symmetric: ⟨v, A w⟩ = "):
        method(A, rank=3)


@pytest.mark.parametrize("find", [subspace_iteration, top_eigenpairs])
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_products_whose_squares_leave_the_range_are_refused(find, scale):
    with pytest.raises(ValueError, match=r"entries of size .*, whose squares leave the range of float64. Scale it"):
        find(scale * np.diag([3.0, 2.0, 1.0, 0.5, 0.1]), rank=2)
