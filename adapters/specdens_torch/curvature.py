"""The user's door: a model, a loss and data, and the curvature operators they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor, nn

import specdens as sd
from specdens._errors import as_count
from specdens_torch import _mix
from specdens_torch._as_loss import as_loss
from specdens_torch._batches import Batches, default_forward
from specdens_torch._classes import ClassSpectrum, ClassTraces, class_spectrum, class_traces
from specdens_torch._densities import layer_groups, lockstep_measures, with_dual
from specdens_torch._engine import Engine
from specdens_torch._forward import Forward
from specdens_torch._losses import CrossEntropy
from specdens_torch._memory import available_bytes, cache_budget, gib
from specdens_torch._operators import CurvatureOperator
from specdens_torch._params import Subset, select, subset_of

NAMES = ("Hess", "G", "H", "A1", "A2", "B1", "B2")


class Curvature:
    """Curvature of the loss of a model over a data set, as matrix-free operators on flat vectors of parameters.

    Sums over examples are divided once by the count that the loss defines. The model is left as it was found; if its
    parameters change later, the operators follow.

    Parameters
    ----------
    model
        A module in eval mode (dropout and batch norm in training mode are refused).
    loss
        ``nn.CrossEntropyLoss``, ``nn.MSELoss``, ``nn.BCEWithLogitsLoss`` with any of their options, their functions
        in ``torch.nn.functional`` (or a ``functools.partial`` of one), or any twice differentiable function of
        (output, target) that returns one loss per example.
    data
        A ``DataLoader`` or any iterable of batches, or one batch (x, y). A batch is a tuple (inputs, …, targets) or a
        dict with its targets under "labels", "label", "targets", "target" or "y". A loader that shuffles is welcome
        where its batches are kept: all that is computed are sums over examples, whatever their order. One that
        augments its data, drops random examples or draws them anew is refused, since every run would be that of
        another data set; ``list(loader)`` takes what one pass gives.
    params
        Names, glob patterns, modules or parameters, or several of these; by default all that require gradients.
    forward
        ``forward(model, batch) -> outputs``, where calling the model with all of the batch but the targets will not do.
    reduction
        "mean" or "sum": what a function that returns a scalar has done, or what to do instead of what the loss says.
    count
        With a mean of unknown count: a function (output, target) -> number of terms, or a number per batch.
    cache
        "auto" (half of the free memory), a number of bytes, or "off": what the kept graphs of batches may take.
    keep_data
        Whether to keep the batches: by default where they fit in half of the free memory; they are streamed otherwise.
    check
        Whether to check that the outputs are deterministic, with two passes of the first batch, and that the loader
        gives the same data again: by its indices and a few examples where it reads a data set by index and its batches
        are kept, by a second pass otherwise.

    Notes
    -----
    Products are computed in the dtypes of the parameters, all that lives on the outputs in float64, and vectors are in
    the widest dtype of the parameters, float32 at least: a bfloat16 model has float32 vectors. For autocast, enter it
    in `forward`.

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
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"`model` must be a torch.nn.Module; got {type(model).__name__}")
        selected = select(model, params)
        device = next(iter(selected.values())).device
        output_loss = as_loss(loss, reduction, count)
        budget = cache_budget(cache, device)
        batches = Batches(data, device, keep=keep_data, budget=available_bytes(device) // 2, check=check)
        self._engine = Engine(
            Forward(model, forward or default_forward, selected), output_loss, batches, budget=budget, check=check
        )
        self._subset = subset_of(selected)

    @classmethod
    def _sharing(cls, engine: Engine, subset: Subset) -> Curvature:
        other = cls.__new__(cls)
        other._engine, other._subset = engine, subset
        return other

    # -- operators ---------------------------------------------------------------------------------------------------

    @property
    def Hess(self) -> CurvatureOperator:
        """The Hessian of the loss."""
        return self._operator(_mix.HESS)

    @property
    def G(self) -> CurvatureOperator:
        """The Gauss–Newton matrix JᵀSJ, S being the Hessian of the loss with respect to the outputs."""
        return self._operator(_mix.G)

    @property
    def H(self) -> CurvatureOperator:
        """The rest, Hess − G: the Hessian of ⟨r, f⟩ with the gradient r at the outputs held fixed."""
        return self._operator(_mix.H)

    @property
    def A1(self) -> CurvatureOperator:
        """The between-class part of G, of rank C at most."""
        return self._component(_mix.A1)

    @property
    def A2(self) -> CurvatureOperator:
        """The part of G of the true logits' means, with the range of A1."""
        return self._component(_mix.A2)

    @property
    def B1(self) -> CurvatureOperator:
        """The between-cross-class part of G, of rank C(C − 2) at most."""
        return self._component(_mix.B1)

    @property
    def B2(self) -> CurvatureOperator:
        """The within-cross-class part of G."""
        return self._component(_mix.B2)

    def B2c(self, c: int) -> CurvatureOperator:
        """Return the part of B2 that the examples of class c make."""
        operator = self._component(_mix.Mix(classes=((int(c), 1.0),)))
        num_classes = self._engine.means.num_classes
        if not 0 <= c < num_classes:
            raise ValueError(f"`c` must be a class, from 0 to {num_classes - 1}; got {c}")
        return operator

    def _operator(self, mix: _mix.Mix) -> CurvatureOperator:
        return CurvatureOperator(self._engine, self._subset, mix)

    def _component(self, mix: _mix.Mix) -> CurvatureOperator:
        loss, target = self._engine.loss, self._engine.batches.first.target
        if not isinstance(loss, CrossEntropy) or not isinstance(target, Tensor) or target.is_floating_point():
            said = "soft targets" if isinstance(loss, CrossEntropy) else loss.name
            raise TypeError(
                f"the class components A1, A2, B1, B2 need cross-entropy with class labels; got {said}. "
                "Hess, G and H are there for every loss."
            )
        return self._operator(mix)

    def products(self, x: Tensor) -> dict[str, Tensor]:
        """Return Hess x, G x and H x together: one double backward gives Hx and Jx, and Hess x is the sum."""
        H, G = self._engine.together(self._subset, x)
        return {"Hess": H + G, "G": G, "H": H}

    # -- parameters ----------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in the order of the flat vectors."""
        return self._subset.names

    def flatten(self, named: Mapping[str, Tensor]) -> Tensor:
        """Return named tensors in the shapes of the parameters as one flat vector."""
        operator = self.Hess
        return self._subset.flatten(named, dtype=operator.dtype, device=operator.device)

    def unflatten(self, x: Tensor) -> dict[str, Tensor]:
        """Return a flat vector (an eigenvector, say) as named views in the shapes of the parameters."""
        return self._subset.unflatten(x)

    def subset(self, params: Any) -> Curvature:
        """Return the curvature with respect to some of the parameters, sharing data and graphs with this one."""
        names = select(self._engine.forward.model, params)
        missing = [name for name in names if name not in self._subset.names]
        if missing:
            raise ValueError(f"`params` must be among those of the Curvature; {missing[0]!r} is not")
        return self._sharing(self._engine, self._subset.restricted(names))

    # -- densities -----------------------------------------------------------------------------------------------------

    def density(
        self,
        operator: str | CurvatureOperator = "Hess",
        *,
        dual: bool | None = None,
        num_steps: int | None = None,
        num_probes: int = 1,
        seed: int = 0,
    ) -> sd.Density:
        """Return the density of one operator, by way of its dual where that is cheaper.

        Parameters
        ----------
        operator
            "Hess", "G", "H", "A1", "A2", "B1", "B2", or any operator of this object.
        dual
            Whether to use the dual; by default where it exists, has the shorter vectors and its products cost no
            more (`CurvatureOperator.cheaper_form`), which the density's notes then say.
        num_steps, num_probes, seed
            As for `specdens.spectral_density`.
        """
        A = with_dual(self._named(operator), dual)
        return sd.spectral_density(A, num_steps=num_steps, num_probes=num_probes, seed=seed)

    def densities(
        self,
        *operators: str | CurvatureOperator,
        num_steps: int | None = None,
        num_probes: int = 1,
        seed: int = 0,
    ) -> dict[str, sd.Density]:
        """Return the densities of several operators (Hess, G and H by default), which share graphs.

        Where all graphs are kept, each is computed as `density` does it, by its dual if that is cheaper. Where they are
        not, the recurrences run side by side and every pass makes the graphs once for all of the operators: Jv and Jᵀu
        of G then come with the graph that Hess and H need anyway, while its dual would need two passes of its own for
        every step, which is more than all its vectors cost.
        """
        named = [self._named(operator) for operator in operators or ("Hess", "G", "H")]
        if self._engine.keeps_all or len(named) == 1:
            return {str(A.mix): self.density(A, num_steps=num_steps, num_probes=num_probes, seed=seed) for A in named}
        measures = lockstep_measures(named, num_steps=num_steps, num_probes=num_probes, seed=seed)
        return {str(A.mix): measure.density() for A, measure in zip(named, measures, strict=True)}

    def layer_densities(
        self,
        operator: str = "Hess",
        *,
        by: int | Mapping[str, Iterable[str]] | None = None,
        num_steps: int | None = None,
        num_probes: int = 1,
        seed: int = 0,
    ) -> dict[str, sd.Density]:
        """Return the density of every layer (or block): the operator restricted to the parameters of each.

        Parameters
        ----------
        operator
            As for `density`, by name.
        by
            None for one group per module; a number of name parts (1: top-level blocks); or groups as name -> `params`.
        num_steps, num_probes, seed
            As for `specdens.spectral_density`.
        """
        groups = layer_groups(self.names, by)
        return {
            name: self.subset(params).density(operator, num_steps=num_steps, num_probes=num_probes, seed=seed)
            for name, params in groups.items()
        }

    def _named(self, operator: str | CurvatureOperator) -> CurvatureOperator:
        if isinstance(operator, CurvatureOperator):
            return operator
        if operator not in NAMES:
            raise ValueError(f"`operator` must be one of {', '.join(NAMES)} or an operator; got {operator!r}")
        return getattr(self, operator)  # type: ignore[no-any-return]

    # -- class structure -----------------------------------------------------------------------------------------------

    def class_spectrum(self) -> ClassSpectrum:
        """Return the exact non-zero eigenvalues of A1 + A2 + B1, labelled as in the paper.

        Needs C(C − 1) products and one parameter-sized vector at a time.
        """
        return class_spectrum(self._component(_mix.Mix(0.0, (1.0, 1.0, 1.0, 0.0))))

    def class_traces(self, *, num_probes: int = 16, seed: int = 0) -> ClassTraces:
        """Return Tr(B2c) for every class c, with standard errors; one Jv per probe gives them all."""
        return class_traces(self.B2, num_probes=as_count("num_probes", num_probes), seed=seed)

    @property
    def loss(self) -> float:
        """The value of the loss over the data."""
        return self._engine.value()

    def __repr__(self) -> str:
        engine = self._engine
        data = "kept" if engine.batches.kept is not None else "streamed"
        route = engine.route or "not yet timed"
        return (
            f"Curvature({self._subset.num_entries} parameters, {engine.loss.name}, {len(engine.batches)} batches "
            f"{data} ({gib(engine.batches.num_bytes)}), {engine.memory()}, Jv: {route})"
        )
