"""What is wrong with labels that do not fit the outputs of a model, and what to do about it."""

from __future__ import annotations

from torch import Tensor


def misfit(output: Tensor, target: Tensor) -> str:
    """Return why outputs and targets of these shapes and dtypes do not fit cross-entropy."""
    labels = output.shape[:1] + output.shape[2:]
    if target.is_floating_point() and target.shape in (labels, output.shape[:-1]):
        return (
            f"the targets are {str(target.dtype).removeprefix('torch.')}, which stands for probabilities of the "
            "outputs' shape. Give class labels as integers: y.long()."
        )
    if target.dim() and output.dim() and target.shape[0] != output.shape[0]:
        return f"there are {output.shape[0]} rows of outputs and {target.shape[0]} of targets. Give as many of both."
    if target.dim() == output.dim() and not target.is_floating_point() and 1 in target.shape[1:]:
        return f"labels have one dimension less than outputs. Give y.squeeze({list(target.shape).index(1, 1)})."
    return "(n, C, …) with labels (n, …), or (n, …, C), for all batches alike. Reshape the output with forward=."


def check_classes(labels: Tensor, num_classes: int) -> None:
    """Refuse labels beyond the number of classes, which indexing would report without a word of labels."""
    if labels.is_meta or not labels.numel():
        return
    largest = int(labels.max())
    if largest >= num_classes:
        raise ValueError(
            f"the labels must be classes from 0 to {num_classes - 1}, of which the outputs have {num_classes}; got "
            f"{largest}. Are they counted from 1, or has the model too few outputs?"
        )
