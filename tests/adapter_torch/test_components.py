"""The components of G: projections in logit space."""

from __future__ import annotations

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from specdens_torch import _coefficients
from torch import nn
from torch_cases import CLASSES, assert_close, dense, jacobian, make, some, split

import specdens as sd

WEIGHT = torch.tensor([0.5, 2.0, 1.0, 3.0], dtype=torch.float64)


@pytest.fixture(
    params=[("auto", None), pytest.param(("off", None), marks=pytest.mark.slow), ("auto", WEIGHT)],
    ids=["kept", "streamed", "weighted"],
)
def curv(request):
    cache, weight = request.param
    model, x, y = make()
    return sdt.Curvature(model, nn.CrossEntropyLoss(weight=weight), split(x, y, 25, 4, 1), cache=cache)


def explicit_components(weight, ignored=()):
    """Return A1, A2, B1, B2 from the vectors g_{i,c'} themselves, as the paper defines them."""
    model, x, y = make()
    N = len(y)
    J = jacobian(model, x).view(N, CLASSES, -1)
    p = model(x).detach().softmax(1)
    g = J - torch.einsum("ic,icp->ip", p, J)[:, None]
    omega = torch.ones(N, dtype=torch.float64) if weight is None else weight[y]
    omega[list(ignored)] = 0.0
    mass = (omega / omega.sum())[:, None] * p
    parts = [torch.zeros(J.shape[2], J.shape[2], dtype=torch.float64) for _ in range(4)]
    for c in set(y.tolist()):
        members = y == c
        w = mass[members].sum(0)
        mean = torch.einsum("ic,icp->cp", mass[members], g[members]) / w[:, None]
        off = [d for d in range(CLASSES) if d != c]
        centre = (w[off, None] * mean[off]).sum(0) / w[off].sum()
        parts[0] += w[off].sum() * torch.outer(centre, centre)
        parts[1] += w[c] * torch.outer(mean[c], mean[c])
        parts[2] += torch.einsum("c,cp,cq->pq", w[off], mean[off] - centre, mean[off] - centre)
        rest = g[members] - mean
        parts[3] += torch.einsum("ic,icp,icq->pq", mass[members], rest, rest)
    return parts


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("ignored", [(), (3, 7, 29)], ids=["all", "ignore_index"])
@pytest.mark.parametrize("sizes", [(25, 5), (29, 1), (30,)])
def test_components_are_those_of_the_definition(weight, ignored, sizes):
    model, x, y = make()
    expected = explicit_components(weight, ignored)
    y[list(ignored)] = -100
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(weight=weight), split(x, y, *sizes))
    for A, matrix in zip((curv.A1, curv.A2, curv.B1, curv.B2), expected, strict=True):
        assert_close(some(A), some(matrix))


@pytest.mark.parametrize("options", [{}, {"weight": WEIGHT}], ids=["plain", "weighted"])
def test_components_sum_to_g_with_label_smoothing(options):
    model, x, y = make()
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(label_smoothing=0.2, **options), split(x, y, 25, 5))
    assert_close(some(curv.A1) + some(curv.A2) + some(curv.B1) + some(curv.B2), some(curv.G))


