"""What users are told about data that do not fit."""

from __future__ import annotations

import warnings

import pytest
import specdens_torch as sdt
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LOSS = nn.CrossEntropyLoss()


@pytest.fixture
def problem():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(6, 4), torch.randn(30, 6), torch.arange(30) % 4


CASES = {
    "float labels": (lambda x, y: (x, y.float()), r"targets are float32.*as integers: y\.long\(\)"),
    "other lengths": (lambda x, y: (x[:10], y), r"10 rows of outputs and 30 of targets"),
    "a column": (lambda x, y: (x, y[:, None]), r"y\.squeeze\(1\)"),
    "counted from 1": (lambda x, y: (x, y + 1), r"classes from 0 to 3, of which the outputs have 4; got 4.*from 1"),
    "no examples": (lambda x, y: (x[:0], y[:0]), r"batches of `data` are empty"),
    "no batches": (lambda x, y: [], r"at least one batch; got none\. It is empty"),
    "an empty data set": (lambda x, y: DataLoader(TensorDataset(x[:0], y[:0])), "Its data set is empty"),
    "all dropped": (
        lambda x, y: DataLoader(TensorDataset(x, y), batch_size=64, drop_last=True),
        "drop_last=True leaves out all of its 30 examples",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_data_that_do_not_fit_are_refused_with_what_to_do(problem, name):
    model, x, y = problem
    make, message = CASES[name]
    with pytest.raises(ValueError, match=message):
        sdt.Curvature(model, LOSS, make(x, y))


def test_inputs_and_targets_go_together_as_tensors(problem):
    model, x, y = problem
    with pytest.raises(TypeError, match=r"got inputs and targets as two arguments\. Pass \(X, y\)\.$"):
        sdt.Curvature(model, LOSS, x, y)
    with pytest.raises(TypeError, match=r"got one Tensor\. Pass \(X, y\)\.$"):
        sdt.Curvature(model, LOSS, x)
    for data in ((x.numpy(), y.numpy()), [(x.numpy(), y.numpy())]):
        with pytest.raises(TypeError, match=r"got numpy\.ndarray\. Convert with torch\.from_numpy"):
            sdt.Curvature(model, LOSS, data)
    with pytest.raises(ValueError, match=r"got a tensor of shape \(30,\) that is no parameter of it$"):
        sdt.Curvature(model, LOSS, (x, y), y)


class Warns(nn.Linear):
    def forward(self, x):
        warnings.warn("this layer is old", FutureWarning, stacklevel=1)
        return super().forward(x)


@pytest.mark.parametrize("cache", ["auto", "off"])
def test_a_warning_of_the_model_is_shown_once(problem, cache):
    _, x, y = problem
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        curv = sdt.Curvature(Warns(6, 4), LOSS, (x, y), cache=cache)
        for _ in range(3):
            curv.Hess @ torch.ones(28)
    assert [str(each.message) for each in caught] == ["this layer is old"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        with pytest.raises(FutureWarning, match="this layer is old"):
            sdt.Curvature(Warns(6, 4), LOSS, (x, y))
