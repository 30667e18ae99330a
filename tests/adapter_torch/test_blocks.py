"""Blocks of parameters: what couples them, and how much their spectra differ."""

from __future__ import annotations

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from slow_cases import slow_after
from torch import nn
from torch_cases import assert_close, make

import specdens as sd

LOSS = nn.CrossEntropyLoss()


@pytest.fixture(params=["auto", "off"])
def curv(request):
    model, x, y = make()
    return sdt.Curvature(model, LOSS, [(x[:20], y[:20]), (x[20:], y[20:])], cache=request.param)


def dense(A):
    return A @ torch.eye(A.shape[0], dtype=torch.float64)


def blocks_of(curv, matrix):
    """Return the matrix with zeros outside its blocks, one per layer."""
    labels = [name.split(".")[0] for name, p in zip(curv.names, curv._subset.sizes, strict=True) for _ in range(p)]
    same = torch.tensor([[a == b for b in labels] for a in labels])
    return torch.where(same, matrix, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Hess", "G", "H", "A1"])
def test_the_part_off_the_block_diagonal_is_that_of_the_matrix(curv, name):
    matrix = dense(getattr(curv, name))
    off = curv.off_diagonal(name, by=1)
    assert_close(dense(off), matrix - blocks_of(curv, matrix), 1e-12)
    x = torch.randn(95, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    whole, diagonal = off.parts(x)
    assert_close(whole, matrix @ x, 1e-12)
    assert_close(diagonal, blocks_of(curv, matrix) @ x, 1e-12)


@pytest.mark.slow
def test_the_share_off_the_block_diagonal_is_within_its_error(curv):
    matrix = dense(curv.Hess)
    off = matrix - blocks_of(curv, matrix)
    exact = float(off.square().sum() / matrix.square().sum())
    found = curv.off_diagonal("Hess", by=1).frobenius_share(num_probes=60, seed=1)
    assert abs(found.value - exact) < 3 * found.stderr
    assert found.stderr < 0.2 * exact


def test_parameters_in_no_group_couple_with_all(curv):
    matrix = dense(curv.Hess)
    off = dense(curv.off_diagonal("Hess", by={"first": ["0.*"]}))
    expected = matrix.clone()
    expected[:36, :36] = 0.0
    assert_close(off, expected, 1e-12)


@pytest.mark.slow
def test_the_part_off_the_block_diagonal_has_a_density(curv):
    off = curv.off_diagonal("Hess", by=1)
    density = sd.spectral_density(off, num_probes=2)
    assert float(density.measure.moments(3)[2]) > 0
    with pytest.raises(ValueError, match="`by` must give groups without a common parameter; 'b' shares"):
        curv.off_diagonal("Hess", by={"a": ["0.*"], "b": ["0.weight"]})
    with pytest.raises(ValueError, match="`num_probes` must be at least 2"):
        off.frobenius_share(num_probes=1)


def spectrum(values, seed=0):
    return sd.fast_lanczos(np.diag(values), num_steps=60, num_probes=4, seed=seed).density()


@pytest.mark.slow
def test_heterogeneity_is_symmetric_and_zero_for_one_spectrum():
    values = np.linspace(-1, 1, 400)
    found = sdt.heterogeneity({"a": spectrum(values), "b": spectrum(values), "c": spectrum(5 + 2 * values)})
    for matrix in (found.jensen_shannon, found.w1):
        assert np.array_equal(matrix, matrix.T)
        assert np.all(np.diag(matrix) == 0)
    assert found.jensen_shannon[0, 1] < 1e-12
    assert found.jensen_shannon[0, 2] == pytest.approx(np.log(2), abs=1e-3)
    assert found.w1[0, 2] == pytest.approx(5.0, abs=4 * found.w1_stderr[0, 2] + 1e-6)
    assert "Jensen-Shannon" in str(found)


@pytest.mark.slow
def test_the_divergence_does_not_change_with_the_scale_of_the_axis():
    a, b = np.linspace(-1, 1, 4000), np.linspace(-0.5, 1.5, 4000)
    one = sdt.heterogeneity({"a": spectrum(a), "b": spectrum(b)})
    other = sdt.heterogeneity({"a": spectrum(1e6 * a), "b": spectrum(1e6 * b)})
    assert other.jensen_shannon[0, 1] == pytest.approx(one.jensen_shannon[0, 1], rel=1e-6)
    assert one.jensen_shannon[0, 1] == pytest.approx(np.log(2) / 4, rel=0.1)  # a quarter of each has no counterpart
    assert other.w1[0, 1] == pytest.approx(1e6 * one.w1[0, 1], rel=1e-6)


@pytest.mark.slow
def test_error_bars_of_distances_cover_what_other_probes_give():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=300), rng.normal(0.3, 1.3, size=300)
    found = [sdt.heterogeneity({"a": spectrum(a, seed), "b": spectrum(b, seed + 50)}) for seed in range(12)]
    values = np.array([[f.w1[0, 1], f.jensen_shannon[0, 1]] for f in found])
    errors = np.array([[f.w1_stderr[0, 1], f.jensen_shannon_stderr[0, 1]] for f in found])
    ratio = errors.mean(0) / values.std(0, ddof=1)
    assert np.all((ratio > 0.4) & (ratio < 2.5))


@pytest.mark.slow
def test_heterogeneity_of_layers_and_what_it_refuses(curv):
    layers = curv.layer_densities(num_probes=2)
    found = sdt.heterogeneity(layers)
    assert found.names == ("0", "2", "4")
    assert 0 < found.mean_jensen_shannon < np.log(2)
    assert found.mean_w1 > 0
    with pytest.raises(ValueError, match="`densities` must have at least two blocks"):
        sdt.heterogeneity({"0": layers["0"]})
    with pytest.raises(ValueError, match="`num_cells` must be at least 2"):
        sdt.heterogeneity(layers, num_cells=1)


@pytest.mark.parametrize("cache", slow_after(1, ["auto", "off"]))
def test_layers_smaller_than_the_steps_are_exact_or_take_fewer_steps(cache):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4)).double().eval()
        x, y = torch.randn(30, 6).double(), torch.arange(30) % 4
    curv = sdt.Curvature(model, LOSS, [(x[:20], y[:20]), (x[20:], y[20:])], cache=cache)
    layers = curv.layer_densities("Hess", num_steps=40, num_probes=1)
    assert list(layers) == ["0", "1", "3"]
    exact = np.linalg.eigvalsh(dense(curv.subset("1.*").Hess).numpy())
    assert layers["1"].measure.probes == "exact"
    np.testing.assert_allclose(layers["1"].measure.trace(np.square).value, np.sum(exact**2), rtol=1e-10)
    assert layers["0"].measure.num_steps == 40
    forced = curv.layer_densities("Hess", method="fast_lanczos", num_steps=40, num_probes=2)
    assert forced["1"].measure.num_steps <= 32
    assert "num_steps is 32, the number of parameters of this block, instead of 40" in forced["1"].notes
    assert not any("num_steps is" in note for note in forced["0"].notes)
