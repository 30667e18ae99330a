"""Curvature operators on executors: threads take turns, and other processes are refused before any work."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from torch import nn

import specdens as sd


@pytest.fixture(params=["auto", "off"])
def hess(request):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    x, y = torch.randn(20, 4).double(), torch.arange(20) % 3
    data = [(x[:15], y[:15]), (x[15:], y[15:])]
    return sdt.Curvature(model, nn.CrossEntropyLoss(), data, cache=request.param, jvp_route="double backward").Hess


def test_threads_take_turns(hess):
    with ThreadPoolExecutor(4) as pool:
        found = sd.fast_lanczos(hess, num_steps=12, num_probes=6, executor=pool)
    expected = sd.fast_lanczos(hess, num_steps=12, num_probes=6, block_size=1)
    np.testing.assert_array_equal(found.alphas, expected.alphas)


def test_other_processes_are_refused_before_any_work(hess):
    class Elsewhere(Executor):
        def submit(self, fn, /, *args, **kwargs):
            raise AssertionError

    for A in (hess, 2.0 * hess, sd.Counted(hess)):
        with pytest.raises(TypeError, match=r"`A` must be picklable .*CurvatureOperator cannot be pickled"):
            sd.fast_lanczos(A, num_steps=5, executor=Elsewhere())
