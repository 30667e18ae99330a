"""The user's door: a model, a loss and data, and the curvature operators they have."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn

from specdens.adapters import as_choice
from specdens_torch._autodiff.engine import Engine
from specdens_torch._autodiff.jvp_route import ROUTES
from specdens_torch._autodiff.model_function import Forward
from specdens_torch._autodiff.settled_loss import settled_loss
from specdens_torch._class_analysis import ClassAnalysis
from specdens_torch._data.array_checks import check_is_data
from specdens_torch._data.batches import Batches
from specdens_torch._data.memory import check_cache, format_bytes
from specdens_torch._loss.convert import as_loss
from specdens_torch._parameter_blocks import ParameterBlocks
from specdens_torch._parameters import select, subset_of
from specdens_torch._rank_agreement import check_arguments, check_data_types, check_model, check_sampler
from specdens_torch._ranks import as_ranks, sharing_rows
from specdens_torch._sharding.forward import ShardedForward, gathered_within
from specdens_torch._sharding.parts import check_sharding, sharded_subset
from specdens_torch._spectral_densities import SpectralDensities


class Curvature(SpectralDensities, ParameterBlocks, ClassAnalysis):
    """Curvature of the loss of a model over a data set, as matrix-free operators on flat vectors of parameters.

    Sums over examples are divided once by the count that the loss defines. The model is left as it was found; if its
    parameters or settings change later, the operators follow.

    Parameters
    ----------
    model : torch.nn.Module
        A module in eval mode (dropout and batch norm in training mode are refused).
    loss : loss module, callable or "model"
        ``nn.CrossEntropyLoss``, ``nn.MSELoss``, ``nn.BCEWithLogitsLoss`` with any of their options, their functions
        in ``torch.nn.functional`` (or a ``functools.partial`` of one), or any twice differentiable function of
        (output, target) that returns one loss per example. "model" takes the loss that the model itself returns when
        it is called with the whole batch (``output.loss``), with its own targets and count; what has no closed form
        in it, such as a router loss, is part of H. Where a batch is a dict whose labels the model takes as an argument,
        cross-entropy uses the targets that the model compares its logits with: those of causal language models are
        shifted by one place. A difference to the model's own loss is refused.
    data : DataLoader, iterable of batches or one batch
        A ``DataLoader`` or any iterable of batches, or one batch (x, y). A batch is a tuple (inputs, …, targets) or a
        dict with its targets under "labels", "label", "targets", "target" or "y". A loader that shuffles is welcome
        where its batches are kept: all that is computed are sums over examples, whatever their order. One that
        augments its data, drops random examples or draws them anew is refused, since every run would be that of
        another data set; ``list(loader)`` takes what one pass gives.
    params : str, Module, Parameter or sequence of these, optional
        Names, glob patterns, modules or parameters, or several of these; by default all that require gradients.
    forward : callable, optional
        ``forward(model, batch) -> outputs``, where calling the model with all of the batch but the targets will not do;
        with ``loss="model"`` it returns what the model returns.
    reduction : {"mean", "sum"}, optional
        "mean" or "sum": what a function that returns a scalar has done, or what to do instead of what the loss says.
    count : callable or number, optional
        With a mean of unknown count: a function (output, target) -> number of terms, or a number per batch; with
        ``loss="model"`` a function of the batch.
    cache : {"auto", "off"} or int, default "auto"
        What the kept graphs of batches may take: "auto" (half of the free memory, which all kept graphs and data of the
        process share, and less where one product needs it), a number of bytes, or "off".
    keep_data : bool, optional
        Whether to keep the batches: by default where they fit in half of the free memory; they are streamed otherwise.
    check : bool, default True
        Whether to check that the outputs are deterministic, with two passes of the first batch, and that the loader
        gives the same data again: by its indices and a few examples where it reads a data set by index and its batches
        are kept, by a second pass otherwise.
    jvp_route : {"forward", "double backward"}, optional
        How Jv is computed: "forward" (forward mode) or "double backward". They agree up to rounding. By default the
        faster is found by timing, so that two runs may differ in their last digits; naming one settles that.
    group : ProcessGroup or False, optional
        The process group of torch.distributed whose ranks share the data: None for the default group where one has been
        initialised (as under ``torchrun``), False for this process alone. `data` is then the part of this rank; parts
        may differ in size and may be empty. All ranks make the same calls and get the same results.
    shard_vectors : bool, optional
        Whether R ranks share the rows of vectors, so that each holds p / R of the p entries: by default where the
        model has DTensors, as `shard_parameters` makes them. Nothing of length p then exists on any rank: parameters
        and vectors are gathered, and gradients summed, layer by layer. With True and a model that every rank has as a
        whole, only the vectors are shared. Graphs of batches are not kept, and the model must call its layers in the
        same order whatever the data.

    Raises
    ------
    TypeError, ValueError
        If the model is random or not twice differentiable, the loss or the data cannot be used, or an argument is out
        of range; before the first product.

    Notes
    -----
    With a process group every product ends in one all-reduce of a vector, whatever the number of batches; class
    components reduce C × C numbers before it. Duals, which live on the outputs, are not distributed.

    Products are computed in the dtypes of the parameters, all that lives on the outputs in float64, and vectors are in
    the widest dtype of the parameters, float32 at least: a bfloat16 model has float32 vectors. For autocast, enter it
    in `forward`: checks then allow for the rounding of its dtype, and results have a note of it. Autocast around a
    product has no effect on it.

    Before every product the model is compared with what it was: attributes and entries of containers at any depth,
    global variables that its functions name, and the content of its tensors (beyond its own, up to 64 MiB or as much
    as its parameters take; of further ones the version counters). Objects are looked at up to a number of 20,000 beside
    the modules and their attributes; those of Python's own library, such as loggers, are not.

    Examples
    --------
    >>> import torch, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()
    >>> x, y = torch.randn(20, 4).double(), torch.arange(20) % 3
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), [(x[:15], y[:15]), (x[15:], y[15:])])
    >>> curv.G - curv.A1
    CurvatureOperator(G - A1, n=67, dtype=float64, device=cpu)
    >>> v = torch.ones(67).double()
    >>> bool(torch.allclose(curv.Hess @ v, curv.G @ v + curv.H @ v))
    True
    >>> curv.G.dual()
    Dual(G, n=60, bulk=40, of 67 parameters)
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Any,
        data: Any,
        params: Any = None,
        *,
        forward: Callable[[nn.Module, Any], Tensor] | None = None,
        reduction: str | None = None,
        count: Any = None,
        cache: str | int = "auto",
        keep_data: bool | None = None,
        check: bool = True,
        jvp_route: Literal["forward", "double backward"] | None = None,
        group: Any = None,
        shard_vectors: bool | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"`model` must be a torch.nn.Module; got {type(model).__name__}")
        while isinstance(getattr(model, "_orig_mod", None), nn.Module):  # what torch.compile wraps
            model = model._orig_mod
        check_is_data(data, params)
        ranks = as_ranks(group)
        selected = ranks.alike(lambda: select(model, params))
        check_model(ranks, model, selected)
        shared = {"loss": loss, "reduction": reduction, "count": count, "forward": forward}
        check_arguments(ranks, {**shared, "shard_vectors": shard_vectors})
        sharded = ranks.alike(lambda: check_sharding(model, selected, ranks, shard_vectors))
        ranks = sharing_rows(ranks) if sharded else ranks

        def read() -> tuple[Any, Any, Batches]:
            check_sampler(data, ranks)
            device = next(iter(selected.values())).device
            output_loss, budget = as_loss(loss, reduction, count, forward), check_cache(cache)
            count_targets = None if output_loss.needs_output else output_loss.count
            batches = Batches(
                data, device, keep=keep_data, check=check, count=count_targets, may_be_empty=ranks.size > 1
            )
            return output_loss, budget, batches

        output_loss, budget, batches = ranks.alike(read)
        check_data_types(ranks, batches.own_first)
        batches.share_first(ranks.gather)
        if sharded:
            batches.pad(max(ranks.gather(len(batches))))
            budget = 0

        def function_of(forward: Callable[[nn.Module, Any], Any]) -> Forward:
            return ShardedForward(model, forward, selected, ranks) if sharded else Forward(model, forward, selected)

        function, output_loss = ranks.alike_in_passes(
            lambda: settled_loss(
                model, output_loss, batches, forward, function_of, check=check,
                callable_within=partial(gathered_within, model, ranks) if sharded else nullcontext,
            )
        )  # fmt: skip
        self._engine = Engine(
            function, output_loss, batches, budget=budget, check=check, ranks=ranks,
            route=None if jvp_route is None else as_choice("jvp_route", jvp_route, ROUTES),
            user_loss=loss, user_forward=forward,
        )  # fmt: skip
        self._subset = sharded_subset(selected, ranks) if sharded else subset_of(selected)

    @property
    def loss(self) -> float:
        """The value of the loss over the data."""
        return self._engine.value()

    def __repr__(self) -> str:
        engine = self._engine
        data = "kept" if engine.batches.kept is not None else "streamed"
        count = len(engine.batches)
        batches = f"{count} batch" if count == 1 else f"{count} batches"
        route = "" if engine.route is None else f", Jv: {engine.route}"
        return (
            f"Curvature({self._subset.num_entries} parameters, {engine.loss.name}, {batches} "
            f"{data} ({format_bytes(engine.batches.num_bytes)}), {engine.cache.describe()}{route})"
        )
