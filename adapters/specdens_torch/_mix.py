"""Members of the family: h H + JᵀSJ, with S a combination of projections in output space (design decision 10)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

PARTS = ("A1", "A2", "B1", "B2")


@dataclass(frozen=True)
class Mix:
    """The coefficients of H, of the four components of G, and of the parts B2c of B2."""

    h: float = 0.0
    parts: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    classes: tuple[tuple[int, float], ...] = field(default=())
    """Further multiples of B2c, as pairs (class, coefficient)."""

    @property
    def coupled(self) -> bool:
        """Whether the component needs class means, which run over all batches."""
        return len(set(self.parts)) > 1 or bool(self.classes)

    @property
    def has_g(self) -> bool:
        return any(self.parts) or bool(self.classes)

    @property
    def has_b2(self) -> bool:
        """Whether the examples themselves matter, not their class means alone."""
        return self.parts[3] != 0.0 or bool(self.classes)

    def plus(self, other: Mix) -> Mix:
        classes = dict(self.classes)
        for c, value in other.classes:
            classes[c] = classes.get(c, 0.0) + value
        kept = tuple((c, value) for c, value in sorted(classes.items()) if value != 0.0)
        a, b = self.parts, other.parts
        return Mix(self.h + other.h, (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]), kept)

    def times(self, factor: float) -> Mix:
        a = self.parts
        return Mix(
            self.h * factor,
            (a[0] * factor, a[1] * factor, a[2] * factor, a[3] * factor),
            tuple((c, value * factor) for c, value in self.classes if value * factor != 0.0),
        )

    def b2(self, num_classes: int) -> list[float]:
        """Return the coefficient of B2 for every class."""
        values = [self.parts[3]] * num_classes
        for c, value in self.classes:
            values[c] += value
        return values

    def __str__(self) -> str:
        terms = []
        g = max(self.parts, key=self.parts.count) if not self.h else self.parts[3]
        if self.h and g == self.h:
            terms.append((self.h, "Hess"))
        else:
            terms += [(self.h, "H"), (g, "G")]
        terms += [(value - g, name) for value, name in zip(self.parts, PARTS, strict=True)]
        terms += [(value, f"B2c({c})") for c, value in self.classes]
        plain = [(self.parts[k], PARTS[k]) for k in range(4)]
        if not self.h and not self.classes and self.parts.count(0.0) >= 2 and self.has_g:
            terms = plain
        said = ""
        for value, name in terms:
            if value == 0.0:
                continue
            sign = (" - " if said else "-") if value < 0 else (" + " if said else "")
            said += sign + (name if abs(value) == 1.0 else f"{abs(value):g} {name}")
        return said or "0"


HESS = Mix(1.0, (1.0, 1.0, 1.0, 1.0))
G = Mix(0.0, (1.0, 1.0, 1.0, 1.0))
H = Mix(1.0)
A1 = Mix(0.0, (1.0, 0.0, 0.0, 0.0))
A2 = Mix(0.0, (0.0, 1.0, 0.0, 0.0))
B1 = Mix(0.0, (0.0, 0.0, 1.0, 0.0))
B2 = Mix(0.0, (0.0, 0.0, 0.0, 1.0))


class ClassMeans:
    """Means over the examples of a class in the p-weighted inner product (math.md §1).

    Parameters
    ----------
    weights
        w_{c,c'}, the sum of ω p_{i,c'} over the examples i of class c, of shape (C, C).
    """

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights
        C = weights.shape[0]
        self.num_classes = C
        self._diagonal = torch.eye(C, dtype=torch.bool, device=weights.device)
        self._inverse = _inverse(weights)
        self._inverse_off = _inverse(weights.masked_fill(self._diagonal, 0.0).sum(1, keepdim=True))

    def table(self, sums: Tensor, mix: Mix) -> tuple[Tensor, Tensor]:
        """Return M and β such that the component's coefficients are ω p (β_y a + M_y), for sums Σ ω p a per class."""
        a1, a2, b1, _ = mix.parts
        beta = torch.full_like(sums[:, :1], mix.parts[3])
        for c, value in mix.classes:  # on the device: nothing is sent there
            beta[c] += value
        mean = sums * self._inverse
        off = sums.masked_fill(self._diagonal, 0.0).sum(1, keepdim=True) * self._inverse_off
        table = (a1 - b1) * off + (b1 - beta) * mean
        return torch.where(self._diagonal, (a2 - beta) * mean, table), beta


def class_sums(rows: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return the sums of the rows of every class, of shape (C, C)."""
    sums = torch.zeros((num_classes, rows.shape[1]), dtype=rows.dtype, device=rows.device)
    return sums.index_add_(0, labels, rows)


def _inverse(w: Tensor) -> Tensor:
    """Return 1 / w, and 0 where w is: an empty class has no mean."""
    return torch.where(w > 0, 1.0 / torch.where(w > 0, w, 1.0), 0.0)
