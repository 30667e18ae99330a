"""Convolutions whose second derivative computes what is asked for."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from specdens_torch._autodiff.gradient_buffer import BackwardTarget
from specdens_torch._autodiff.layers.convolution import convolution

CASES = {
    "plain": (torch.conv2d, (2, 3, 4, 5), (2, 3, 3, 2), {}),
    "strided and padded": (torch.conv2d, (2, 2, 5, 4), (3, 2, 3, 3), {"stride": 2, "padding": (1, 0)}),
    "dilated": (torch.conv2d, (1, 2, 5, 5), (2, 2, 2, 2), {"dilation": 2}),
    "in groups": (torch.conv2d, (2, 4, 3, 3), (4, 2, 2, 2), {"groups": 2}),
    "in one dimension": (torch.conv1d, (2, 2, 5), (2, 2, 3), {"padding": 1}),
    "in three dimensions": (torch.conv3d, (1, 1, 3, 3, 3), (2, 1, 2, 2, 2), {}),
    "padded by name": (torch.conv2d, (1, 2, 4, 4), (2, 2, 3, 3), {"padding": "same"}),
    "of a single image": (torch.conv2d, (2, 4, 4), (2, 2, 3, 3), {}),
}


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions_are_those_of_torch_and_differentiable_twice(case, bias):
    func, x_shape, w_shape, options = case
    generator = torch.Generator().manual_seed(0)
    shapes = [x_shape, w_shape, *([w_shape[:1]] if bias else [])]
    tensors = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]

    def ours(x, w, b=None):
        return convolution(func, BackwardTarget(), (x, w, b), options)

    assert torch.equal(ours(*tensors), func(*tensors, **options))
    assert torch.autograd.gradcheck(ours, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(ours, tensors, fast_mode=True)


def test_only_what_is_wanted_is_computed():
    wanted = BackwardTarget()
    x, w, b = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 3, 4, 4), (2, 3, 3, 3), (2,)))
    y = convolution(torch.conv2d, wanted, (x, w, b), {})
    r = torch.ones_like(y, requires_grad=True)
    gradients = torch.autograd.grad(y, (x, w, b), r, create_graph=True)
    wanted.only_jvp = True
    u, to_x, to_w = torch.autograd.grad(gradients, (r, x, w), (x, w, b), allow_unused=True)
    assert torch.allclose(u, F.conv2d(x, w) + F.conv2d(x, w, b))
    assert to_x is None
    assert to_w is None
