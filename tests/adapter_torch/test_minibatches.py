"""Eigenvalues of every mini-batch on its own, against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from torch import nn
from torch_cases import make


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["auto", "off"])
@pytest.mark.parametrize("name", ["Hess", "G"])
def test_every_batch_has_the_eigenvalues_of_its_own_matrix(name, cache):
    model, x, y = make()
    data = list(zip(x.split((12, 11, 7)), y.split((12, 11, 7)), strict=True))
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), data, cache=cache)
    before = repr(curv)
    found = curv.minibatch_eigenvalues(name, rank=2, which="largest")
    for values, batch in zip(found.values, data, strict=True):
        A = getattr(sdt.Curvature(model, nn.CrossEntropyLoss(), batch), name)
        exact = torch.linalg.eigvalsh(A @ torch.eye(95, dtype=torch.float64)).numpy()[::-1][:2]
        np.testing.assert_allclose(values, exact, rtol=1e-6)
    assert found.sizes.tolist() == [12, 11, 7]
    assert repr(curv).partition(", Jv")[0] == before.partition(", Jv")[0]
    np.testing.assert_allclose(found.mean, found.values.mean(0))
    assert np.all(found.stderr > 0)
    assert found.quantile(0.0)[0] == found.values[:, 0].min()
    lines = str(found).splitlines()
    assert lines[0].startswith("MinibatchEigenvalues(3 batches, ")
    assert len(lines) == 2 + found.values.shape[1]
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = found.plot()
    points = [line.get_ydata() for line in ax.lines if line.get_marker() == "."]
    np.testing.assert_array_equal(np.array(points).T, found.values)
    plt.close("all")


def test_batches_of_a_subset_and_the_first_alone():
    model, x, y = make()
    data = list(zip(x.split(10), y.split(10), strict=True))
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), data)
    found = curv.subset("4.*").minibatch_eigenvalues(num_batches=2)
    assert found.values.shape == (2, 1)
    with pytest.raises(ValueError, match="`num_batches` must be"):
        curv.minibatch_eigenvalues(num_batches=0)
