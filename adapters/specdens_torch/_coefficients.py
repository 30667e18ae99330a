"""Coefficients of the operators h H + JᵀSJ, with S a combination of projections in output space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

PARTS = ("A1", "A2", "B1", "B2")


@dataclass(frozen=True)
class Coefficients:
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

    @property
    def is_positive(self) -> bool:
        """Whether this is a sum of components of G with coefficients of at least 0: X D Xᵀ with D ≥ 0."""
        values = (*self.parts, *(self.parts[3] + value for _, value in self.classes))
        return not self.h and self.has_g and min(values) >= 0

    def plus(self, other: Coefficients) -> Coefficients:
        classes = dict(self.classes)
        for c, value in other.classes:
            classes[c] = classes.get(c, 0.0) + value
        kept = tuple((c, value) for c, value in sorted(classes.items()) if value != 0.0)
        a, b = self.parts, other.parts
        return Coefficients(self.h + other.h, (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]), kept)

    def times(self, factor: float) -> Coefficients:
        a = self.parts
        return Coefficients(
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
        message = ""
        for value, name in terms:
            if value == 0.0:
                continue
            sign = (" - " if message else "-") if value < 0 else (" + " if message else "")
            message += sign + (name if abs(value) == 1.0 else f"{abs(value):g} {name}")
        return message or "0"


HESS = Coefficients(1.0, (1.0, 1.0, 1.0, 1.0))
G = Coefficients(0.0, (1.0, 1.0, 1.0, 1.0))
H = Coefficients(1.0)
A1 = Coefficients(0.0, (1.0, 0.0, 0.0, 0.0))
A2 = Coefficients(0.0, (0.0, 1.0, 0.0, 0.0))
B1 = Coefficients(0.0, (0.0, 0.0, 1.0, 0.0))
B2 = Coefficients(0.0, (0.0, 0.0, 0.0, 1.0))


class ClassMeans:
    """Means over the examples of a class in the p-weighted inner product.

    Tables have one row per class that occurs in the data, and one column per class.

    Parameters
    ----------
    classes : Tensor
        The classes that occur, in increasing order.
    weights : Tensor
        w_{c,c'}, the sum of ω p_{i,c'} over the examples i of class c, of shape (classes that occur, C).
    """

    def __init__(self, classes: Tensor, weights: Tensor) -> None:
        self.classes, self.weights = classes, weights
        self.num_rows, self.num_classes = weights.shape
        self._rows = torch.zeros(self.num_classes, dtype=torch.int64, device=weights.device)
        self._rows[classes] = torch.arange(self.num_rows, device=weights.device)
        self._diagonal = classes[:, None] == torch.arange(self.num_classes, device=weights.device)
        self._inverse = _inverse(weights)
        self._inverse_off = _inverse(weights.masked_fill(self._diagonal, 0.0).sum(1, keepdim=True))

    def rows(self, labels: Tensor) -> Tensor:
        """Return the rows of the tables that belong to labels."""
        return self._rows[labels]

    def sums(self, entries: Tensor, labels: Tensor) -> Tensor:
        """Return the sums of the rows of entries over the examples of every class that occurs."""
        return class_sums(entries, self.rows(labels), self.num_rows)

    def table(self, sums: Tensor, coefficients: Coefficients) -> tuple[Tensor, Tensor]:
        """Return M and β such that the component's coefficients are ω p (β_y a + M_y), for sums Σ ω p a per class."""
        a1, a2, b1, _ = coefficients.parts
        beta = torch.full_like(sums[:, :1], coefficients.parts[3])
        for c, value in coefficients.classes:  # on the device: nothing is sent there
            beta += value * (self.classes[:, None] == c)
        mean = sums * self._inverse
        off = sums.masked_fill(self._diagonal, 0.0).sum(1, keepdim=True) * self._inverse_off
        table = (a1 - b1) * off + (b1 - beta) * mean
        return torch.where(self._diagonal, (a2 - beta) * mean, table), beta


def merged_sums(parts: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the classes that occur and the sums over all batches, from (labels, entries) of every batch."""
    classes: Tensor | None = None
    for labels, entries in parts:
        found, rows = _distinct(labels, entries.shape[1])
        sums = class_sums(entries, rows, len(found))
        if classes is None:
            classes, total = found, sums
        elif found.is_meta or torch.equal(found, classes):
            total += sums
        else:
            both, rows = torch.unique(torch.cat([classes, found]), return_inverse=True)
            classes, total = both, class_sums(torch.cat([total, sums]), rows, len(both))
    if classes is None:
        raise ValueError("`parts` must have at least one batch; got none")
    return classes, total


def _distinct(labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    if labels.is_meta:  # which classes occur is not known
        return torch.arange(num_classes, device=labels.device), labels
    found, rows = torch.unique(labels, return_inverse=True)
    return found, rows


def class_sums(entries: Tensor, rows: Tensor, num_rows: int) -> Tensor:
    """Return the sums of all entries that belong to one row, of shape (rows, C)."""
    sums = torch.zeros((num_rows, entries.shape[1]), dtype=entries.dtype, device=entries.device)
    return sums.index_add_(0, rows, entries)


def _inverse(w: Tensor) -> Tensor:
    """Return 1 / w, and 0 where w is: an empty class has no mean."""
    return torch.where(w > 0, 1.0 / torch.where(w > 0, w, 1.0), 0.0)
