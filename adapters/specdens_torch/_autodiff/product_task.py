"""One product, to be done in passes over the batches."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from specdens_torch._autodiff.gradient_buffer import GradientBuffer
from specdens_torch._coefficients import Coefficients
from specdens_torch._parameters import Subset


@dataclass
class Task:
    """One product: the coefficients of the operator, the vector, and the buffer for the result."""

    coefficients: Coefficients
    subset: Subset
    x: Tensor
    out: Tensor
    factor: float = 1.0
    sums: Tensor | None = None
    jvps: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.coefficients.h not in (0.0, 1.0):  # H comes with coefficient 1; the rest follows
            self.factor = self.coefficients.h
            self.coefficients = self.coefficients.times(1.0 / self.factor)
        self.v = self.subset.tangents(self.x)
        self.restart()

    def restart(self) -> None:
        """Forget what was done so far."""
        self.sums, self.jvps = None, []
        self.buffer = GradientBuffer(self.subset, self.out)
