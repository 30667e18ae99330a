"""Classes at scale: tables of the classes that occur, spectra in one sweep, few passes, results that print."""

from __future__ import annotations

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from torch import nn
from torch_cases import CLASSES, assert_close, dense, make, some, split

LOSS = nn.CrossEntropyLoss()


class Loader:
    """Batches that count how often they are read."""

    def __init__(self, batches):
        self.batches, self.num_reads = batches, 0

    def __iter__(self):
        for batch in self.batches:
            self.num_reads += 1
            yield batch


def test_tables_hold_only_the_classes_that_occur():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Linear(3, 20_000).double()
        x = torch.randn(12, 3).double()
    y = torch.tensor([5, 19_999, 7]).repeat(4)
    curv = sdt.Curvature(model, LOSS, split(x, y, 7, 5))
    means = curv._engine.class_means()
    assert means.weights.shape == (3, 20_000)  # 20,000 × 20,000 would be 3.2 GB
    v = torch.randn(curv.G.shape[0], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    parts = [A @ v for A in (curv.A1, curv.A2, curv.B1, curv.B2)]
    assert_close(sum(parts), curv.G @ v)
    assert_close(sum(curv.B2c(c) @ v for c in (5, 7, 19_999)), parts[3])
    assert float((curv.B2c(6) @ v).norm()) == 0.0


@pytest.mark.parametrize("labels", [(0, 1, 3), (3, 1), (2,)])
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_components_do_not_depend_on_which_batch_has_which_class(labels, cache):
    model, x, _ = make()
    y = torch.tensor(labels).repeat(30)[:30].sort().values  # every class in batches of its own
    one, other = sdt.Curvature(model, LOSS, (x, y)), sdt.Curvature(model, LOSS, split(x, y, 10, 10, 10), cache=cache)
    for name in ("A1", "A2", "B1", "B2"):
        expected = some(getattr(one, name))
        assert float((some(getattr(other, name)) - expected).norm()) <= 1e-12 * float(some(one.G).norm())


def exact_spectrum(curv):
    return np.linalg.eigvalsh(dense(curv.A1 + curv.A2 + curv.B1).numpy())[::-1]


@pytest.mark.parametrize("how", ["kept", "graphs off", "streamed", "weighted"])
def test_the_class_spectrum_is_exact_in_every_way(how):
    model, x, y = make()
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0, 1.0, 0.5]).double()) if how == "weighted" else LOSS
    options = {"graphs off": {"cache": "off"}, "streamed": {"keep_data": False}}.get(how, {})
    curv = sdt.Curvature(model, loss, split(x, y, 11, 14, 5), **options)
    spectrum, exact = curv.class_spectrum(), exact_spectrum(curv)
    assert len(spectrum.eigenvalues) == 3 * (CLASSES - 1)
    np.testing.assert_allclose(spectrum.eigenvalues, exact[:9], atol=1e-12 * exact[0])
    assert spectrum.overlap.sum() == pytest.approx(3)
    assert spectrum.num_products == (9 if how == "streamed" else CLASSES - 1)


def test_the_largest_eigenvalues_are_those_of_the_whole_spectrum():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
    full, leading = curv.class_spectrum(), curv.class_spectrum(rank=4)
    np.testing.assert_allclose(leading.eigenvalues, full.eigenvalues[:4], rtol=1e-6)
    np.testing.assert_allclose(leading.overlap, full.overlap[:4], atol=1e-3)
    assert leading.labels == full.labels[:4]
    with pytest.raises(ValueError, match=r"`rank` must be at most C \(C - 1\) \(9\); got 10"):
        curv.class_spectrum(rank=10)


@pytest.mark.slow
def test_many_classes_take_the_largest_eigenvalues():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 120)).double()
        x = torch.randn(240, 6).double()
    curv = sdt.Curvature(model, LOSS, (x, torch.arange(240) % 120))
    spectrum = curv.class_spectrum()
    assert len(spectrum.eigenvalues) == 20
    assert spectrum.num_products < 2000  # not 120 × 119
    exact = np.linalg.eigvalsh(dense(curv.A1 + curv.A2 + curv.B1).numpy())[::-1]
    np.testing.assert_allclose(spectrum.eigenvalues, exact[:20], rtol=1e-5)


def test_examples_that_are_coupled_are_not_sorted_by_class():
    class Centred(nn.Module):
        def forward(self, x):
            return x - 0.3 * x.mean(0)

    inner, x, y = make()
    curv = sdt.Curvature(nn.Sequential(inner, Centred()), LOSS, split(x, y, 11, 14, 5))
    spectrum, exact = curv.class_spectrum(), exact_spectrum(curv)
    np.testing.assert_allclose(spectrum.eigenvalues, exact[:9], atol=1e-12 * exact[0])
    assert spectrum.num_products == 9


def test_progress_of_the_class_spectrum():
    model, x, y = make()
    seen = []
    sdt.Curvature(model, LOSS, split(x, y, 20, 10)).class_spectrum(progress=seen.append)
    assert [state.num_products for state in seen] == [1, 2, 3]
    assert {state.stage for state in seen} == {"class_spectrum"}


