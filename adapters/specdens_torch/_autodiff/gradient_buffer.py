"""The buffer that a backward pass writes gradients to, also used by the substitutes of layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdens_torch._parameters import Subset


class GradientBuffer:
    """A flat vector that gradients are added to, parameter by parameter and batch after batch.

    Parameters
    ----------
    subset : Subset
        The parameters.
    out : Tensor
        The flat vector. It need not be initialised.
    """

    def __init__(self, subset: Subset, out: Tensor) -> None:
        self.out = out
        self.places = dict(zip(subset.indices, subset.views(out), strict=True))
        self.touched: set[int] = set()
        self.scale = 1.0
        """The factor by which incoming gradients are scaled up: those in float16 are brought into its range."""

    def put(self, index: int, gradient: Tensor) -> Tensor | None:
        """Add a gradient; return its view of the buffer if the caller can use that as the gradient, else None."""
        place = self.places[index]
        if index not in self.touched:
            place.copy_(gradient)
            if self.scale != 1.0:
                place.div_(self.scale)
            self.touched.add(index)
        elif self.scale != 1.0:
            place.add_(gradient, alpha=1.0 / self.scale)
        else:
            place.add_(gradient)
        return place if place.dtype == gradient.dtype else None

    def put_product(self, index: int, a: Tensor, b: Tensor) -> None:
        """Add a matrix product, without a temporary of its size where dtypes allow."""
        place = self.places[index]
        if place.dtype != a.dtype:
            self.put(index, a @ b)
        elif index in self.touched:
            place.addmm_(a, b)
        else:
            torch.mm(a, b, out=place)
            self.touched.add(index)

    def finish(self, factor: float) -> None:
        """Zero what no batch has reached, and multiply."""
        for index, place in self.places.items():
            if index not in self.touched:
                place.zero_()
        if factor != 1.0:
            self.out.mul_(factor)


class BackwardTarget:
    """What a backward pass computes (products with J alone, or all), and the buffer for its results."""

    def __init__(self) -> None:
        self.only_jvp = False
        self.only_edges = False
        """Whether a pass only builds the graph of the gradient: nobody reads the gradients of the leaves themselves."""
        self.buffer: GradientBuffer | None = None
        self._indices: dict[int, int] = {}

    def attach(self, leaves: Sequence[Tensor]) -> None:
        """Connect the hooks of the leaves with the buffer, so that gradients are not accumulated elsewhere."""
        self._indices = {id(leaf): index for index, leaf in enumerate(leaves)}
        for index, leaf in enumerate(leaves):
            leaf.register_hook(lambda gradient, index=index: self._hook(index, gradient))

    def index(self, tensor: Tensor) -> int | None:
        """Return which of the leaves a tensor is."""
        return self._indices.get(id(tensor))

    def is_unread(self, tensor: Tensor | None) -> bool:
        """Return whether nobody reads the gradient of a tensor that the current pass computes."""
        return self.only_edges and tensor is not None and self.index(tensor) is not None

    def put(self, index: int, a: Tensor, b: Tensor) -> Tensor | None:
        """Add the product a b to the gradient of a leaf: in the buffer if there is one, else it is returned."""
        if self.buffer is None:
            return None if self.only_jvp else a @ b
        if index in self.buffer.places:
            self.buffer.put_product(index, a, b)
        return None

    def _hook(self, index: int, gradient: Tensor | None) -> Tensor | None:
        if self.buffer is None or gradient is None:  # torch hands over None for what is known to be zero
            return None
        return self.buffer.put(index, gradient.detach())


def unread_gradient(tensor: Tensor) -> Tensor:
    """Return a stand-in for a gradient that nobody reads, of the same shape and almost without memory."""
    return tensor.new_zeros(()).expand(tensor.shape)


def is_autocast(x: Tensor) -> bool:
    """Return whether operations on a tensor like this choose their dtype themselves."""
    kind = x.device.type
    return bool(torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind))
