"""Tables, lists, file names and matrices with nan: taken for what they are, or named."""

from __future__ import annotations

import pathlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import specdens as sd

SYMMETRIC = np.array([[2.0, 1.0], [1.0, 3.0]])
DATA = np.arange(12.0).reshape(4, 3)


class Table:
    """What pandas, polars and xarray have in common."""

    def __init__(self, values):
        self.values, self.shape = values, np.shape(values)

    def to_numpy(self):
        return self.values


def test_tables_are_their_arrays():
    assert np.array_equal(sd.as_operator(Table(SYMMETRIC)) @ np.eye(2), SYMMETRIC)
    assert np.array_equal(sd.gram(Table(DATA)) @ np.eye(3), DATA.T @ DATA)
    assert sd.spectral_density(Table(SYMMETRIC)).measure.count(0, 5) == 2


def test_pandas_frames_are_tables():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(DATA, columns=list("abc"))
    assert np.array_equal(sd.gram(frame) @ np.eye(3), DATA.T @ DATA)
    with pytest.raises(
        TypeError, match=r'`X` must hold numbers; got entries of dtype object\. .*select_dtypes\("number"'
    ):
        sd.gram(frame.assign(name="text"))


@pytest.mark.parametrize("convert", [sd.gram, sd.as_operator])
def test_entries_that_are_no_numbers_are_named(convert):
    with pytest.raises(TypeError, match="must hold numbers; got entries of dtype"):
        convert(Table(np.array([["a", "b"], ["b", "c"]])))


@pytest.mark.parametrize("call", [sd.spectral_density, sd.gram, sd.graph_laplacian])
def test_the_matrices_of_numpy_leave_no_warning(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix([[0.0, 1.0], [1.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = call(matrix)
        if call is sd.gram:
            assert np.array_equal(found @ np.eye(2), np.eye(2))


@pytest.mark.parametrize("call", [sd.spectral_density, sd.fast_lanczos, sd.gram, sd.graph_laplacian])
@pytest.mark.parametrize("path", ["A.mtx", pathlib.Path("A.mtx")])
def test_a_file_name_is_no_matrix(call, path):
    with pytest.raises(
        TypeError, match=r"got the name of a file, 'A\.mtx'\. Read it .*mmread.* \"specdens density A\.mtx\""
    ):
        call(path)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_array, sp.dia_array])
@pytest.mark.parametrize("call", [sd.spectral_density, sd.fast_lanczos, sd.gram, sd.graph_laplacian])
def test_entries_that_are_not_finite_are_refused_before_any_product(wrong, form, call):
    A = SYMMETRIC.copy()
    A[0, 1] = A[1, 0] = wrong
    with pytest.raises(ValueError, match=r"must be finite; got 2 entries that are (nan|inf)\. Drop or replace them"):
        call(form(A))


def test_finite_entries_whose_sum_is_not_are_kept():
    A = np.diag(np.full(4, 1e308))
    assert np.array_equal(sd.as_operator(A) @ np.eye(4), A)


def test_a_gram_matrix_tells_its_eigenvalues_from_its_vectors():
    assert repr(sd.gram(np.ones((3, 8)))).startswith("Gram(n=8, vectors of 3, dtype=float64")
    assert repr(sd.gram(np.ones((8, 3)))).startswith("Gram(n=3, dtype=float64")
