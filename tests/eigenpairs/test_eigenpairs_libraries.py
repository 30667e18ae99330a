"""Eigenpairs in every array library, and the result itself."""

from __future__ import annotations

import dataclasses

import array_api_strict
import numpy as np
import pytest
from eigenproblems import BOTH, assert_orthonormal, expected, outliers, with_spectrum

from specdens import top_eigenpairs

# -- array libraries -----------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_torch_operators_give_torch_vectors(method, dtype):
    torch = pytest.importorskip("torch")
    A = torch.from_numpy(with_spectrum(outliers(), dtype=dtype))
    pairs = method(A, rank=4)
    assert isinstance(pairs.vectors, torch.Tensor)
    assert pairs.vectors.dtype == A.dtype
    assert tuple(pairs.vectors.shape) == (300, 4)
    np.testing.assert_allclose(pairs.values, [-12, 9, 7, 5], rtol=1e-5)


@pytest.mark.slow
@BOTH
def test_jax_operators_give_jax_vectors(method):
    jax = pytest.importorskip("jax")
    pairs = method(jax.numpy.asarray(with_spectrum(outliers(), dtype="float32")), rank=4)
    assert isinstance(pairs.vectors, jax.Array)
    assert pairs.vectors.dtype == np.float32
    np.testing.assert_allclose(pairs.values, [-12, 9, 7, 5], rtol=1e-5)
    assert_orthonormal(pairs, atol=1e-5)


@BOTH
def test_nothing_but_the_array_api_standard_is_needed(method):
    pairs = method(array_api_strict.asarray(with_spectrum(outliers(100))), rank=4)
    assert type(pairs.vectors) is type(array_api_strict.asarray(0.0))
    np.testing.assert_allclose(pairs.values, [-12, 9, 7, 5], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["torch", "jax", "strict"])
def test_restarts_and_trials_work_in_every_library(library):
    A = with_spectrum(np.repeat(np.linspace(-1, 1, 40) ** 3, 2), dtype="float64" if library != "jax" else "float32")
    convert = {
        "torch": lambda: pytest.importorskip("torch").from_numpy(A),
        "jax": lambda: pytest.importorskip("jax").numpy.asarray(A),
        "strict": lambda: array_api_strict.asarray(A),
    }[library]
    pairs = top_eigenpairs(convert(), rank=4, basis_size=9, which="largest")
    np.testing.assert_allclose(pairs.values, expected(np.linalg.eigvalsh(A), 4, "largest"), rtol=1e-5)


# -- the result ----------------------------------------------------------------------------------------------------


def test_the_result_is_frozen_and_shows_its_pairs():
    pairs = top_eigenpairs(with_spectrum(outliers()), rank=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        pairs.values = None
    lines = repr(pairs).splitlines()
    assert lines[0].startswith("EigenPairs(2 pairs, 2 converged, ")
    assert lines[2].split()[:2] == ["0", "-12"]
    assert "⋮" in repr(top_eigenpairs(np.eye(30), rank=25))
