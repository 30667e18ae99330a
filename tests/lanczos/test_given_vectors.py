"""Given start vectors: complex ones on real operators, and at the front door."""

from __future__ import annotations

import numpy as np
import pytest
from spectra import diagonal, rotated, semicircle

import specdens as sd

N = 60
EIGENVALUES = np.linspace(-1, 2, N)


def wave(k: float) -> np.ndarray:
    return np.exp(1j * k * np.arange(N)) / np.sqrt(N)


@pytest.mark.parametrize("call", [sd.fast_lanczos, sd.slow_lanczos, sd.kpm])
def test_complex_vectors_run_on_a_real_operator(call):
    A = rotated(EIGENVALUES)
    v = wave(0.7) * (1 + np.arange(N))
    v = v / np.linalg.norm(v)
    measure = call(A, probes=v)
    assert measure.dtype == "complex128"
    for f in (np.asarray, np.square):
        matrix = A if f is np.asarray else A @ A
        assert measure.mean(f).value == pytest.approx((v.conj() @ matrix @ v).real, abs=1e-6)


def test_plane_waves_have_a_spectral_function_each():
    """A ring of N sites: the wave of momentum k is an eigenvector of energy 2 cos k."""
    ring = np.roll(np.eye(N), 1, axis=0) + np.roll(np.eye(N), -1, axis=0)
    momenta = 2 * np.pi * np.arange(0, N, 7) / N
    measure = sd.fast_lanczos(ring, probes=np.array([wave(k) for k in momenta]).T, num_steps=5)
    energies = [measure[j].mean(np.asarray).value for j in range(momenta.size)]
    np.testing.assert_allclose(energies, 2 * np.cos(momenta), atol=1e-12)


def test_complex_vectors_on_a_deflated_operator_are_projected():
    A = rotated(EIGENVALUES)
    pairs = sd.top_eigenpairs(A, rank=2)
    measure = sd.fast_lanczos(sd.deflate(A, pairs), probes=wave(0.3), num_steps=50)
    assert measure.bounds().hi < EIGENVALUES[-2]


def test_the_front_door_takes_start_vectors():
    A = diagonal(EIGENVALUES)
    v = np.arange(1.0, N + 1)
    density = sd.spectral_density(A, probes=v, num_steps=20)
    direct = sd.fast_lanczos(A, probes=v, num_steps=20).density()
    np.testing.assert_array_equal(density.values, direct.values)
    assert density.measure.probes == "given"
    assert sd.spectral_density(A, probes=np.eye(N)[:, :3]).measure.num_probes == 3
    assert sd.spectral_density(A, probes="rademacher", num_probes=2, num_steps=9).measure.probes == "rademacher"
    for options in ({"rank": 1}, {"tol": 0.1}, {"max_products": 50}):
        with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be left out with given `probes`"):
            sd.spectral_density(A, probes=v, **options)
    with pytest.raises(ValueError, match=r"`probes` must have shape \(60,\) or \(60, k\)"):
        sd.spectral_density(A, probes=np.ones(3))


def test_an_energy_resolution_chooses_the_steps():
    A = sd.Counted(diagonal(semicircle(3000)))
    density = sd.spectral_density(A, energy_resolution=0.1)
    assert density.measure.num_steps == pytest.approx(np.pi / 2 * 4 / 0.1, abs=3)
    np.testing.assert_array_equal(density.resolution, 0.1)
    assert any("steps were chosen for a resolution of ± 0.1" in note for note in density.notes)
    fine = sd.spectral_density(A, energy_resolution=0.05, num_probes=1)
    assert fine.measure.num_steps == pytest.approx(2 * density.measure.num_steps, abs=5)
    kpm = sd.spectral_density(A, energy_resolution=0.1, method="kpm", num_probes=1)
    assert kpm.kernel.startswith("Jackson")
    with pytest.raises(ValueError, match="`energy_resolution` must come without"):
        sd.spectral_density(A, energy_resolution=0.1, num_steps=9)
    with pytest.raises(ValueError, match="`energy_resolution` must be positive"):
        sd.spectral_density(A, energy_resolution=-1)
