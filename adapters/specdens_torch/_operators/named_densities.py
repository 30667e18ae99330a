"""Densities by name, with their picture."""

from __future__ import annotations

from html import escape
from typing import Any, Literal

import specdens as sd


class Densities(dict[str, sd.Density]):
    """Densities by the names of operators or layers: a dict that draws itself.

    In a notebook it shows every density with its name.

    Examples
    --------
    >>> import torch, specdens as sd, specdens_torch as sdt
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
    >>> curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), (torch.randn(30, 4), torch.arange(30) % 3))
    >>> densities = curv.densities("Hess", "G", "H")
    >>> list(densities)
    ['Hess', 'G', 'H']
    """

    def plot(self, ax: Any = None, *, x: Literal["linear", "symlog"] = "linear", log_y: bool = True) -> Any:
        """Draw all densities on shared axes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The Axes to draw in; by default those of a new figure.
        x : {"linear", "symlog"}, default "linear"
            The scale of the eigenvalues.
        log_y : bool, default True
            Whether the density is on a logarithmic axis, as in the paper.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        return sd.plot_densities(dict(self), ax=ax, x=x, log_y=log_y)

    def _repr_html_(self) -> str:
        return "".join(f"<h4>{escape(name)}</h4>{density._repr_html_()}" for name, density in self.items())

    def __repr__(self) -> str:
        parts = [f"{name}: {str(density).splitlines()[0]}" for name, density in self.items()]
        return "\n".join([f"Densities({len(self)})", *(f"  {part}" for part in parts)])
