"""Products by differences of gradients: those of the Hessian to the error that they claim, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from spectra import rotated

import specdens as sd

N = 60
MATRIX = rotated(np.concatenate([np.linspace(-1.0, 2.0, N - 1), [9.0]]), 3)
POINT = np.random.default_rng(0).standard_normal(N)


def gradient(x):
    """Return that of ½ xᵀMx + Σ sin x."""
    return MATRIX.astype(x.dtype) @ x + np.cos(x)


HESSIAN = MATRIX - np.diag(np.sin(POINT))


@pytest.mark.parametrize(("dtype", "most"), [("float64", 1e-7), ("float32", 2e-2)])
def test_products_are_right_to_the_error_that_they_claim(dtype, most):
    A = sd.FiniteDifference(gradient, POINT.astype(dtype))
    assert A.error < most
    x = np.random.default_rng(1).standard_normal((N, 3)).astype(dtype)
    expected = HESSIAN @ x
    relative = np.linalg.norm(A @ x - expected, axis=0) / np.linalg.norm(expected, axis=0)
    assert relative.max() < 10 * A.error


def test_the_density_is_that_of_the_hessian_and_its_notes_have_the_error():
    A = sd.FiniteDifference(gradient, POINT)
    for operator in (A, 2.0 * A, sd.Counted(A), A + np.eye(N)):
        measure = sd.fast_lanczos(operator, num_steps=20)
        assert sum("products by finite differences of gradients" in note for note in measure.notes) == 1
    found, expected = (sd.fast_lanczos(each, num_steps=20).nodes[0] for each in (A, HESSIAN))
    assert found[-1] == pytest.approx(expected[-1], rel=1e-6)
    density = sd.spectral_density(A, rank=1, method="fast_lanczos", progress=False)
    assert any("estimated error" in note for note in density.notes)


def test_differences_that_tell_nothing_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"differences of gradients tell nothing here: .* of the product"):
        sd.FiniteDifference(lambda x: rng.standard_normal(N), POINT)


def test_a_given_step_is_taken_and_its_error_estimated():
    A = sd.FiniteDifference(gradient, POINT, step=1e-3)
    assert A.step == 1e-3
    assert 0 < A.error < 1e-4


def test_torch_gradients_are_taken():
    torch = pytest.importorskip("torch")
    A = sd.FiniteDifference(lambda x: x**3, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    torch.testing.assert_close(A @ torch.ones(3, dtype=torch.float64), torch.tensor([3.0, 12.0, 27.0]).double())


def test_arguments_of_the_wrong_kind_are_refused():
    with pytest.raises(TypeError, match="`point` must be a flat array"):
        sd.FiniteDifference(gradient, 3.0)
    with pytest.raises(TypeError, match="`gradient` must be a function"):
        sd.FiniteDifference(3.0, POINT)
    with pytest.raises(ValueError, match=r"`gradient` must return a vector of shape \(60,\)"):
        sd.FiniteDifference(lambda x: x[:5], POINT)
    with pytest.raises(ValueError, match="`step` must be"):
        sd.FiniteDifference(gradient, POINT, step=-1.0)


def test_integer_points_and_complex_gradients_are_refused_by_name():
    with pytest.raises(TypeError, match=r"`point` must hold real floating-point numbers.*int64"):
        sd.FiniteDifference(lambda x: x**3, np.array([1, 2, 3]))
    with pytest.raises(TypeError, match="`gradient` must return real numbers; got complex128"):
        sd.FiniteDifference(lambda x: x**3 * (1 + 1j), np.array([1.0, 2.0, 3.0]))


def test_the_error_of_differences_is_noted_once():
    A = sd.FiniteDifference(lambda x: x**3, np.linspace(1.0, 2.0, 1500))
    density = sd.spectral_density(A, rank=2, num_steps=10, num_probes=1)
    assert sum("finite differences" in note for note in density.notes) == 1
