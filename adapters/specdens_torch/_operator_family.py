"""The operators of a model, a loss and data, on all or some of the parameters."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor

import specdens as sd
from specdens_torch import _coefficients
from specdens_torch._autodiff.engine import Engine
from specdens_torch._loss.closed_forms import CrossEntropy
from specdens_torch._loss.model_loss import ModelLoss
from specdens_torch._operators.curvature_operator import CurvatureOperator
from specdens_torch._parameters import Subset, select

NAMES = ("Hess", "G", "H", "A1", "A2", "B1", "B2")


class OperatorFamily:
    """The curvature operators on some of the parameters: the part of `Curvature` that needs no density."""

    _engine: Engine
    _subset: Subset

    @classmethod
    def _sharing(cls, engine: Engine, subset: Subset) -> Self:
        other = cls.__new__(cls)
        other._engine, other._subset = engine, subset
        return other

    # -- operators -------------------------------------------------------------------------------------------------

    @property
    def Hess(self) -> CurvatureOperator:
        """The Hessian of the loss."""
        return self._operator(_coefficients.HESS)

    @property
    def G(self) -> CurvatureOperator:
        """The Gauss–Newton matrix JᵀSJ, S being the Hessian of the loss with respect to the outputs.

        A loss that is linear in the outputs has S = 0, which is a `SpecdensWarning`; the first batch is looked at.
        """
        if self._engine.loss_is_linear:
            warnings.warn(
                f"the loss ({self._engine.loss.name}) is linear in the outputs of the model, or piecewise linear, on "
                "the first batch: there G is zero and Hess is H. "
                "For a model that ends in log_softmax, take the logits and CrossEntropyLoss.",
                sd.SpecdensWarning,
                stacklevel=2,
            )
        return self._operator(_coefficients.G)

    @property
    def H(self) -> CurvatureOperator:
        """The rest, Hess − G: the Hessian of ⟨r, f⟩ with the gradient r at the outputs held fixed."""
        return self._operator(_coefficients.H)

    @property
    def A1(self) -> CurvatureOperator:
        """The between-class part of G, of rank C at most."""
        return self._component(_coefficients.A1)

    @property
    def A2(self) -> CurvatureOperator:
        """The part of G of the true logits' means, with the range of A1."""
        return self._component(_coefficients.A2)

    @property
    def B1(self) -> CurvatureOperator:
        """The between-cross-class part of G, of rank C(C − 2) at most."""
        return self._component(_coefficients.B1)

    @property
    def B2(self) -> CurvatureOperator:
        """The within-cross-class part of G."""
        return self._component(_coefficients.B2)

    def B2c(self, c: int) -> CurvatureOperator:
        """Return the part of B2 that the examples of class c make.

        Parameters
        ----------
        c : int
            The class.

        Returns
        -------
        CurvatureOperator
            The operator.

        Raises
        ------
        ValueError
            If there is no such class.
        """
        operator = self._component(_coefficients.Coefficients(classes=((int(c), 1.0),)))
        num_classes = self._engine.class_means().num_classes
        if not 0 <= c < num_classes:
            raise ValueError(f"`c` must be a class, from 0 to {num_classes - 1}; got {c}")
        return operator

    def operator(self, name: str | CurvatureOperator) -> CurvatureOperator:
        """Return an operator by its name.

        Parameters
        ----------
        name : str or CurvatureOperator
            "Hess", "G", "H", "A1", "A2", "B1", "B2", or "B2c:3" for the class 3. An operator of this `Curvature`, or
            of a subset of its parameters, is returned as it is.

        Returns
        -------
        CurvatureOperator
            The operator.

        Raises
        ------
        ValueError
            If there is no operator of that name, or if an operator belongs to another `Curvature`.
        """
        if isinstance(name, CurvatureOperator):
            if name.engine is not self._engine:
                raise ValueError(
                    f"`operator` must belong to this Curvature or to a subset of it; {name!r} belongs to another. "
                    "Ask that one, or use specdens.spectral_density."
                )
            return name
        if not isinstance(name, str):
            raise TypeError(f"`operator` must be a name or a CurvatureOperator; got {type(name).__name__}")
        if name in NAMES:
            return getattr(self, name)  # type: ignore[no-any-return]
        if re.fullmatch(r"B2c:\d+", name):
            return self.B2c(int(name.partition(":")[2]))
        raise ValueError(f"`operator` must be one of {', '.join(NAMES)}, B2c:0, B2c:1, … or an operator; got {name!r}")

    def _operator(self, coefficients: _coefficients.Coefficients) -> CurvatureOperator:
        return CurvatureOperator(self._engine, self._subset, coefficients)

    def _component(self, coefficients: _coefficients.Coefficients) -> CurvatureOperator:
        loss, target = self._engine.loss, self._engine.batches.first.target
        if isinstance(loss, ModelLoss):
            has_classes = loss.is_classification
        else:
            labels = isinstance(target, Tensor) and not target.is_floating_point()
            has_classes = isinstance(loss, CrossEntropy) and labels
        if not has_classes:
            message = "soft targets" if isinstance(loss, CrossEntropy) else loss.name
            raise TypeError(
                f"the class components A1, A2, B1, B2 need cross-entropy with class labels; got {message}. "
                "Hess, G and H are there for every loss."
            )
        return self._operator(coefficients)

    def products(self, x: Tensor) -> dict[str, Tensor]:
        """Return Hess x, G x and H x together: one double backward gives Hx and Jx, and Hess x is the sum.

        Parameters
        ----------
        x : Tensor
            A flat vector.

        Returns
        -------
        dict of str to Tensor
            The products under "Hess", "G" and "H".
        """
        H, G = self._engine.together(self._subset, x)
        return {"Hess": H + G, "G": G, "H": H}

    # -- parameters --------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in the order of the flat vectors."""
        return self._subset.names

    def flatten(self, named: Mapping[str, Tensor]) -> Tensor:
        """Return named tensors in the shapes of the parameters as one flat vector.

        Parameters
        ----------
        named : mapping of str to Tensor
            One tensor per parameter, in its shape.

        Returns
        -------
        Tensor
            The flat vector, of the operators' dtype and device.

        Raises
        ------
        ValueError
            If a parameter is missing, or a shape does not fit.
        """
        operator = self.Hess
        return self._subset.flatten(named, dtype=operator.dtype, device=operator.device)

    def unflatten(self, x: Tensor) -> dict[str, Tensor]:
        """Return a flat vector (an eigenvector, say) as named views in the shapes of the parameters.

        Parameters
        ----------
        x : Tensor
            A flat vector.

        Returns
        -------
        dict of str to Tensor
            Views of x by the names of the parameters.

        Raises
        ------
        ValueError
            If x has another length.
        """
        return self._subset.unflatten(x)

    def subset(self, params: Any) -> Self:
        """Return the curvature with respect to some of the parameters, sharing data and graphs with this one.

        Parameters
        ----------
        params : str, Module, Tensor or sequence of these
            Names, glob patterns, modules or parameters.

        Returns
        -------
        Curvature
            The curvature on these parameters.

        Raises
        ------
        ValueError
            If a parameter is not among those of this object.
        """
        names = select(self._engine.forward.model, params)
        missing = [name for name in names if name not in self._subset.names]
        if missing:
            raise ValueError(f"`params` must be among those of the Curvature; {missing[0]!r} is not")
        return self._sharing(self._engine, self._subset.restricted(names))
