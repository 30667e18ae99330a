"""Agreement with an independent library on Hess and G."""

from __future__ import annotations

import pytest
import specdens_torch as sdt
import torch
from torch import nn
from torch_cases import assert_close, make, some

# torch warns of what its own forward mode does
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")]


@pytest.fixture(scope="module")
def curvlinops():
    """Return the library, whose import takes half a second."""
    return pytest.importorskip("curvlinops")


@pytest.mark.parametrize("name", ["mlp", "cnn with batch norm", "residual net"])
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.MSELoss(reduction="sum")], ids=["cross-entropy", "mse"])
def test_hess_and_g_agree_with_curvlinops(name, loss, curvlinops):
    model, x, y = make(name)
    if isinstance(loss, nn.MSELoss):
        y = torch.nn.functional.one_hot(y, 4).double()
    params = [p for p in model.parameters() if p.requires_grad]
    data = [(x[:15], y[:15]), (x[15:], y[15:])]
    curv = sdt.Curvature(model, loss, data)
    for ours, theirs in ((curv.Hess, curvlinops.HessianLinearOperator), (curv.G, curvlinops.GGNLinearOperator)):
        expected = theirs(model, loss, params, data, check_deterministic=False)
        assert_close(some(ours), some(expected))
