"""Densities of curvature operators, of several at once and layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Literal

import specdens as sd
from specdens_torch._operator_family import OperatorFamily
from specdens_torch._operators.curvature_operator import CurvatureOperator
from specdens_torch._operators.densities import DensityOptions, Method, ProgressOption, densities_of, with_dual
from specdens_torch._operators.named_densities import Densities
from specdens_torch._parameter_groups import parameter_groups


class SpectralDensities(OperatorFamily):
    """The part of `Curvature` that computes densities, with the arguments of `specdens.spectral_density`."""

    def density(
        self,
        operator: str | CurvatureOperator = "Hess",
        *,
        dual: bool | None = None,
        method: Method | None = None,
        num_steps: int | None = None,
        num_probes: int | None = None,
        rank: int = 0,
        function: Literal["log"] | Callable[[Any], Any] | None = None,
        tol: float | None = None,
        max_products: int | None = None,
        seed: int = 0,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_interval: float = 60.0,
        progress: ProgressOption = None,
    ) -> sd.Density:
        """Return the density of one operator.

        Start vectors, known moments, an energy resolution and executors are arguments of
        ``specdens.spectral_density(curv.G, ...)`` alone.

        Parameters
        ----------
        operator : str or CurvatureOperator
            "Hess", "G", "H", "A1", "A2", "B1", "B2", "B2c:3" for the class 3, or any operator of this object.
        dual : bool, optional
            Whether to use the dual; by default where it has a closed form and the shorter vectors
            (`CurvatureOperator.cheaper_form`), which the density's notes then say.
        method, num_steps, num_probes, rank, function, tol, max_products, seed
            As for `specdens.spectral_density`.
        checkpoint, checkpoint_interval, progress
            As for `specdens.spectral_density`.

        Returns
        -------
        Density
            The density, with its measure.

        Raises
        ------
        ValueError
            If there is no such operator, it belongs to another `Curvature`, or an option is refused.
        """
        options = DensityOptions(
            method, num_steps, num_probes, rank, function, tol, max_products, seed,
            checkpoint, checkpoint_interval, progress,
        )  # fmt: skip
        return options.density(with_dual(self.operator(operator), dual))

    def densities(
        self,
        *operators: str | CurvatureOperator,
        dual: bool | None = False,
        method: Method | None = None,
        num_steps: int | None = None,
        num_probes: int | None = None,
        rank: int = 0,
        function: Literal["log"] | Callable[[Any], Any] | None = None,
        tol: float | None = None,
        max_products: int | None = None,
        seed: int = 0,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_interval: float = 60.0,
        progress: ProgressOption = None,
    ) -> Densities:
        """Return the densities of several operators, which start from the same random vectors.

        Sample by sample, then, tr Hess = tr G + tr H in nodes and weights (``weights[j] @ nodes[j]`` of the measures).
        `trace` gives isolated eigenvalues the mass of one each and agrees within its error only. Where graphs are not
        kept, the recurrences of "fast_lanczos" without `rank` and `tol` run side by side, and every pass makes the
        graphs once for all of the operators.

        Parameters
        ----------
        *operators : str or CurvatureOperator
            As for `density`; Hess, G and H by default.
        dual : bool, optional
            Whether to use duals. Their vectors live on the outputs, so their random vectors are others. None: where
            they are shorter, as `density` does.
        method, num_steps, num_probes, rank, function, tol, max_products, seed
            As for `specdens.spectral_density`.
        checkpoint : path, optional
            As for `specdens.spectral_density`; ``run.npz`` becomes ``run-G.npz`` and so on, unless the operators run
            side by side.
        checkpoint_interval, progress
            As for `specdens.spectral_density`; a progress function is told which operator of how many it is about.

        Returns
        -------
        Densities
            A dict by name, with a method `plot`. Operators on other parameters than those of this object carry them
            in their names.

        Raises
        ------
        ValueError
            If an operator is not known, belongs to another `Curvature` or is given twice, or an option is refused.
        """
        options = DensityOptions(
            method, num_steps, num_probes, rank, function, tol, max_products, seed,
            checkpoint, checkpoint_interval, progress,
        )  # fmt: skip
        named: dict[str, CurvatureOperator] = {}
        for given in operators or ("Hess", "G", "H"):
            A = self.operator(given)
            name = given if isinstance(given, str) else self._label(A)
            if name in named:
                raise ValueError(f"`operators` must differ from each other; {name!r} was given twice")
            named[name] = A
        return densities_of(named, dual=dual, options=options)

    def layer_densities(
        self,
        operator: str = "Hess",
        *,
        by: int | str | Mapping[str, Iterable[str]] | None = None,
        dual: bool | None = None,
        method: Method | None = None,
        num_steps: int | None = None,
        num_probes: int | None = None,
        rank: int = 0,
        function: Literal["log"] | Callable[[Any], Any] | None = None,
        tol: float | None = None,
        max_products: int | None = None,
        seed: int = 0,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_interval: float = 60.0,
        progress: ProgressOption = None,
    ) -> Densities:
        """Return the density of every layer (or block): the operator restricted to the parameters of each.

        Where graphs are not kept, all groups advance together, and every pass makes the graphs once for all of them.

        Parameters
        ----------
        operator : str
            As for `density`, by name.
        by : int, str or mapping, optional
            None for one group per module; a number of name parts (1: top-level blocks); "type" for the classes of
            modules, "role" for attention, mlp, embedding, norm and so on, "block" for numbered blocks, "block role"
            for both; or groups as name -> `params`.
        dual : bool, optional
            As for `density`.
        method, num_steps, num_probes, rank, function, tol, max_products, seed
            As for `specdens.spectral_density`. Blocks with fewer parameters than `num_steps` take as many steps as
            they have parameters, and those with at most `num_steps` times `num_probes` have all eigenvalues computed
            unless a method is asked for; the notes of their densities say so.
        checkpoint, checkpoint_interval, progress
            As for `densities`, with layers in the place of operators.

        Returns
        -------
        Densities
            A dict by the names of the groups, with a method `plot`.

        Raises
        ------
        ValueError
            If there is no such operator, `by` is not understood, or an option is refused.
        """
        options = DensityOptions(
            method, num_steps, num_probes, rank, function, tol, max_products, seed,
            checkpoint, checkpoint_interval, progress,
        )  # fmt: skip
        groups = parameter_groups(self._engine.forward.model, self.names, by)
        return densities_of(
            {name: self.subset(params).operator(operator) for name, params in groups.items()},
            dual=dual,
            options=options,
            blocks=True,
        )

    def _label(self, A: CurvatureOperator) -> str:
        """Return a name for an operator, with its parameters where they are not those of this object."""
        return str(A.coefficients) if A.subset == self._subset else f"{A.coefficients} ({A.subset.describe()})"
