"""Numbers that sum a spectrum up, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from spectra import rotated

import specdens as sd

EIGENVALUES = np.concatenate([np.linspace(0.5, 2.0, 400), [5.0, 8.0]])


@pytest.fixture(scope="module")
def measure():
    return sd.fast_lanczos(rotated(EIGENVALUES), num_steps=80, num_probes=16)


@pytest.fixture(scope="module")
def exact():
    """Return a measure without sampling error."""
    return sd.SpectralMeasure.from_eigenvalues([1.0, 2.0, 3.0, 4.0])


P = EIGENVALUES / EIGENVALUES.sum()
READINGS = {
    "logdet": (lambda m: m.logdet(), np.log(EIGENVALUES).sum()),
    "logdet with a shift": (lambda m: m.logdet(shift=1.0), np.log(EIGENVALUES + 1).sum()),
    "nuclear norm": (lambda m: m.schatten(1), EIGENVALUES.sum()),
    "Schatten 3": (lambda m: m.schatten(3), np.sum(EIGENVALUES**3) ** (1 / 3)),
    "Estrada": (lambda m: m.estrada(), np.exp(EIGENVALUES).sum()),
    "heat trace": (lambda m: m.heat_trace(0.7), np.exp(-0.7 * EIGENVALUES).sum()),
    "entropy": (lambda m: m.entropy(), -np.sum(P * np.log(P))),
    "effective rank": (lambda m: m.effective_rank(), np.exp(-np.sum(P * np.log(P)))),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_agrees_with_the_eigenvalues_within_its_error(measure, name):
    read, expected = READINGS[name]
    value, stderr = read(measure)
    assert abs(value - expected) <= 3.5 * stderr
    assert stderr < 0.05 * abs(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", READINGS)
def test_errors_are_of_the_size_of_the_spread(name):
    read, expected = READINGS[name]
    A = rotated(EIGENVALUES)
    runs = [read(sd.fast_lanczos(A, num_steps=40, num_probes=2, seed=seed)) for seed in range(24)]
    spread = np.sqrt(np.mean([(value - expected) ** 2 for value, _ in runs]))
    typical = np.median([stderr for _, stderr in runs])
    assert typical / 3 <= spread <= 2.5 * typical


def test_an_exact_measure_gives_exact_numbers(exact):
    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert exact.logdet().value == pytest.approx(np.log(24))
    assert exact.schatten(2).value == pytest.approx(np.sqrt(30))
    assert exact.entropy().value == pytest.approx(-np.sum(x / 10 * np.log(x / 10)))
    assert exact.condition_number().value == pytest.approx(4)


def test_the_condition_number_is_that_of_the_ends(measure):
    value, stderr = measure.condition_number()
    assert abs(value - 16) <= max(2 * stderr, 1e-6 * 16)
    assert sd.fast_lanczos(np.diag([0.0, 1.0, 2.0])).condition_number().value > 1e12


def test_what_has_no_logarithm_or_entropy_is_refused():
    measure = sd.fast_lanczos(np.diag([-1.0, 1.0, 2.0]))
    with pytest.raises(ValueError, match=r"`shift` must make all eigenvalues positive; the lowest is -1"):
        measure.logdet()
    assert measure.logdet(shift=2.0).value == pytest.approx(np.log(1 * 3 * 4), abs=3)
    with pytest.raises(ValueError, match="`p` must be positive"):
        measure.schatten(0)
    with pytest.raises(ValueError, match="an eigenvalue that is not zero; got none"):
        sd.fast_lanczos(np.zeros((3, 3))).entropy()


def test_counts_of_several_intervals_are_those_of_each(measure):
    lo, hi = np.array([0.0, 1.0, 4.0]), np.array([1.0, 2.0, 9.0])
    several = measure.count(lo, hi)
    for i in range(3):
        one = measure.count(float(lo[i]), float(hi[i]))
        assert (several.value[i], several.stderr[i]) == one
    assert measure.count(0.0, hi).value.shape == (3,)
    assert several.value.sum() == pytest.approx(402, abs=1)
    with pytest.raises(ValueError, match="`lo` must not exceed `hi`"):
        measure.count([0.0, 3.0], [1.0, 2.0])
