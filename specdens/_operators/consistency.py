"""Checks that products are deterministic and in range, leave x alone, and are those of a Hermitian operator."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from specdens._operators.base import Operator
from specdens._operators.products import ReusedMemoryError
from specdens._typing import Array

_SMALLEST = 1e-140  # of entries, so that squares stay in the range of float64


def tolerance(A: Operator) -> float:
    """Return the relative difference beyond which two numbers that should agree do not: half the digits."""
    return float(np.sqrt(A.vectors.eps))


def check_determinism(A: Operator, v: Array, w: Array) -> Array:
    """Repeat the product with one vector and compare; return the product, in memory of its own."""
    vectors = A.vectors
    first = v if v.ndim == 1 else vectors.copy(v[:, 0])
    try:
        again = A.apply_within(first)
    except ReusedMemoryError:  # seen in time: both products are made again, as copies
        w, again = A.apply_within(v), A.apply_within(first)
    length = float(vectors.to_host(vectors.norm(first)))
    if abs(length - 1.0) > tolerance(A):
        raise ValueError(
            f"A @ x overwrites x: the norm of a unit vector is {length:.3g} after the product. Work on a copy of x."
        )
    product = w if w.ndim == 1 else w[:, 0]
    again = vectors.axpy(vectors.from_host(np.asarray(-1.0)), product, again)
    difference, size = (float(vectors.to_host(vectors.norm(x))) for x in (again, product))
    # what is left of known eigenvalues that were projected out is rounding, different in a block and alone
    rounding = 100 * A.vectors.eps * float(np.max(np.abs(A.known_atoms.positions), initial=0.0))
    if difference > tolerance(A) * size + rounding:
        raise ValueError(
            f"the operator is not deterministic: two products with the same vector differ by {difference / size:.2g} "
            "of their size. Dropout, batch statistics or a shuffling loader make products random; switch them off."
        )
    return w


def check_range(A: Operator, w: Array) -> None:
    """Refuse a first product whose squares leave the range of float64."""
    largest = float(A.vectors.to_host(A.vectors.largest(w)).real)
    if np.isfinite(largest) and largest != 0 and not _SMALLEST < largest < 1 / _SMALLEST:
        raise ValueError(
            f"the operator's products have entries of size {largest:.0e}, whose squares leave the range of float64. "
            f"Scale it, for instance {1 / largest:.0e} * sd.as_operator(A)."
        )


def asymmetry_message(difference: str, *, is_complex: bool) -> str:
    """Return the sentence that says that an operator is not symmetric, or not Hermitian if it is complex."""
    return f"the operator is not {'Hermitian' if is_complex else 'symmetric'}: {difference}"


def asymmetry_remedy(A: Operator) -> str:
    """Return what to do about an operator that is not symmetric."""
    if A.is_matrix:
        adjoint = "A.conj().T" if A.vectors.is_complex else "A.T"
        return (
            f"A matrix that differs from {adjoint}, as that of a directed graph, has no density of real eigenvalues. "
            f"Take (A + {adjoint}) / 2, or sd.gram(A) for its singular values."
        )
    remedy = (
        "Dropout or batch statistics make products random; put the model in eval mode. An operator without a model "
        "must equal its adjoint: see check_operator."
    )
    return " ".join([remedy, *(f"Note: {note}." for note in A.notes)])


def check_symmetry(
    found: ArrayLike, expected: ArrayLike, A: Operator, *, names: tuple[str, str], scale: ArrayLike, rtol: float
) -> None:
    """Raise if two sets of inner products that agree for a Hermitian operator differ by more than rtol · scale.

    Numbers that are not finite are left to the check that names them. `names` says what was compared.
    """
    found, expected = np.atleast_1d(found), np.atleast_1d(expected)
    difference = np.abs(found - expected)
    wrong = np.isfinite(difference) & (difference > rtol * np.asarray(scale))
    if np.any(wrong):
        worst = int(np.argmax(np.where(wrong, difference, 0.0)))
        a, b = found.flat[worst], expected.flat[worst]
        what = "{} = {} but {} = {}".format(*itertools.chain(*zip(names, _told_apart(a, b), strict=True)))
        raise ValueError(f"{asymmetry_message(what, is_complex=np.iscomplexobj(found))}. {asymmetry_remedy(A)}")


def _told_apart(a: complex, b: complex) -> tuple[str, str]:
    """Return two numbers with as many digits as tell them apart, three at least."""
    pairs = ((f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in range(3, 18))
    return next((pair for pair in pairs if pair[0] != pair[1]), (str(a), str(b)))


def check_real(values: ArrayLike, *, scale: ArrayLike, rtol: float, step: int, probes: Sequence[int]) -> None:
    """Raise if ⟨v, Av⟩ of a probe has an imaginary part beyond rtol · scale: a Hermitian operator has none."""
    values = np.atleast_1d(values)
    for j in np.flatnonzero(np.abs(values.imag) > rtol * np.asarray(scale)):
        what = f"⟨v, Av⟩ = {values[j]:.3g} is not real (step {step} of probe {probes[int(j)]})."
        raise ValueError(asymmetry_message(what, is_complex=True))