def test_components_are_orthogonal_projections_in_the_weighted_inner_product(curv):
    states = list(curv._engine.states())
    mass, labels = (torch.cat([getattr(state, name) for state in states]) for name in ("mass", "labels"))
    means, root = curv._engine.class_means(), mass.sqrt()

    def project(k, z):
        mix = _coefficients.Coefficients(0.0, tuple(float(j == k) for j in range(4)))
        table, beta = means.table(means.sums(root * z, labels), mix)
        rows = means.rows(labels)
        return beta[rows] * z + root * table[rows]

    z = torch.randn(mass.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert_close(sum(project(k, z) for k in range(4)), z)
    for j in range(4):
        for k in range(4):
            twice = project(j, project(k, z))
            if j == k:
                assert_close(twice, project(k, z))
            else:
                assert float(twice.norm()) < 1e-12 * float(z.norm())


def test_the_gradients_of_an_example_cancel_in_the_mean_over_p(curv):
    for state in curv._engine.states():
        assert float(state.root(state.p.sqrt()).norm()) < 1e-15 * float(state.root(torch.ones_like(state.p)).norm() + 1)


def test_components_sum_to_g_and_have_their_ranks(curv):
    G = dense(curv.G)
    A1, A2, B1, B2 = (dense(A) for A in (curv.A1, curv.A2, curv.B1, curv.B2))
    assert_close(A1 + A2 + B1 + B2, G)
    size = float(G.norm())
    for part in (A1, A2, B1, B2):
        assert_close(part, part.T)
        assert float(torch.linalg.eigvalsh(part).min()) > -1e-13 * size

    def rank(matrix):
        return int(torch.linalg.matrix_rank(matrix, hermitian=True, atol=1e-12 * size))

    assert rank(A1) <= CLASSES
    assert rank(A1 + A2) == rank(A1)  # A2 has the range of A1
    assert rank(B1) <= CLASSES * (CLASSES - 2)
    assert rank(A1 + A2 + B1) <= CLASSES * (CLASSES - 1)


def test_combinations_within_the_family_are_one_product(curv):
    pairs = {
        "G - A1": (curv.G - curv.A1, some(curv.G) - some(curv.A1)),
        "G - B2": (curv.A1 + curv.A2 + curv.B1, some(curv.A1) + some(curv.A2) + some(curv.B1)),
        "H": (curv.Hess - curv.G, some(curv.H)),
        "Hess - A1": (curv.Hess - curv.A1, some(curv.Hess) - some(curv.A1)),
        "2 Hess": (2 * curv.Hess, 2 * some(curv.Hess)),
        "-H + 3 G": (3 * curv.G - curv.H, 3 * some(curv.G) - some(curv.H)),
    }
    for message, (A, expected) in pairs.items():
        assert isinstance(A, sdt.CurvatureOperator)
        assert message in repr(A)
        assert_close(some(A), expected)


def test_parts_of_b2_sum_to_it_and_an_empty_class_has_none(curv):
    parts = [some(curv.B2c(c)) for c in range(CLASSES)]
    assert_close(sum(parts), some(curv.B2))
    assert float(parts[2].norm()) == 0.0


def test_other_operators_combine_as_anywhere_in_specdens():
    model, x, y = make()
    curv = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y))
    other = sdt.Curvature(model, nn.CrossEntropyLoss(), (x[:10], y[:10]))
    assert isinstance(curv.G + other.G, sd.Combination)
    assert_close(some(curv.G + other.G), some(curv.G) + some(other.G))


def test_components_need_class_labels():
    model, x, y = make()
    t = torch.rand(30, CLASSES, dtype=torch.float64)
    with pytest.raises(TypeError, match="need cross-entropy with class labels; got squared error"):
        _ = sdt.Curvature(model, nn.MSELoss(), (x, t)).A1
    with pytest.raises(TypeError, match="need cross-entropy with class labels; got soft targets"):
        _ = sdt.Curvature(model, nn.CrossEntropyLoss(), (x, t)).B2
    with pytest.raises(ValueError, match="`c` must be a class, from 0 to 3; got 4"):
        sdt.Curvature(model, nn.CrossEntropyLoss(), (x, y)).B2c(4)


# -- the paper's last figure -----------------------------------------------------------------------------------------


def test_class_spectrum_is_exact(curv):
    spectrum = curv.class_spectrum()
    exact = np.linalg.eigvalsh(dense(curv.A1 + curv.A2 + curv.B1).numpy())[::-1]
    k = len(spectrum.eigenvalues)
    assert k == 3 * (CLASSES - 1)  # one class is empty
    np.testing.assert_allclose(spectrum.eigenvalues, exact[:k], atol=1e-12 * exact[0])
    assert spectrum.labels == ("A1",) * 3 + ("B1",) * 6
    assert spectrum.overlap.sum() == pytest.approx(3)


@pytest.mark.slow
def test_class_traces_are_within_their_errors(curv):
    traces = curv.class_traces(num_probes=30)
    exact = np.array([float(dense(curv.B2c(c)).trace()) for c in range(CLASSES)])
    assert np.all(np.abs(traces.values - exact) <= 4 * traces.stderr + 1e-15)
    _, _, y = make()
    np.testing.assert_array_equal(traces.counts, torch.bincount(y, minlength=CLASSES).numpy())
    assert np.isnan(traces.per_example[2])
    assert traces.per_example[0] == traces.values[0] / traces.counts[0]
