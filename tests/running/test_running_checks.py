"""Faults of operators after the second product: seen by the end of the run, or said to be invisible."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from spectra import rotated

import specdens as sd

N = 300
MATRIX = rotated(np.concatenate([np.linspace(-1, 1, N - 2), [3.0, 5.0]]))
METHODS = {
    "fast_lanczos": lambda A, **options: sd.fast_lanczos(A, num_steps=60, **options),
    "slow_lanczos": lambda A, **options: sd.slow_lanczos(A, num_steps=60, **options),
    "kpm": lambda A, **options: sd.kpm(A, num_moments=120, bounds=(-6, 6), **options),
}
MESSAGE = "operator has changed during the run|A @ x overwrites x|operator is not symmetric"


class Faulty:
    """A matrix whose products go wrong from some number on."""

    def __init__(self, fault) -> None:
        self.fault, self.num_products = fault, 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.num_products += 1
        return self.fault(self.num_products, x)

    def operator(self) -> sd.LinearOperator:
        return sd.as_operator(self, shape=N, dtype="float64")


def zeros_at_20(number, x):
    return np.zeros(N) if number == 20 else MATRIX @ x


def changed_at_30(number, x):
    return (MATRIX if number < 30 else MATRIX + 0.1 * np.eye(N)) @ x


def overwritten_from_5(number, x):
    y = MATRIX @ x
    if number >= 5:
        x *= 0.5
    return y


def asymmetric_from_25(number, x):
    y = MATRIX @ x
    return y if number < 25 else y + 0.1 * np.roll(x, 1)


def scaled_at_last(number, x):
    return (2.0 if number == 58 else 1.0) * (MATRIX @ x)


@pytest.mark.parametrize("fault", [zeros_at_20, changed_at_30, overwritten_from_5, asymmetric_from_25, scaled_at_last])
@pytest.mark.parametrize("method", METHODS)
def test_a_fault_after_the_second_product_is_seen(fault, method):
    with pytest.raises(ValueError, match=MESSAGE):
        METHODS[method](Faulty(fault).operator())


@pytest.mark.parametrize("method", METHODS)
def test_a_matrix_that_is_changed_in_place_is_seen_on_the_fused_path_too(method):
    A = sp.csr_array(MATRIX)

    def change(state: sd.Progress) -> None:
        if state.num_products == 30:
            A.data *= 1.1

    with pytest.raises(ValueError, match="operator has changed during the run"):
        METHODS[method](A, monitor=sd.Monitor(progress=change))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_sound_operators_are_not_suspected(dtype, method, scale):
    A = (scale * MATRIX).astype(dtype)
    options = {"num_moments": 500, "bounds": (-6 * scale, 6 * scale)} if method == "kpm" else {"num_steps": 250}
    assert getattr(sd, method)(A, num_probes=3, **options).num_steps == 250


@pytest.mark.slow
@pytest.mark.parametrize("eigenvalues", [
    np.r_[1e6, 1e3, 1.0, np.linspace(-1e-6, 1e-6, N - 3)], np.r_[np.zeros(N - 5), 1, 2, 3, 4, 5],
    np.repeat([1.0, 2.0, 5.0], N // 3), np.logspace(-12, 0, N), np.cos(np.arange(N)),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hard_spectra_are_not_suspected(eigenvalues, dtype):
    A = rotated(eigenvalues).astype(dtype)
    assert sd.fast_lanczos(A, num_steps=200, num_probes=2).num_products > 0
    assert sd.fast_lanczos(np.diag(eigenvalues).astype(dtype), num_steps=200).num_products > 0
    assert sd.kpm(A, num_moments=200).num_products > 0


def test_the_first_product_is_repeated_once_after_a_long_run_only():
    A = sd.Counted(MATRIX)
    assert sd.fast_lanczos(A, num_steps=32).num_products == A.num_products == 33
    A.num_products = 0
    assert sd.fast_lanczos(A, num_steps=40, num_probes=2).num_products == A.num_products == 82
    A.num_products = 0
    assert sd.fast_lanczos(A, num_steps=40, check=False).num_products == A.num_products == 40


@pytest.mark.parametrize("seed", range(20, 30))
def test_rounding_after_an_invariant_subspace_is_no_fault(seed):
    eigenvalues = np.repeat([-0.075, 0.0, 1e-7, 1e-3, 0.0787151993, 0.0875720713], [3, 15, 3, 3, 4, 3])
    measure = sd.slow_lanczos(np.diag(eigenvalues), seed=seed)
    assert measure.weights[0].sum() == pytest.approx(1.0)
