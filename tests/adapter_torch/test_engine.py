"""Kept graphs, ways to Jv, shared passes, densities of several operators and of layers."""

from __future__ import annotations

import logging
import weakref

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from torch import nn
from torch_cases import assert_close, dense, make, some, split

import specdens as sd

LOSS = nn.CrossEntropyLoss()
FAMILY = ("Hess", "G", "H", "A1", "A2", "B1", "B2")


@pytest.mark.parametrize("route", ["forward", "double backward"])
@pytest.mark.parametrize("cache", ["auto", "off", 6000])
def test_every_way_gives_the_same_products(route, cache):
    model, x, y = make()
    expected = sdt.Curvature(model, LOSS, (x, y))
    curv = sdt.Curvature(model, LOSS, split(x, y, 14, 15, 1), cache=cache)
    curv._engine.route = route
    for name in FAMILY:
        assert_close(some(getattr(curv, name)), some(getattr(expected, name)))


def test_the_decision_to_keep_graphs_is_visible(caplog):
    model, x, y = make()
    with caplog.at_level(logging.INFO, logger="specdens"):
        curv = sdt.Curvature(model, LOSS, split(x, y, 14, 15, 1))
        some(curv.G)
    assert "graphs of 3 of 3 batches kept" in repr(curv)
    assert "graphs of 3 of 3 batches kept" in caplog.text
    assert "Jv by" in caplog.text
    per_example = curv._engine.cache.num_bytes / 30
    partly = sdt.Curvature(model, LOSS, split(x, y, 14, 15, 1), cache=20 * per_example)
    assert "graphs of 1 of 3 batches kept" in repr(partly)
    assert "graphs of 0 of 3 batches kept" in repr(sdt.Curvature(model, LOSS, split(x, y, 14, 15, 1), cache="off"))


def test_kept_graphs_spare_the_forward_pass():
    model, x, y = make()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    curv = sdt.Curvature(model, LOSS, split(x, y, 14, 15, 1))
    curv._engine.route = "double backward"
    v = torch.ones(95, dtype=torch.float64)
    for name in FAMILY:
        _ = getattr(curv, name) @ v
    before = len(calls)
    for name in FAMILY:
        _ = getattr(curv, name) @ v
    assert len(calls) == before


def test_products_together_are_those_one_by_one():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 25, 5))
    v = torch.randn(95, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    together = curv.products(v)
    for name in ("Hess", "G", "H"):
        assert_close(together[name], getattr(curv, name) @ v)


@pytest.mark.parametrize("name", FAMILY)
def test_streamed_blocks_read_and_evaluate_every_batch_once_per_pass(name):
    model, x, y = make()
    reads, calls = [], []

    class Loader:
        def __iter__(self):
            for batch in split(x, y, 14, 15, 1):
                reads.append(1)
                yield batch

    curv = sdt.Curvature(model, LOSS, Loader(), keep_data=False)
    A = getattr(curv, name)
    curv._engine.block_route = "double backward"
    model.register_forward_hook(lambda *_: calls.append(1))
    some(A)  # sees the hook, and finds class weights once
    reads.clear()
    calls.clear()
    some(A)
    passes = 1 if name in ("Hess", "G", "H") else 2  # class means run over all batches
    assert len(calls) == len(reads) == 3 * passes  # for five columns


def test_the_way_to_jv_of_a_streamed_block_is_timed_on_its_own(caplog):
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 25, 5), cache="off")
    with caplog.at_level(logging.INFO, logger="specdens"):
        some(curv.G)
    assert "for 5 columns" in caplog.text
    assert curv._engine.block_route in ("forward", "double backward")
    for route in ("forward", "double backward"):
        curv._engine.block_route = route
        assert_close(some(curv.B2), some(sdt.Curvature(model, LOSS, (x, y)).B2))


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_densities_asked_for_together_are_those_of_each(cache):
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 25, 5), cache=cache)
    densities = curv.densities(num_steps=40, num_probes=2)
    assert list(densities) == ["Hess", "G", "H"]
    for name, density in densities.items():
        eigenvalues = np.linalg.eigvalsh(dense(getattr(curv, name)).numpy())
        assert density.measure.num_probes == 2
        # 95 dimensions and two probes: the sampling error of the mean is what the measure says
        trace = density.measure.trace(lambda t: t)
        assert abs(trace.value - eigenvalues.sum()) < 5 * trace.stderr
        top = max(nodes.max() for nodes in density.measure.nodes)
        assert top == pytest.approx(eigenvalues[-1], rel=1e-6)


@pytest.mark.slow
def test_the_density_of_every_layer_in_one_call():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 25, 5))
    layers = curv.layer_densities("Hess", num_steps=20)
    assert list(layers) == ["0", "2", "4"]
    H = dense(curv.Hess).numpy()
    for name, rows in {"0": slice(0, 36), "2": slice(36, 71), "4": slice(71, 95)}.items():
        exact = np.linalg.eigvalsh(H[rows, rows])
        assert layers[name].measure.dimension == exact.size
        assert layers[name].measure.nodes[0].max() == pytest.approx(exact[-1], rel=1e-6)
    groups = curv.layer_densities("G", by={"first": "0", "rest": ["2.*", "4"]}, num_steps=5)
    assert [d.measure.dimension for d in groups.values()] == [36, 59]
    assert list(curv.layer_densities("G", by=1, num_steps=2)) == ["0", "2", "4"]
    with pytest.raises(ValueError, match="`by` must be None, a number"):
        curv.layer_densities(by=0)


def test_operators_satisfy_the_protocol_and_the_check():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 25, 5))
    assert isinstance(curv.Hess, sd.LinearOperator)
    sd.check_operator(curv.Hess)
    sd.check_operator(curv.B2)


def test_train_and_test_data_are_two_curvatures():
    model, x, y = make()
    train, test = (sdt.Curvature(model, LOSS, (x[rows], y[rows])) for rows in (slice(0, 20), slice(20, 30)))
    both = sdt.Curvature(model, LOSS, (x, y))
    assert_close((20 * some(train.Hess) + 10 * some(test.Hess)) / 30, some(both.Hess))


def test_without_a_cache_one_graph_is_alive_at_a_time(monkeypatch):
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, split(x, y, 10, 10, 10), cache="off")
    engine = curv._engine
    graphs, alive = [], []
    make_graph = engine.cache.make_graph

    def recorded(batch, *, check):
        alive.append(sum(graph() is not None and graph()._f_edge is not None for graph in graphs))
        graph = make_graph(batch, check=check)
        graphs.append(weakref.ref(graph))
        return graph

    monkeypatch.setattr(engine.cache, "make_graph", recorded)
    for route in ("forward", "double backward"):
        engine.route = route
        for name in FAMILY:
            _ = getattr(curv, name) @ torch.ones(95, dtype=torch.float64)
    # the last graph goes when the next takes its name, before that is evaluated
    assert max(alive) <= 1
    assert sum(graph() is not None for graph in graphs) == 0