# -- passes over streamed data ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [LOSS, nn.MSELoss(), nn.NLLLoss()])
def test_streamed_data_is_read_twice_before_the_first_product(loss):
    model, x, y = make()
    target = torch.randn(30, CLASSES).double() if isinstance(loss, nn.MSELoss) else y
    loader = Loader(split(x, target, 10, 10, 10))
    curv = sdt.Curvature(model, loss, loader, keep_data=False)
    assert loader.num_reads == 6
    _ = curv.Hess @ torch.ones(95, dtype=torch.float64)
    assert loader.num_reads == 9


@pytest.mark.parametrize("keep", [True, False])
def test_class_traces_hold_one_batch_at_a_time_and_do_not_depend_on_batches(keep):
    model, x, y = make()
    one = sdt.Curvature(model, LOSS, (x, y)).class_traces(num_probes=3)
    loader = Loader(split(x, y, 10, 10, 10))
    curv = sdt.Curvature(model, LOSS, loader, keep_data=keep, cache="off")
    found = curv.class_traces(num_probes=3)
    np.testing.assert_allclose(found.values, one.values, rtol=1e-10, atol=1e-18)
    np.testing.assert_array_equal(found.counts, one.counts)


# -- what people look at -----------------------------------------------------------------------------


def test_class_results_print_as_tables():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
    spectrum, traces = repr(curv.class_spectrum()), repr(curv.class_traces(num_probes=2))
    assert spectrum.splitlines()[0] == "ClassSpectrum(9 eigenvalues, 3 products)"
    assert len(spectrum.splitlines()) == 3 + 9
    assert traces.splitlines()[0] == "ClassTraces(4 classes, 30 examples)"
    assert len(traces.splitlines()) == 2 + CLASSES


@pytest.mark.slow
def test_densities_draw_themselves():
    plt = pytest.importorskip("matplotlib.pyplot")
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
    densities = curv.densities(num_steps=8)
    assert isinstance(densities, dict)
    assert repr(densities).startswith("Densities(3)\n  Hess: ")
    assert densities._repr_html_().count("<svg") == 3
    _, ax = plt.subplots()
    assert densities.plot(ax) is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()][:3] == ["Hess", "G", "H"]
    plt.close("all")


def drawn(ax, name):
    (found,) = [each for each in (*ax.collections, *ax.patches) if str(each.get_label()).startswith(name)]
    return found


@pytest.mark.parametrize("num_steps", [None, 12])
def test_the_picture_of_the_class_structure_counts_the_eigenvalues_of_G_and_marks_those_of_its_parts(num_steps):
    plt = pytest.importorskip("matplotlib.pyplot")
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
    _, ax = plt.subplots()
    assert curv.plot_class_structure(ax, num_steps=num_steps) is ax
    names = [text.get_text().partition(":")[0] for text in ax.get_legend().get_texts()]
    hidden = ["G, smaller than it resolves"] if num_steps else []
    assert names == ["G", *hidden, "A1", "B1", "B2c"]
    marks = [segment[0, 0] for segment in drawn(ax, "A1").get_segments()]
    np.testing.assert_allclose(marks, curv.class_spectrum().eigenvalues[: len(torch.unique(y))])
    counts, edges, _ = next(patch for patch in ax.patches if patch.get_label() == "G").get_data()
    exact = np.linalg.eigvalsh((curv.G @ torch.eye(95, dtype=torch.float64)).numpy())
    if num_steps is None:
        np.testing.assert_allclose(counts, np.histogram(exact, edges)[0], atol=1e-6)
    structure = curv.class_structure(num_steps=num_steps)
    assert "dimension 95, 3 of A1, 6 of B1, 3 of B2c" in repr(structure)
    if num_steps:
        expected = structure.measure.count(structure.resolution, np.inf).value
        assert np.sum(counts) == pytest.approx(expected, rel=0.02)  # as at the edge of a bin, or beside it
    plt.close("all")


def test_several_class_structures_are_panels_with_shared_axes():
    plt = pytest.importorskip("matplotlib.pyplot")
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, (x, y))
    structure = curv.class_structure()
    figure = sdt.plot_class_structures({"epoch 1": {"few": structure, "all": curv}, "epoch 2": {"all": curv}})
    assert len(figure.axes) == 4
    assert len({ax.get_xlim() for ax in figure.axes}) == len({ax.get_ylim() for ax in figure.axes}) == 1
    assert [ax.get_title() for ax in figure.axes[:2]] == ["few", "all"]
    assert len(sdt.plot_class_structures({"epoch 1": curv, "epoch 2": structure}).axes) == 2
    with pytest.raises(ValueError, match="`panels` must have at least one"):
        sdt.plot_class_structures({})
    plt.close("all")


def test_the_table_of_the_class_spectrum_explains_the_overlap_and_labels_no_eigenvalue_without_it():
    spectrum = sdt.ClassSpectrum(np.array([3.0, 2.0, 1.0]), ("A1", "A1", "B1"), np.array([0.9, 0.01, 0.0]), 5)
    lines = repr(spectrum).splitlines()
    assert "share of the eigenvector in the directions of A1" in lines[1]
    assert ["A1" in line for line in lines[3:]] == [True, False, False]
