"""Gram matrices of gradients of a network's outputs, layer by layer.

The dual XᵀX of G holds the inner products of examples × classes gradients, 1,300 of 28 million entries each for 130
examples. They are never formed, nor does this need 1,300 products with G: every layer's contribution is a product of
small matrices. All of G, and every component of it, follows from XᵀX (`experiment.class_components`).

A linear layer contributes (a_i · a_j)(b_ic · b_jd), with its input a and the gradient b at its output. A convolution
contributes the same summed over pairs of positions; where there are few parameters for the positions, the gradients of
its weights are formed instead, a few output channels at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from experiment.files import replacing

_CHUNK_BYTES = 2**28


def dual_of_G(network: nn.Module, images: Tensor, *, checkpoint: Path | None = None) -> tuple[Tensor, Tensor]:
    """Return XᵀX of G = XXᵀ for cross-entropy, with examples × classes rows, and the softmax probabilities.

    Column (i, c) of X is √(p_ic/N) Jᵢᵀ(e_c − pᵢ). What lives on the outputs is computed in float64. The `checkpoint`
    is as for `gradient_gram`.
    """
    with torch.no_grad():
        p = network(images).double().softmax(1)
    num_examples, num_classes = p.shape
    difference = torch.eye(num_classes, dtype=torch.float64) - p[:, None]
    for c in range(num_classes):  # 1 − p_c cancels where p_c is nearly one
        difference[:, c, c] = p[:, torch.arange(num_classes) != c].sum(1)
    directions = (p / num_examples).sqrt()[..., None] * difference
    return gradient_gram(network, images, directions, checkpoint=checkpoint), p


def gradient_gram(network: nn.Module, images: Tensor, directions: Tensor, *, checkpoint: Path | None = None) -> Tensor:
    """Return the inner products of the gradients of ⟨directions[i, k], f(x_i)⟩, in float64, example by example.

    Parameters
    ----------
    network
        In eval mode, made of linear layers, 2-D convolutions without groups or dilation, batch norm, and layers
        without parameters.
    images
        The examples.
    directions
        Per example some vectors in the space of the outputs: (examples, vectors, outputs).
    checkpoint
        A file for the sum over the layers that are done. The same call continues from it; it is left behind.
    """
    if network.training:
        raise ValueError("`network` must be in eval mode: batch statistics couple the examples")
    inputs, outputs, logits = _forward(network, images)
    done, gram = _resumed(checkpoint, directions)
    layers = list(outputs)[done:]
    rows: dict[nn.Module, list[Tensor]] = {layer: [] for layer in layers}
    for k in range(directions.shape[1] if layers else 0):
        at = directions[:, k].to(logits.dtype)
        found = torch.autograd.grad(logits, [outputs[layer] for layer in layers], at, retain_graph=True)
        for layer, gradient in zip(layers, found, strict=True):
            rows[layer].append(gradient)
    for number, layer in enumerate(layers, start=done + 1):
        b = torch.stack(rows.pop(layer), dim=1).detach()  # (examples, vectors, channels, *positions)
        for part in _contributions(layer, inputs[layer].detach(), b):
            gram += part
        if checkpoint is not None:
            with replacing(checkpoint) as temporary:
                np.savez(temporary, gram=gram.numpy(), done=number, directions=directions.numpy())
    return gram


def _resumed(checkpoint: Path | None, directions: Tensor) -> tuple[int, Tensor]:
    """Return how many layers a checkpoint has, and their sum; one of other directions is not used."""
    if checkpoint is not None and checkpoint.exists():
        with np.load(checkpoint, allow_pickle=False) as saved:
            if np.array_equal(saved["directions"], directions.numpy()):
                return int(saved["done"]), torch.as_tensor(saved["gram"])
    size = directions.shape[0] * directions.shape[1]
    return 0, torch.zeros((size, size), dtype=torch.float64)


def _forward(network: nn.Module, images: Tensor) -> tuple[dict[nn.Module, Tensor], dict[nn.Module, Tensor], Tensor]:
    """Return inputs and outputs of every layer with parameters, and the network's outputs."""
    inputs: dict[nn.Module, Tensor] = {}
    outputs: dict[nn.Module, Tensor] = {}

    def hook(layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
        if layer in outputs:
            raise ValueError(f"a layer must be used once; {layer} is used again")
        inputs[layer], outputs[layer] = given[0], output
        return output.clone()  # a ReLU in place would overwrite it

    handles = []
    for layer in network.modules():
        if next(layer.parameters(recurse=False), None) is not None:
            if not isinstance(layer, nn.Linear | nn.Conv2d | nn.BatchNorm1d | nn.BatchNorm2d):
                raise TypeError(f"a layer with parameters must be linear, a convolution or batch norm; got {layer}")
            handles.append(layer.register_forward_hook(hook))
    try:
        logits = network(images)
    finally:
        for handle in handles:
            handle.remove()
    return inputs, outputs, logits


def _contributions(layer: nn.Module, a: Tensor, b: Tensor) -> Iterator[Tensor]:
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        shape = (1, -1) + (1,) * (a.dim() - 2)
        mean, variance = layer.running_mean.reshape(shape), layer.running_var.reshape(shape)
        normed = (a - mean) / (variance + layer.eps).sqrt()
        yield _outer(_over_positions(b * normed[:, None]))
        yield _outer(_over_positions(b))
        return
    if layer.bias is not None:
        yield _outer(_over_positions(b))
    if isinstance(layer, nn.Linear):
        yield _kernel(a[:, None], b[..., None])
        return
    patches = functional.unfold(a, layer.kernel_size, padding=layer.padding, stride=layer.stride).transpose(1, 2)
    b = b.flatten(3)
    num_rows, positions = b.shape[0] * b.shape[1], b.shape[-1]
    # products of pairs of positions, against those of the gradients of the weights
    if positions**2 * layer.out_channels < layer.weight.numel():
        yield _kernel(patches, b)
    else:
        yield from _weight_gradients(patches, b, max(1, _CHUNK_BYTES // (4 * num_rows * patches.shape[2])))


def _weight_gradients(patches: Tensor, b: Tensor, chunk: int) -> Iterator[Tensor]:
    """Yield the Gram matrices of the weights' gradients, `chunk` output channels at a time."""
    for channels in b.split(chunk, dim=2):
        examples, outputs, width, _ = channels.shape
        gradients = channels.reshape(examples, outputs * width, -1) @ patches
        yield _outer(gradients.reshape(examples, outputs, -1))


def _kernel(a: Tensor, b: Tensor) -> Tensor:
    """Return Σ_st (a_is · a_jt)(b_ics · b_jdt), for inputs a (examples, positions, features) and gradients b."""
    examples, outputs, channels, positions = b.shape
    flat = b.permute(0, 3, 1, 2).reshape(-1, channels)  # (example, position, output) by channel
    inner = a.reshape(-1, a.shape[-1])
    inner = inner @ inner.T
    result = torch.empty((examples, outputs, examples * outputs), dtype=torch.float64)
    per_example = positions * outputs
    for i in range(examples):
        own = flat[i * per_example : (i + 1) * per_example]
        weights = inner[i * positions : (i + 1) * positions].reshape(positions, 1, examples, positions, 1)
        products = (own @ flat.T).reshape(positions, outputs, examples, positions, outputs)
        result[i] = (products * weights).sum((0, 3)).reshape(outputs, -1)
    return result.reshape(examples * outputs, -1)


def _over_positions(x: Tensor) -> Tensor:
    return x.flatten(3).sum(3) if x.dim() > 3 else x


def _outer(rows: Tensor) -> Tensor:
    """Return the Gram matrix of rows (examples, outputs, entries)."""
    flat = rows.reshape(rows.shape[0] * rows.shape[1], -1)
    return (flat @ flat.T).double()
